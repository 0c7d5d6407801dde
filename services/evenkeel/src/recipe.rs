//! Recipes: the settings of all services for one run.
//!
//! Services do not know each other's settings; this crate knows all of them. A value that several services need is set once and derived
//! for the others (see [`shared`]); a recipe that sets them to different values is refused.

mod compose;
mod shared;

use std::path::Path;

use anyhow::Result;
use evenkeel_config::{ConfigError, Loaded, Loader, Settings};
use evenkeel_engine::EngineSettings;
use evenkeel_generation::GenerationSettings;
use evenkeel_learner::{BatchShape, LearnerError, LearnerSettings};
use evenkeel_model::ModelError;
use evenkeel_orchestrator::{
    CheckpointSettings, DataSettings, EvaluationSettings, RecipeReader, ResolvedRecipe, RunSettings, SamplingSettings,
    ServicesSettings, ShapingSettings, WarmStartSettings,
};
use evenkeel_proto::FieldError;
use evenkeel_reward::RewardSettings;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(crate) use compose::ModelSettings;

/// Built-in recipes: name and text.
const BUILT_IN: &[(&str, &str)] = &[("arithmetic", include_str!("../../../deploy/recipes/arithmetic.toml"))];

/// The settings of a run: every section of every service.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Recipe {
    /// The run: name, seed, steps.
    pub(crate) run: RunSettings,
    /// The initial model.
    pub(crate) model: ModelSettings,
    /// Problems.
    pub(crate) data: DataSettings,
    /// How the policy is sampled.
    pub(crate) sampling: SamplingSettings,
    /// From raw to shaped rewards.
    pub(crate) shaping: ShapingSettings,
    /// Supervised steps before the first GRPO step.
    pub(crate) warm_start: WarmStartSettings,
    /// Held-out problems.
    pub(crate) evaluation: EvaluationSettings,
    /// What is kept on disk.
    pub(crate) checkpoint: CheckpointSettings,
    /// Deadlines and retries.
    pub(crate) services: ServicesSettings,
    /// Settings of the learner.
    pub(crate) learner: LearnerSettings,
    /// Settings of the embedded engine.
    pub(crate) engine: EngineSettings,
    /// Settings of the generation service.
    pub(crate) generation: GenerationSettings,
    /// Settings of the reward service.
    pub(crate) reward: RewardSettings,
}

/// Sections are validated by [`resolve`], once shared values are derived.
impl Settings for Recipe {}

/// Adds a recipe to the layers of a loader: a built-in one by its name, otherwise a TOML file by its path.
fn layer(loader: Loader, name_or_path: &str) -> Result<Loader> {
    if let Some(text) = built_in(name_or_path) {
        return Ok(loader.text(&format!("recipe {name_or_path}"), text)?);
    }
    let path = Path::new(name_or_path);
    if !path.exists() && path.extension().is_none() {
        let allowed = format!("one of {}, or a TOML file", names().join(", "));
        return Err(FieldError::new("recipe", format_args!("`{name_or_path}`"), allowed).into());
    }
    Ok(loader.file(path)?)
}

fn built_in(name: &str) -> Option<&'static str> {
    BUILT_IN.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

fn names() -> Vec<&'static str> {
    BUILT_IN.iter().map(|(name, _)| *name).collect()
}

/// The recipe of a name or file, with the environment and `--set` on top.
pub(crate) fn load(name: &str, set: &[String]) -> Result<Loaded<Recipe>> {
    finish(layer(Loader::new(), name)?, set)
}

/// Adds the environment and `--set`, and resolves every section.
pub(crate) fn finish(loader: Loader, set: &[String]) -> Result<Loaded<Recipe>> {
    Ok(resolve(loader.environment()?.set(set)?)?)
}

/// Loads all sections, derives what they share, and validates them.
fn resolve(loader: Loader) -> Result<Loaded<Recipe>, ConfigError> {
    let mut loaded = loader.load::<Recipe>()?;
    let refused = |loaded: &Loaded<Recipe>, error: FieldError| {
        let origin = loaded.origin(&error.field);
        ConfigError::Invalid { key: error.field, value: error.value, origin, allowed: error.allowed }
    };
    shared::derive(&mut loaded).map_err(|error| refused(&loaded, error))?;
    validate(&loaded.settings).map_err(|error| refused(&loaded, error))?;
    Ok(loaded)
}

/// Validates every section by its own crate, then what several sections must satisfy together.
fn validate(recipe: &Recipe) -> Result<(), FieldError> {
    recipe.loop_settings().validate()?;
    if let Err(ModelError::Input(error)) = recipe.model.fresh.validate() {
        return Err(error.within("model.fresh"));
    }
    Settings::validate(&recipe.learner).map_err(|error| error.within("learner"))?;
    recipe.generation.validate().map_err(|error| error.within("generation"))?;
    recipe.reward.validate().map_err(|error| error.within("reward"))?;
    // Its model is the run's.
    let engine = EngineSettings { model: "model".into(), ..recipe.engine.clone() };
    engine.validate().map_err(|error| error.within("engine"))?;
    validate_lengths(recipe)?;
    validate_batch(recipe)
}

/// Refuses contexts that are too short for an answer.
fn validate_lengths(recipe: &Recipe) -> Result<(), FieldError> {
    let answers = [
        ("sampling.max_tokens", recipe.sampling.max_tokens as usize),
        ("evaluation.max_tokens", recipe.evaluation.max_tokens as usize),
    ];
    let above = |field: &str, context: usize| match answers.iter().find(|(_, most)| context <= *most) {
        None => Ok(()),
        Some((answer, most)) => Err(FieldError::new(field, context, format!("above {answer}, which is {most}"))),
    };
    if recipe.model.path.is_none() {
        above("model.fresh.context_tokens", recipe.model.fresh.context_tokens)?;
    }
    match recipe.engine.max_model_len {
        Some(context) if recipe.generation.endpoints.is_empty() => above("engine.max_model_len", context),
        _ => Ok(()),
    }
}

/// Refuses what the learner would refuse in every step of the run.
fn validate_batch(recipe: &Recipe) -> Result<(), FieldError> {
    let mut bounds = recipe.shaping.bounds();
    let batch = BatchShape {
        group_size: recipe.sampling.group_size as usize,
        largest_reward: bounds.iter().map(|(_, _, most)| most).sum(),
    };
    bounds.sort_by(|(_, _, a), (_, _, b)| b.total_cmp(a));
    let (setting, value, _) = bounds.swap_remove(0);
    recipe.learner.validate_batch(batch).map_err(|error| match error {
        LearnerError::Setting(error) if error.field == "group_size" => error.within("sampling"),
        LearnerError::Setting(error) => FieldError::new(setting, value, error.allowed),
        other => FieldError::new("sampling", other, "what its message says"),
    })
}

/// Reads recipes for the orchestrator's server.
pub(crate) struct Reader;

impl RecipeReader for Reader {
    fn names(&self) -> Vec<&str> {
        names()
    }

    fn built_in(&self, name: &str) -> Option<&str> {
        built_in(name)
    }

    fn resolve(&self, loader: Loader) -> Result<ResolvedRecipe, ConfigError> {
        resolve(loader)?.settings.resolved()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loaded(text: &str) -> Result<Recipe, String> {
        let loaded = Loader::new().text("test", text).and_then(resolve);
        loaded.map(|loaded| loaded.settings).map_err(|error| error.to_string())
    }

    #[test]
    fn built_in_recipes_load_and_survive_being_written() {
        for (name, text) in BUILT_IN {
            let recipe = loaded(text).unwrap();
            let resolved = recipe.resolved().unwrap();
            let again = loaded(&resolved.toml).unwrap();
            assert_eq!(again, recipe, "{name}");
            assert_eq!(again.resolved().unwrap().identity, resolved.identity);
        }
    }

    #[test]
    fn impossible_settings_of_any_section_name_key_value_and_origin() {
        for (text, words) in [
            ("[run]\nsteps = 0", "`run.steps` is 0 in test, allowed: at least 1"),
            ("[learner]\nepochs = 0", "`learner.epochs` is 0 in test, allowed: 1 or more"),
            ("[model.fresh]\nlayers = 5000", "`model.fresh.layers` is 5000 in test, allowed: at most 1024"),
            (
                "[model.fresh]\nhidden_size = 1000000000",
                "`model.fresh` is 3335000000192 parameters in test, allowed: at most 1000000000",
            ),
            (
                "[sampling]\nmax_tokens = 100\n[engine]\nmax_model_len = 100",
                "`engine.max_model_len` is 100 in test, allowed: above sampling.max_tokens, which is 100",
            ),
            (
                "[evaluation]\nmax_tokens = 5000\n[engine]\nmax_model_len = 300",
                "`model.fresh.context_tokens` is 256 in defaults, allowed: above evaluation.max_tokens, which is 5000",
            ),
            ("[samplign]\n", "unknown key `samplign` in test, nearest allowed: `sampling`"),
        ] {
            let error = loaded(text).unwrap_err();
            assert!(error.starts_with(words), "{text}: {error}");
        }
    }

    #[test]
    fn what_a_resumed_run_may_change_is_not_its_identity() {
        let identity = |text: &str| loaded(text).unwrap().resolved().unwrap().identity;
        let base = identity("");
        assert_eq!(base, identity("[run]\nsteps = 500\n[checkpoint]\nevery = 3\n[reward]\nthreads = 1"));
        for other in ["[learner.optimizer]\nlearning_rate = 0.1", "[model]\npath = \"x\"", "[sampling]\ntop_k = 3"] {
            assert_ne!(base, identity(other), "{other}");
        }
    }
}
