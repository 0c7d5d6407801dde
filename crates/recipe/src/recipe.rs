//! Recipes: the settings of all services for one run.
//!
//! Services do not know each other's settings; a recipe has all of them. A value that several services need is set
//! once and derived for the others (see [`shared`]); a recipe that sets them to different values is refused.

mod built_in;
mod compose;
mod doubts;
mod lag;
mod layers;
mod named_after;
mod other_names;
mod shared;
mod validate;

use anyhow::Result;
use evenkeel_config::{ConfigError, Loaded, Loader, OtherNames, Settings};
use evenkeel_engine::EngineSettings;
use evenkeel_environment_service::EnvironmentSettings;
use evenkeel_generation::GenerationSettings;
use evenkeel_learner::TrainingSettings;
use evenkeel_orchestrator::{
    CheckpointSettings, DataSettings, EvaluationSettings, PageSettings, PipelineSettings, PolicySamplingSettings,
    ProofSettings, RecipeReader, ResolvedRecipe, RunSettings, SamplerAuditSettings, ServicesSettings, ShapingSettings,
    TurnsSettings, WarmStartSettings,
};
use evenkeel_proto::FieldError;
use evenkeel_reward::RewardSettings;
use evenkeel_run::recipe_stem;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use compose::{ModelSettings, is_formula};
use layers::Layers;

/// The recipe where none is named.
const DEFAULT: &str = "arithmetic";

/// The settings of a run: every section of every service.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Recipe {
    /// The run: name, seed, steps.
    pub run: RunSettings,
    /// The model that training starts from.
    pub model: ModelSettings,
    /// Problems to train on.
    pub data: DataSettings,
    /// How the policy is sampled.
    pub sampling: PolicySamplingSettings,
    /// Sampling ahead of training.
    pub pipeline: PipelineSettings,
    /// Episodes with several turns.
    pub turns: TurnsSettings,
    /// From raw to shaped rewards.
    pub shaping: ShapingSettings,
    /// Supervised steps before the first GRPO step.
    pub warm_start: WarmStartSettings,
    /// Evaluation on held-out problems.
    pub evaluation: EvaluationSettings,
    /// What is kept on disk.
    pub checkpoint: CheckpointSettings,
    /// Whether the engines have the weights that they report.
    pub proof: ProofSettings,
    /// Whether samples are drawn as the settings say. The learner scores a few samples of each step, chosen by a secret
    /// number before anything is known about them; temperature, truncation, end tokens, log-probabilities and copies
    /// are tested.
    pub sampler_audit: SamplerAuditSettings,
    /// The live page of the run.
    pub page: PageSettings,
    /// Deadlines and retries of requests to services.
    pub services: ServicesSettings,
    /// Settings of the learner.
    pub learner: TrainingSettings,
    /// Settings of the embedded engine.
    pub engine: EngineSettings,
    /// Settings of the generation service.
    pub generation: GenerationSettings,
    /// Settings of the reward service.
    pub reward: RewardSettings,
    /// Settings of the environment service.
    pub environment: EnvironmentSettings,
}

impl Recipe {
    /// Updates of the optimizer in a step.
    pub fn updates_per_step(&self) -> usize {
        self.learner.updates_in_step(self.sampling.prompts_per_step as usize)
    }
}

/// Sections are validated by `resolve`, once shared values are derived.
impl Settings for Recipe {
    const OTHER_NAMES: &'static [OtherNames] = other_names::OTHER_NAMES;
}

/// The recipes of these names or files, each over the ones before, with the environment and `--set` on top. Without any
/// it is `arithmetic`.
///
/// # Errors
/// A recipe that cannot be read, and settings that are wrong or contradict each other.
pub fn load(recipes: &[String], set: &[String]) -> Result<Loaded<Recipe>> {
    let layers = if recipes.is_empty() { Layers::of(&[DEFAULT]) } else { Layers::of(recipes) };
    finish(layers?.loader()?, set)
}

/// Recipes without the environment, which in a process of one service has that service's settings.
///
/// # Errors
/// A recipe that cannot be read, and settings that are wrong or contradict each other.
pub fn load_alone(recipes: &[String]) -> Result<Loaded<Recipe>> {
    Ok(resolve(Layers::of(recipes)?.loader()?)?)
}

/// The settings that recipes write, of the right types, whether or not they fit together.
///
/// # Errors
/// A recipe that cannot be read, and settings of the wrong type.
pub fn read<T: Settings>(recipes: &[String]) -> Result<Loaded<T>, ConfigError> {
    Layers::of(recipes)?.loader()?.load()
}

/// What is to be said of recipes and the settings that came of them: recipes without effect, each of whose keys a later
/// one sets, and settings that are no longer what a recipe is named after.
///
/// # Errors
/// A recipe that cannot be read.
pub fn notes_on(recipes: &[String], loaded: &Loaded<Recipe>) -> Result<Vec<String>> {
    let layers = Layers::of(recipes)?;
    let mut notes = layers.without_effect();
    notes.extend(layers.renamed(loaded)?);
    Ok(notes)
}

/// What a run of these recipes is called after: `dapo-verl-exact`.
pub fn stem(recipes: &[String]) -> String {
    let stems: Vec<_> = recipes.iter().map(|recipe| recipe_stem(recipe)).collect();
    if stems.is_empty() { DEFAULT.to_owned() } else { stems.join("-") }
}

/// The built-in recipes: the name of each and its first sentence.
pub fn list() -> Vec<(String, String)> {
    let first_line = |name: &String| {
        let text = built_in::text(name).unwrap_or_default();
        let line = text.lines().next().and_then(|line| line.strip_prefix("# ")).unwrap_or_default();
        line.split_once(". ").map_or(line, |(sentence, _)| sentence).trim_end_matches('.').to_owned()
    };
    built_in::names().into_iter().map(|name| (first_line(&name), name)).map(|(line, name)| (name, line)).collect()
}

/// Whether a name is that of a built-in recipe.
pub fn comes_with_program(name: &str) -> bool {
    built_in::text(name).is_some()
}

/// Adds the environment and `--set`, and resolves every section.
///
/// # Errors
/// Settings that are wrong or contradict each other.
pub fn finish(loader: Loader, set: &[String]) -> Result<Loaded<Recipe>> {
    Ok(resolve(loader.environment()?.set(set)?)?)
}

/// Adds to a resolved recipe where each of its settings was written.
pub fn with_origins(loaded: &Loaded<Recipe>, mut resolved: ResolvedRecipe) -> ResolvedRecipe {
    let keys = resolved.rules.keys();
    // What is in a list was written with it.
    let origin = |key: &String| loaded.origin(key.split('[').next().unwrap_or(key));
    resolved.origins = keys.map(|key| (key.clone(), origin(key))).collect();
    resolved
}

/// The recipe of a run that is forked from one with the recipe `origin`.
///
/// # Errors
/// Settings that are wrong, contradict each other, or cannot differ from those of the origin.
pub fn finish_fork(origin: Loader, fork: Loader, set: &[String]) -> Result<Recipe> {
    Ok(resolve_fork(origin.environment()?, fork.environment()?.set(set)?)?)
}

/// Resolves the recipe of a fork, which may not differ from that of its origin in everything: the fresh model is also
/// what a KL term refers to, and with another seed it would be another one.
fn resolve_fork(origin: Loader, fork: Loader) -> Result<Recipe, ConfigError> {
    let theirs = resolve(origin)?.settings;
    let ours = resolve(fork)?;
    let Recipe { run, model, learner, .. } = &ours.settings;
    match learner.refers_to_initial_weights() {
        Some(setting) if model.path.is_none() && theirs.run.seed != run.seed => {
            let allowed = format!("{} with learner.{setting}, whose reference is the fresh model", theirs.run.seed);
            Err(refused(&ours, FieldError::new("run.seed", run.seed, allowed)))
        }
        _ => Ok(ours.settings),
    }
}

/// Loads all sections, derives what they share, and validates them.
fn resolve(loader: Loader) -> Result<Loaded<Recipe>, ConfigError> {
    loader.load_if(|loaded| {
        shared::derive(loaded)?;
        validate::validate(&loaded.settings)
    })
}

fn refused(loaded: &Loaded<Recipe>, error: FieldError) -> ConfigError {
    let origin = loaded.origin(&error.field);
    ConfigError::Invalid { key: error.field, value: error.value, origin, allowed: error.allowed }
}

/// Reads recipes and what they build on for the orchestrator's server.
pub struct LayeredRecipes;

impl RecipeReader for LayeredRecipes {
    fn names(&self) -> Vec<String> {
        built_in::names()
    }

    fn built_in(&self, name: &str) -> Result<Option<Loader>, ConfigError> {
        match built_in::text(name) {
            Some(_) => Layers::of(&[name])?.loader().map(Some),
            None => Ok(None),
        }
    }

    fn text(&self, text: &str) -> Result<Loader, ConfigError> {
        Layers::of_text("toml", text)?.loader()
    }

    fn merged(&self, recipes: &[String]) -> Result<String, ConfigError> {
        Ok(Layers::of(recipes)?.merged().to_string())
    }

    fn resolve(&self, loader: Loader) -> Result<ResolvedRecipe, ConfigError> {
        let loaded = resolve(loader)?;
        Ok(with_origins(&loaded, loaded.settings.resolved()?))
    }

    fn resolve_fork(&self, origin: Loader, fork: Loader) -> Result<ResolvedRecipe, ConfigError> {
        resolve_fork(origin, fork)?.resolved()
    }
}

#[cfg(test)]
mod names_tests;
#[cfg(test)]
mod tests;
