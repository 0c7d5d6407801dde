//! Recipes with every section typed.

use anyhow::Result;
use evenkeel_config::{ConfigError, Loaded, Loader, Settings};
use evenkeel_engine::EngineConfig;
use evenkeel_generation::GenerationConfig;
use evenkeel_learner::{BatchShape, LearnerError, LearnerSettings};
use evenkeel_orchestrator::{Inspection, load_recipe};
use evenkeel_proto::FieldError;
use evenkeel_reward::RewardConfig;

/// A recipe whose sections are checked by the crates that they belong to.
pub(crate) type Recipe = evenkeel_orchestrator::Recipe<LearnerSettings, EngineConfig, GenerationConfig, RewardConfig>;

/// The recipe of a name or file, with the environment and `--set` on top.
pub(crate) fn load(name: &str, set: &[String]) -> Result<Loaded<Recipe>> {
    finish(load_recipe(Loader::new(), name)?, set)
}

/// Adds the environment and `--set`, and checks every section.
pub(crate) fn finish(loader: Loader, set: &[String]) -> Result<Loaded<Recipe>> {
    let loaded = loader.environment()?.set(set)?.load::<Recipe>()?;
    check(&loaded.settings)?;
    Ok(loaded)
}

/// Checks the sections of other services in a recipe that came over the wire, and says what follows from them.
pub(crate) fn inspect_open(open: &evenkeel_orchestrator::Recipe) -> Result<Inspection, FieldError> {
    let text = toml::to_string(open).map_err(|error| refused(&ConfigError::Write(error.to_string())))?;
    let loaded =
        Loader::new().text("the recipe", &text).and_then(Loader::load::<Recipe>).map_err(|error| refused(&error))?;
    check(&loaded.settings)?;
    inspect(&loaded.settings)
}

/// What follows from the settings of all services.
pub(crate) fn inspect(recipe: &Recipe) -> Result<Inspection, FieldError> {
    let rules = Recipe {
        learner: recipe.learner.rules(),
        engine: recipe.engine.rules(),
        generation: recipe.generation.rules(),
        reward: recipe.reward.rules(),
        ..recipe.clone()
    };
    Ok(Inspection {
        identity: rules.to_open().map_err(|error| refused(&error))?.identity(),
        learner_settings_hash: Some(recipe.learner.hash()),
        notes: recipe.learner.notes().into_iter().map(|note| format!("learner: {note}")).collect(),
    })
}

fn refused(error: &ConfigError) -> FieldError {
    FieldError::new("configuration", "refused", error.to_string())
}

/// What only the sections' own crates know about their values.
fn check(recipe: &Recipe) -> Result<(), FieldError> {
    Settings::validate(&recipe.learner).map_err(|error| error.within("learner"))?;
    check_batch(recipe)?;
    recipe.generation.validate().map_err(|error| error.within("generation"))?;
    recipe.reward.validate().map_err(|error| error.within("reward"))?;
    // Its model is the run's.
    let engine = EngineConfig { model: "model".into(), ..recipe.engine.clone() };
    engine.validate().map_err(|error| error.within("engine"))
}

/// What the learner would refuse in each step of this run, said before anything starts.
fn check_batch(recipe: &Recipe) -> Result<(), FieldError> {
    let batch = BatchShape {
        group_size: recipe.sampling.group_size as usize,
        // Verifiers give 0 to 1; the penalty comes off that.
        largest_reward: 1.0 + recipe.shaping.overlong_penalty,
    };
    let penalty = recipe.shaping.overlong_penalty;
    recipe.learner.validate_batch(batch).map_err(|error| match error {
        LearnerError::Setting(error) if error.field == "group_size" => error.within("sampling"),
        LearnerError::Setting(error) => FieldError::new("shaping.overlong_penalty", penalty, error.allowed),
        other => FieldError::new("sampling", other, "what its message says"),
    })
}
