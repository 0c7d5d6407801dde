//! Recipes: everything that decides what a run does.
//!
//! The orchestrator knows its own sections ([`LoopSettings`]). The program that composes the services knows the
//! settings of all of them and the model; it reads the whole recipe and passes a [`ResolvedRecipe`].

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use evenkeel_config::{ConfigError, Loader};
use evenkeel_model_folder::name;
use evenkeel_run::{ChangedSetting, RecipeRecord, Rules, flat};
use serde::Serialize;
use serde_json::Value;

use crate::error::RunError;
use crate::load::LoadLimits;
use crate::settings::LoopSettings;

/// A recipe whose sections are all validated, and what follows from them.
#[derive(Debug, Clone)]
pub struct ResolvedRecipe {
    /// The orchestrator's own sections.
    pub settings: LoopSettings,
    /// All sections as TOML: what `config.toml` and the report show, and what a resumed run starts from.
    pub toml: String,
    /// Digest of everything that decides what the run computes. A run is resumed with the same one only.
    pub identity: String,
    /// Everything that [`identity`](Self::identity) is the digest of, by the keys of a recipe.
    pub rules: Rules,
    /// Where these settings were written, as far as is known.
    pub origins: BTreeMap<String, String>,
    /// The model that the run begins with.
    pub model: Arc<dyn ModelSource>,
    /// The folder of a teacher, which the learner reads.
    pub teacher: Option<PathBuf>,
    /// Whether rewards have a part in the loss: where a teacher alone decides, rows need no verdict.
    pub learns_from_rewards: bool,
    /// Digest of the learner's settings; a learner with others is refused. `None`: the learner's own is taken.
    pub learner_settings_hash: Option<String>,
    /// Groups of the first update of a step. `None`: all of them, or unknown.
    pub groups_of_first_update: Option<u32>,
    /// The rule by which token terms are summed, for the summary.
    pub aggregation: Option<String>,
    /// The whole objective as a formula, for the summary.
    pub objective: Option<String>,
    /// Files that decide rewards besides those of `data.verifiers`, such as the rubric of a judge: inputs of the run.
    pub reward_files: Vec<PathBuf>,
    /// The settings that differ from their defaults, for the report.
    pub changed: Vec<ChangedSetting>,
    /// What the user should know before the run starts, such as settings without effect, a sentence each.
    pub notes: Vec<String>,
}

impl ResolvedRecipe {
    /// A recipe of the orchestrator's own sections alone, for services that are configured elsewhere.
    ///
    /// # Errors
    /// A section that TOML cannot write.
    pub fn new(settings: LoopSettings, model: impl ModelSource + 'static) -> Result<Self, ConfigError> {
        let toml = evenkeel_config::to_toml(&settings)?;
        let affecting = settings.result_affecting();
        let identity = identity(&affecting);
        let rules = rules(&affecting);
        let origins = BTreeMap::new();
        let model = Arc::new(model);
        Ok(Self {
            settings,
            toml,
            identity,
            rules,
            origins,
            model,
            teacher: None,
            learns_from_rewards: true,
            learner_settings_hash: None,
            groups_of_first_update: None,
            aggregation: None,
            objective: None,
            reward_files: Vec::new(),
            changed: Vec::new(),
            notes: Vec::new(),
        })
    }

    /// What a run directory keeps of it.
    pub fn record(&self) -> RecipeRecord<'_> {
        RecipeRecord {
            name: &self.settings.run.name,
            toml: &self.toml,
            identity: &self.identity,
            rules: &self.rules,
            origins: &self.origins,
            aggregation: self.aggregation.as_deref(),
            warm_start_steps: self.settings.warm_start.steps,
        }
    }

    /// The folder of the model, as [`ModelSource::folder`] gives it.
    ///
    /// # Errors
    /// What the source refuses; a folder without config.json or tokenizer.json.
    pub fn model_folder(&self, run_directory: &Path, limits: &LoadLimits) -> Result<PathBuf, RunError> {
        let folder = self.model.folder(run_directory, limits)?;
        for name in [name::CONFIG, name::TOKENIZER] {
            if !folder.join(name).exists() {
                let message = format!("has no {name}, allowed: the folder of a Hugging Face model");
                return Err(RunError::model(&folder, message));
            }
        }
        Ok(folder)
    }
}

/// Digest of settings, which are texts, numbers, lists and tables: `sha256:` and hexadecimal digits.
pub fn identity(rules: &impl Serialize) -> String {
    evenkeel_host::sha256(identified(rules).to_string())
}

/// The settings that [`identity`] is the digest of, each by its key in a recipe.
pub fn rules(settings: &impl Serialize) -> Rules {
    flat(&identified(settings))
}

fn identified(settings: &impl Serialize) -> Value {
    // Settings are structs and sorted maps: the order in which a file has its keys does not matter.
    serde_json::to_value(settings).expect("settings are texts, numbers and tables with text keys")
}

/// Where the model is that a run begins with. A plain path is the folder itself.
pub trait ModelSource: std::fmt::Debug + Send + Sync {
    /// The Hugging Face folder, which is written where it does not exist yet.
    ///
    /// # Errors
    /// A model beyond the limits, before anything is written; a folder that cannot be written or holds something else.
    fn folder(&self, run_directory: &Path, limits: &LoadLimits) -> Result<PathBuf, RunError>;

    /// The folder that the recipe names. `None` where the model is made for the run.
    fn named(&self) -> Option<&Path>;
}

impl ModelSource for PathBuf {
    fn named(&self) -> Option<&Path> {
        Some(self)
    }

    fn folder(&self, _: &Path, _: &LoadLimits) -> Result<PathBuf, RunError> {
        Ok(self.clone())
    }
}

/// Reads recipes for a server: the program implements it, which knows the settings of every service.
pub trait RecipeReader: Send + Sync {
    /// Names of the built-in recipes.
    fn names(&self) -> Vec<String>;

    /// The layers of one of them; `None` for any other name.
    ///
    /// # Errors
    /// A recipe that is not TOML.
    fn built_in(&self, name: &str) -> Result<Option<Loader>, ConfigError>;

    /// The layers of a recipe that a client sends as TOML. It may build on built-in recipes, but on no files.
    ///
    /// # Errors
    /// A text that is not TOML, or builds on something else.
    fn text(&self, text: &str) -> Result<Loader, ConfigError>;

    /// Recipes of this machine, by name or path, merged into one TOML text; later ones win.
    ///
    /// # Errors
    /// A recipe that does not exist, cannot be read, or is not TOML.
    fn merged(&self, recipes: &[String]) -> Result<String, ConfigError>;

    /// Loads and validates all sections.
    ///
    /// # Errors
    /// The first setting that cannot be, with the place where it was written.
    fn resolve(&self, loader: Loader) -> Result<ResolvedRecipe, ConfigError>;

    /// Loads and validates all sections of a run that is forked from one with the settings `origin`.
    ///
    /// # Errors
    /// As [`resolve`](Self::resolve); a setting that a fork must have as its origin has it.
    fn resolve_fork(&self, origin: Loader, fork: Loader) -> Result<ResolvedRecipe, ConfigError>;
}
