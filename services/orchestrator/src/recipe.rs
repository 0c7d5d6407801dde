//! Recipes: everything that decides what a run does.
//!
//! The orchestrator knows its own sections ([`Recipe`]). Settings of other services, and the model, belong to the program that composes
//! the services; it reads the whole file and hands over a [`ResolvedRecipe`].

use std::path::{Path, PathBuf};
use std::sync::Arc;

use evenkeel_config::{ConfigError, Loader, Settings};
use evenkeel_proto::FieldError;
use serde::{Deserialize, Serialize};

use crate::error::RunError;
use crate::load::LoadLimits;
use crate::settings::{
    CheckpointSettings, DataSettings, EvaluationSettings, RunSettings, SamplingSettings, ServicesSettings,
    ShapingSettings, WarmStartSettings,
};

/// The sections that are the orchestrator's own.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Recipe {
    /// The run: name, seed, steps.
    pub run: RunSettings,
    /// Problems.
    pub data: DataSettings,
    /// How the policy is sampled.
    pub sampling: SamplingSettings,
    /// From raw to shaped rewards.
    pub shaping: ShapingSettings,
    /// Supervised steps before the first GRPO step.
    pub warm_start: WarmStartSettings,
    /// Problems that are never trained on.
    pub evaluation: EvaluationSettings,
    /// What is kept on disk.
    pub checkpoint: CheckpointSettings,
    /// Deadlines and retries.
    pub services: ServicesSettings,
}

impl Settings for Recipe {
    fn validate(&self) -> Result<(), FieldError> {
        self.run.validate().map_err(|error| error.within("run"))?;
        self.warm_start.validate().map_err(|error| error.within("warm_start"))?;
        self.checkpoint.validate().map_err(|error| error.within("checkpoint"))?;
        self.sampling.validate().map_err(|error| error.within("sampling"))?;
        self.shaping.validate_with(&self.sampling).map_err(|error| error.within("shaping"))?;
        self.evaluation.validate().map_err(|error| error.within("evaluation"))?;
        self.data.validate().map_err(|error| error.within("data"))?;
        self.services.validate().map_err(|error| error.within("services"))
    }
}

impl Recipe {
    /// The settings that decide what the run computes. What may change when it is resumed (`run.name`, `run.steps`, `evaluation` but
    /// `problems`, `checkpoint`, `services`) is as by default.
    pub fn rules(&self) -> Self {
        let run = RunSettings { seed: self.run.seed, name: String::new(), steps: 0 };
        Self {
            run,
            evaluation: EvaluationSettings { problems: self.evaluation.problems, ..EvaluationSettings::default() },
            checkpoint: CheckpointSettings::default(),
            services: ServicesSettings::default(),
            ..self.clone()
        }
    }

    /// Refuses a recipe that asks for more than the limits allow, before anything is read or written.
    pub(crate) fn validate_within(&self, limits: &LoadLimits) -> Result<(), FieldError> {
        let sampling = &self.sampling;
        let refuse = |field: &str, value: u64, limit: u64| match value <= limit {
            true => Ok(()),
            false => Err(FieldError::new(field, value, format!("at most {limit} (limits.max_step_samples)"))),
        };
        let prompts = sampling.prompts_per_step.max(sampling.max_prompts_per_step);
        let samples = u64::from(prompts).saturating_mul(sampling.group_size.into());
        refuse("samples of a step", samples, limits.max_step_samples)?;
        let examples = self.warm_start.examples_per_step.into();
        refuse("warm_start.examples_per_step", examples, limits.max_step_samples)?;
        crate::load::check_secrets(&self.services.client).map_err(|error| error.within("services.client"))
    }
}

/// A recipe whose sections are all validated, and what follows from them.
#[derive(Debug, Clone)]
pub struct ResolvedRecipe {
    /// The orchestrator's own sections.
    pub recipe: Recipe,
    /// All sections as TOML: what `config.toml` and the report show, and what a resumed run starts from.
    pub toml: String,
    /// Digest of everything that decides what the run computes. A run is resumed with the same one only.
    pub identity: String,
    /// The model that the run begins with.
    pub model: Arc<dyn ModelSource>,
    /// Digest of the learner's settings; a learner with others is refused. `None`: the learner's own is taken.
    pub learner_settings_hash: Option<String>,
    /// The rule by which token terms are summed, for the summary.
    pub aggregation: Option<String>,
    /// What a person should know before the run starts, such as settings without effect, a sentence each.
    pub notes: Vec<String>,
}

impl ResolvedRecipe {
    /// A recipe of the orchestrator's own sections alone, with the settings of services that run already.
    ///
    /// # Errors
    /// A section that TOML cannot write.
    pub fn new(recipe: Recipe, model: impl ModelSource + 'static) -> Result<Self, ConfigError> {
        let toml = toml::to_string_pretty(&recipe).map_err(|error| ConfigError::Write(error.to_string()))?;
        let identity = identity(&recipe.rules());
        let model = Arc::new(model);
        Ok(Self { recipe, toml, identity, model, learner_settings_hash: None, aggregation: None, notes: Vec::new() })
    }
}

impl ResolvedRecipe {
    /// The folder of the model, as [`ModelSource::folder`] gives it.
    ///
    /// # Errors
    /// Those of the source; a folder without config.json or tokenizer.json.
    pub fn model_folder(&self, run_directory: &Path, limits: &LoadLimits) -> Result<PathBuf, RunError> {
        let folder = self.model.folder(run_directory, limits)?;
        for name in ["config.json", "tokenizer.json"] {
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
    // JSON of sorted maps: the order in which a file has its keys does not matter.
    let text = serde_json::to_value(rules).map(|value| value.to_string());
    evenkeel_files::sha256(text.expect("settings are texts, numbers and tables with text keys"))
}

/// Where the model is that a run begins with. A plain path is the folder itself.
pub trait ModelSource: std::fmt::Debug + Send + Sync {
    /// The Hugging Face folder, which is written where it does not exist yet.
    ///
    /// # Errors
    /// A model beyond the limits, before anything is written; a folder that cannot be written or holds something else.
    fn folder(&self, run_directory: &Path, limits: &LoadLimits) -> Result<PathBuf, RunError>;
}

impl ModelSource for PathBuf {
    fn folder(&self, _: &Path, _: &LoadLimits) -> Result<PathBuf, RunError> {
        Ok(self.clone())
    }
}

/// Reads recipes for a server: the program implements it, which knows the settings of every service.
pub trait RecipeReader: Send + Sync {
    /// Names of the recipes that come with the program.
    fn names(&self) -> Vec<&str>;

    /// The TOML of one of them.
    fn built_in(&self, name: &str) -> Option<&str>;

    /// Loads and validates all sections.
    ///
    /// # Errors
    /// The first setting that cannot be, with the place where it was written.
    fn resolve(&self, loader: Loader) -> Result<ResolvedRecipe, ConfigError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str) -> Result<Recipe, String> {
        let loaded = Loader::new().text("test", text).and_then(Loader::load::<Recipe>);
        loaded.map(|loaded| loaded.settings).map_err(|error| error.to_string())
    }

    #[test]
    fn impossible_settings_name_key_value_and_what_is_allowed() {
        let cases = [
            ("[run]\nsteps = 0", "`run.steps` is 0 in test, allowed: at least 1"),
            ("[run]\nname = \"a/b\"", "`run.name` is \"a/b\" in test, allowed: letters"),
            ("[samplign]\n", "unknown key `samplign` in test, nearest allowed: `sampling`"),
            (
                "[sampling]\ngroup_sise = 3",
                "unknown key `sampling.group_sise` in test, nearest allowed: `sampling.group_size`",
            ),
            ("[sampling]\ngroup_size = \"x\"", "`sampling.group_size` is \"x\" in test, allowed: an integer"),
            (
                "[sampling]\ndynamic = true\ngroup_size = 1",
                "`sampling.group_size` is 1 in test, allowed: at least 2 with",
            ),
            (
                "[sampling]\nmax_prompts_per_step = 5",
                "`sampling.max_prompts_per_step` is 5 in test, allowed: 0 without",
            ),
            ("[sampling]\ntemperature = 0.0", "`sampling.temperature` is 0 in test, allowed: a finite number above 0"),
            (
                "[evaluation]\nsamples = 4",
                "`evaluation.samples` is 4 in test, allowed: 1 with evaluation.temperature 0",
            ),
            ("[data]\nkind = \"files\"", "`data.files` is absent in"),
            ("[data]\nkind = \"jsonl\"", "`data.kind` is \"jsonl\" in test, allowed: "),
            ("[data]\npath = \"x\"", "unknown key `data.path` in test, now called `data.files`"),
            (
                "[data]\nheld_out_path = \"x\"",
                "unknown key `data.held_out_path` in test, now called `data.held_out_files`",
            ),
            ("[data]\nkind = \"arithmetic\"\nfiles = [\"x\"]", "`data.files` is x in test, allowed: absent with"),
            (
                "[data]\nfiles = [\"x\"]\n[[data.sources]]\nfiles = [\"y\"]",
                "`data.sources` is 1 sources in test, allowed: absent beside data.files",
            ),
            (
                "[[data.sources]]\nfiles = [\"a/x.parquet\"]\n[[data.sources]]\nfiles = [\"b/x.jsonl\"]",
                "`data.sources[1].name` is \"x\" in test, allowed: a name that no other source has",
            ),
            (
                "[[data.sources]]\nfiles = [\"x\"]\nweight = 0.0",
                "`data.sources[0].weight` is 0 in test, allowed: a finite number above 0",
            ),
            ("[[data.sources]]\nname = \"x\"", "`data.sources[0].files` is absent in test"),
            (
                "[data]\nfiles = [\"x\"]\nfilters = [{ field = \"level\", min = \"6/8\", max = \"1/8\" }]",
                "`data.filters[0].min` is 0.75 in test, allowed: at most `max`",
            ),
            (
                "[data]\nfiles = [\"x\"]\nfilters = [{ field = \"level\", min = \"hard\" }]",
                "`data.filters[0].min` is hard in test, allowed: a number or a fraction",
            ),
            (
                "[data]\nfiles = [\"x\"]\nfilters = [{ field = \"level\" }]",
                "`data.filters[0].values` is absent in test, allowed: `values`, or",
            ),
            (
                "[data]\nprogram_mode = \"livecodebench\"\nprogram_reward = \"passed-fraction\"",
                "`data.program_reward` is passed-fraction in test, allowed: all-or-nothing with",
            ),
            (
                "[services]\nbackoff_max_ms = 1",
                "`services.backoff_max_ms` is 1 in test, allowed: at least services.backoff_initial_ms",
            ),
            (
                "[services.client]\nconnect_timeout_ms = 0",
                "`services.client.connect_timeout_ms` is 0 in test, allowed: at least 1",
            ),
        ];
        for (text, words) in cases {
            let error = load(text).unwrap_err();
            assert!(error.starts_with(words), "{text}: {error}");
        }
    }

    #[test]
    fn what_a_resumed_run_may_change_is_not_its_identity() {
        let of = |text: &str| identity(&load(text).unwrap().rules());
        assert_eq!(of(""), of("[run]\nsteps = 500\n[checkpoint]\nevery = 3"));
        assert_ne!(of(""), of("[sampling]\ngroup_size = 3"));
    }

    #[test]
    fn what_a_recipe_asks_for_is_bounded_before_anything_is_read() {
        type Change = dyn Fn(&mut Recipe);
        let cases: [(&Change, &str); 3] = [
            (&|recipe| recipe.sampling.prompts_per_step = u32::MAX, "samples of a step is"),
            (&|recipe| recipe.warm_start.examples_per_step = u32::MAX, "warm_start.examples_per_step is 4294967295"),
            (
                &|recipe| recipe.services.client.token_file = Some("/dev/zero".into()),
                "services.client.token_file is /dev/zero, which is a device",
            ),
        ];
        for (change, words) in cases {
            let mut recipe = Recipe::default();
            change(&mut recipe);
            let error = recipe.validate_within(&LoadLimits::default()).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
