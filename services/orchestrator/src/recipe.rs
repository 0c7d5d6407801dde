//! Recipes: everything that decides what a run does, in one file.

use std::path::Path;

use evenkeel_config::{ConfigError, Loaded, Loader, Settings};
use evenkeel_proto::FieldError;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::RunError;
use crate::settings::{
    CheckpointSettings, DataSettings, EvaluationSettings, ModelSettings, RunSettings, SamplingSettings,
    ServicesSettings, ShapingSettings, WarmStartSettings, check_learner, check_own,
};

/// A section that belongs to another service, taken as it is written.
pub type Open = toml::Table;

/// The recipes that come with the program: name and text.
pub const BUILT_IN_RECIPES: &[(&str, &str)] =
    &[("arithmetic", include_str!("../../../deploy/recipes/arithmetic.toml"))];

/// Everything that a run is made of. The four sections of other services are typed by whoever has their types (the binary), and
/// are plain tables otherwise.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(
    default,
    deny_unknown_fields,
    bound(
        serialize = "L: Serialize, E: Serialize, G: Serialize, R: Serialize",
        deserialize = "L: DeserializeOwned + Default, E: DeserializeOwned + Default, G: DeserializeOwned + Default, R: DeserializeOwned + Default"
    )
)]
#[schemars(
    bound = "L: JsonSchema + Default + Serialize, E: JsonSchema + Default + Serialize, G: JsonSchema + Default + Serialize, R: JsonSchema + Default + Serialize"
)]
pub struct Recipe<L = Open, E = Open, G = Open, R = Open> {
    /// The run: name, seed, steps.
    pub run: RunSettings,
    /// What it begins with.
    pub model: ModelSettings,
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
    /// Deadlines and patience.
    pub services: ServicesSettings,
    /// Settings of the learner.
    pub learner: L,
    /// Settings of the embedded engine.
    pub engine: E,
    /// Settings of the generation service.
    pub generation: G,
    /// Settings of the reward service.
    pub reward: R,
}

impl<L, E, G, R> Settings for Recipe<L, E, G, R>
where
    L: Serialize + DeserializeOwned + Default,
    E: Serialize + DeserializeOwned + Default,
    G: Serialize + DeserializeOwned + Default,
    R: Serialize + DeserializeOwned + Default,
{
    fn validate(&self) -> Result<(), FieldError> {
        check_own(self)?;
        check_learner(self)
    }
}

impl Recipe {
    /// Digest of everything that decides what the run computes: what may change when it is resumed (`run.name`, `run.steps`,
    /// `evaluation` but `problems`, `checkpoint`, `services`) is left out. The sections of other services are taken as they are: whoever
    /// knows their types leaves out what decides no result, such as addresses and time-outs, before asking ([`Inspection::identity`]).
    pub fn identity(&self) -> String {
        let mut same = self.clone();
        same.run.name = String::new();
        same.run.steps = 0;
        same.evaluation = EvaluationSettings { problems: self.evaluation.problems, ..EvaluationSettings::default() };
        same.checkpoint = CheckpointSettings::default();
        same.services = ServicesSettings::default();
        // JSON of sorted maps: the order in which a file has its keys does not matter.
        let text = serde_json::to_value(&same).map(|value| value.to_string());
        evenkeel_files::sha256(text.expect("settings are texts, numbers and tables with text keys"))
    }
}

/// What the binary, which knows the type of every section, derives from a recipe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspection {
    /// The run's identity: [`Recipe::identity`] of the recipe without what decides no result. A run is resumed with the same one only.
    pub identity: String,
    /// Digest of the learner's settings as the recipe has them; a learner with others is refused. Absent: the learner's own is taken.
    pub learner_settings_hash: Option<String>,
    /// What a person should know before the run starts: settings that are of no effect, a sentence each.
    pub notes: Vec<String>,
}

impl Inspection {
    /// Of a recipe whose sections nobody knows the types of: every value in them is part of the identity.
    pub fn untyped(recipe: &Recipe) -> Self {
        Self { identity: recipe.identity(), learner_settings_hash: None, notes: Vec::new() }
    }
}

impl<L: Serialize, E: Serialize, G: Serialize, R: Serialize> Recipe<L, E, G, R> {
    /// The same with the sections of other services as plain tables.
    ///
    /// # Errors
    /// A section that TOML cannot write.
    pub fn to_open(&self) -> Result<Recipe, ConfigError> {
        let write = |error: toml::ser::Error| ConfigError::Write(error.to_string());
        Ok(Recipe {
            run: self.run.clone(),
            model: self.model.clone(),
            data: self.data.clone(),
            sampling: self.sampling.clone(),
            shaping: self.shaping.clone(),
            warm_start: self.warm_start.clone(),
            evaluation: self.evaluation.clone(),
            checkpoint: self.checkpoint.clone(),
            services: self.services.clone(),
            learner: Open::try_from(&self.learner).map_err(write)?,
            engine: Open::try_from(&self.engine).map_err(write)?,
            generation: Open::try_from(&self.generation).map_err(write)?,
            reward: Open::try_from(&self.reward).map_err(write)?,
        })
    }
}

/// The text of a recipe that comes with the program.
pub fn built_in_recipe(name: &str) -> Option<&'static str> {
    BUILT_IN_RECIPES.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// Adds a recipe to the layers of a loader: one that comes with the program by its name, otherwise a TOML file by its path. Add the
/// environment and `--set` arguments to the loader and [`Loader::load`] it as a [`Recipe`] of any section types.
///
/// # Errors
/// A name that is neither; a file that cannot be read or is no TOML.
pub fn load_recipe(loader: Loader, name_or_path: &str) -> Result<Loader, RunError> {
    if let Some(text) = built_in_recipe(name_or_path) {
        return Ok(loader.text(&format!("recipe {name_or_path}"), text)?);
    }
    let path = Path::new(name_or_path);
    if !path.exists() && path.extension().is_none() {
        let known: Vec<&str> = BUILT_IN_RECIPES.iter().map(|(name, _)| *name).collect();
        let allowed = format!("one of {}, or a TOML file", known.join(", "));
        return Err(FieldError::new("recipe", format_args!("`{name_or_path}`"), allowed).into());
    }
    Ok(loader.file(path)?)
}

/// A recipe from TOML and `section.key=value` overrides, with its sections of other services as tables.
pub(crate) fn recipe_of(origin: &str, toml: &str, overrides: &[String]) -> Result<Loaded<Recipe>, ConfigError> {
    Loader::new().text(origin, toml)?.set(overrides)?.load()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loaded(text: &str) -> Result<Recipe, String> {
        recipe_of("test", text, &[]).map(|loaded| loaded.settings).map_err(|error| error.to_string())
    }

    #[test]
    fn built_in_recipes_load_and_survive_being_written() {
        for (name, text) in BUILT_IN_RECIPES {
            let loaded = recipe_of(name, text, &[]).unwrap();
            let again = recipe_of(name, &loaded.to_toml().unwrap(), &[]).unwrap();
            assert_eq!(again.settings, loaded.settings, "{name}");
            assert_eq!(again.settings.identity(), loaded.settings.identity());
        }
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
                "[sampling]\ntemperature = 0.5\n[learner]\ntemperature = 1.0",
                "`learner.temperature` is 1 in test, allowed: sampling.temperature, which is 0.5",
            ),
            (
                "[evaluation]\nsamples = 4",
                "`evaluation.samples` is 4 in test, allowed: 1 with evaluation.temperature 0",
            ),
            ("[data]\ntask = \"jsonl\"", "`data.path` is absent in"),
            ("[data]\npath = \"x\"", "`data.path` is x in test, allowed: absent with"),
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
            let error = loaded(text).unwrap_err();
            assert!(error.starts_with(words), "{text}: {error}");
        }
    }

    #[test]
    fn what_a_resumed_run_may_change_is_not_its_identity() {
        let base = loaded("").unwrap();
        let longer = loaded("[run]\nsteps = 500\n[checkpoint]\nevery = 3").unwrap();
        let other = loaded("[learner.optimizer]\nlearning_rate = 0.1").unwrap();
        assert_eq!(base.identity(), longer.identity());
        assert_ne!(base.identity(), other.identity());
    }
}
