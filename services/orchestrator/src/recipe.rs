//! Recipes: everything that decides what a run does.
//!
//! The orchestrator knows its own sections ([`LoopSettings`]). The program that composes the services knows the settings of all of them
//! and the model; it reads the whole recipe and passes a [`ResolvedRecipe`].

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use evenkeel_config::{ConfigError, Loader};
use evenkeel_hf::name;
use evenkeel_run_files::{ChangedSetting, RecipeRecord, Rules, flat};
use serde::Serialize;
use serde_json::Value;

use crate::error::RunError;
use crate::load::LoadLimits;
use crate::settings::{LoopSettings, PipelineSettings, RunSettings, StepOrder};

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
    /// Digest of the learner's settings; a learner with others is refused. `None`: the learner's own is taken.
    pub learner_settings_hash: Option<String>,
    /// Groups of the first update of a step. `None`: all of them, or unknown.
    pub groups_of_first_update: Option<u32>,
    /// The rule by which token terms are summed, for the summary.
    pub aggregation: Option<String>,
    /// The whole objective as a formula, for the summary.
    pub objective: Option<String>,
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
        let (identity, rules, origins) = (identity(&affecting), rules(&affecting), BTreeMap::new());
        let model = Arc::new(model);
        Ok(Self {
            settings,
            toml,
            identity,
            rules,
            origins,
            model,
            learner_settings_hash: None,
            groups_of_first_update: None,
            aggregation: None,
            objective: None,
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
    /// Those of the source; a folder without config.json or tokenizer.json.
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
    evenkeel_files::sha256(identified(rules).to_string())
}

/// The settings that [`identity`] is the digest of, each by its key in a recipe.
pub fn rules(settings: &impl Serialize) -> Rules {
    flat(&identified(settings))
}

fn identified(settings: &impl Serialize) -> Value {
    // Settings are structs and sorted maps: the order in which a file has its keys does not matter.
    let mut value = serde_json::to_value(settings).expect("settings are texts, numbers and tables with text keys");
    for (path, changes_nothing) in later_settings() {
        leave_out(&mut value, path, &changes_nothing);
    }
    value
}

/// Settings that earlier versions of the program did not have, with the value at which they change nothing: a run of such a version is then
/// the same run, and can be resumed. A setting is added here with the version that brings it, a section before its later keys.
fn later_settings() -> Vec<(&'static [&'static str], Value)> {
    let pipeline = || serde_json::to_value(PipelineSettings::default()).unwrap_or_default();
    let order = || serde_json::to_value(StepOrder::default()).unwrap_or_default();
    let versions = PipelineSettings::default().max_versions;
    let rollouts = || serde_json::to_value(RunSettings::default().rollouts).unwrap_or_default();
    let rollouts_disk = || serde_json::to_value(RunSettings::default().rollouts_disk).unwrap_or_default();
    vec![
        (&["pipeline"], pipeline()),
        (&["pipeline", "split"], 0.into()),
        (&["pipeline", "partial"], false.into()),
        (&["pipeline", "max_versions"], versions.into()),
        (&["orchestrator", "pipeline"], pipeline()),
        (&["orchestrator", "pipeline", "split"], 0.into()),
        (&["orchestrator", "pipeline", "partial"], false.into()),
        (&["orchestrator", "pipeline", "max_versions"], versions.into()),
        (&["pipeline", "order"], order()),
        (&["orchestrator", "pipeline", "order"], order()),
        (&["generation", "weights", "routes_required"], Value::Bool(false)),
        (&["checkpoint", "read_inputs_again"], Value::Bool(false)),
        (&["orchestrator", "checkpoint", "read_inputs_again"], Value::Bool(false)),
        (&["run", "rollouts"], rollouts()),
        (&["run", "rollouts_disk"], rollouts_disk()),
        (&["run", "rollout_tokens"], Value::Bool(false)),
        (&["orchestrator", "run", "rollouts"], rollouts()),
        (&["orchestrator", "run", "rollouts_disk"], rollouts_disk()),
        (&["orchestrator", "run", "rollout_tokens"], Value::Bool(false)),
    ]
}

/// Removes what is at a path, if it has this value.
fn leave_out(settings: &mut Value, path: &[&str], value: &Value) {
    let Some((key, sections)) = path.split_last() else { return };
    let inner = sections.iter().try_fold(settings, |section, key| section.get_mut(key));
    let Some(section) = inner.and_then(Value::as_object_mut) else { return };
    if section.get(*key) == Some(value) {
        // Keys keep their order, which the digest is of.
        section.shift_remove(*key);
    }
}

/// What a run of a recipe is called after: the last part of the recipe's name or path, without `.toml`. A version in a name stays:
/// `paper/qwen3-1.7b-dapo-balanced` gives `qwen3-1.7b-dapo-balanced`.
pub fn recipe_stem(name_or_path: &str) -> &str {
    let last = name_or_path.rsplit(['/', std::path::MAIN_SEPARATOR]).next().unwrap_or(name_or_path);
    last.strip_suffix(".toml").unwrap_or(last)
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

    /// The same for a run that is forked from one with the settings `origin`.
    ///
    /// # Errors
    /// As [`resolve`](Self::resolve); a setting that a fork must have as its origin has it.
    fn resolve_fork(&self, origin: Loader, fork: Loader) -> Result<ResolvedRecipe, ConfigError>;
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_later_setting_that_changes_nothing_is_no_part_of_what_a_run_is_recognised_by() {
        let rules = |max_lag: u32| {
            let mut settings = LoopSettings::default();
            settings.pipeline.max_lag = max_lag;
            serde_json::to_value(settings).unwrap()
        };
        let mut earlier = rules(0);
        // In the order in which it was written without the section.
        earlier.as_object_mut().unwrap().shift_remove("pipeline");
        assert_eq!(identity(&rules(0)), identity(&earlier));
        assert_eq!(identity(&json!({ "orchestrator": rules(0) })), identity(&json!({ "orchestrator": earlier })));
        assert_ne!(identity(&rules(1)), identity(&earlier));
        let mut before_rollouts = rules(0);
        let run = before_rollouts["run"].as_object_mut().unwrap();
        ["rollouts", "rollouts_disk", "rollout_tokens"].iter().for_each(|key| drop(run.shift_remove(*key).unwrap()));
        assert_eq!(identity(&rules(0)), identity(&before_rollouts));
        let mut lagging = rules(1);
        *lagging.get_mut("pipeline").unwrap() = json!({ "max_lag": 1 });
        assert_eq!(identity(&rules(1)), identity(&lagging), "the section had no other key at first");
        lagging["pipeline"]["order"] = "completion".into();
        assert_ne!(identity(&rules(1)), identity(&lagging));
        let generation = |weights: Value| json!({ "generation": { "weights": weights } });
        let earlier = generation(json!({ "pause_mode": "wait" }));
        assert_eq!(
            identity(&generation(json!({ "routes_required": false, "pause_mode": "wait" }))),
            identity(&earlier)
        );
        assert_ne!(identity(&generation(json!({ "routes_required": true, "pause_mode": "wait" }))), identity(&earlier));
    }
}
