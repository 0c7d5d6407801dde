//! Recipes with every section typed.

use anyhow::Result;
use evenkeel_common::config::{ConfigError, Loaded, Loader, Settings};
use evenkeel_engine::EngineConfig;
use evenkeel_generation::GenerationConfig;
use evenkeel_learner::LearnerSettings;
use evenkeel_orchestrator::load_recipe;
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

/// Checks the sections of other services in a recipe that came over the wire; returns the digest of the learner's settings.
pub(crate) fn inspect(open: &evenkeel_orchestrator::Recipe) -> Result<String, FieldError> {
    let refused = |error: ConfigError| FieldError::new("configuration", "refused", error.to_string());
    let text = toml::to_string(open).map_err(|error| refused(ConfigError::Write(error.to_string())))?;
    let loaded = Loader::new().text("the recipe", &text).and_then(Loader::load::<Recipe>).map_err(refused)?;
    check(&loaded.settings)?;
    Ok(loaded.settings.learner.hash())
}

/// What only the sections' own crates know about their values.
fn check(recipe: &Recipe) -> Result<(), FieldError> {
    recipe.learner.check().map_err(|error| error.within("learner"))?;
    recipe.generation.check().map_err(|error| error.within("generation"))?;
    recipe.reward.check().map_err(|error| error.within("reward"))?;
    // Its model is the run's.
    let engine = EngineConfig { model: "model".into(), ..recipe.engine.clone() };
    engine.check().map_err(|error| error.within("engine"))
}
