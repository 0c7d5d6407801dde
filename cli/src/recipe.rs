//! Recipes: the settings of all services for one run.
//!
//! Services do not know each other's settings; this crate knows all of them. A value that several services need is set
//! once and derived for the others (see [`shared`]); a recipe that sets them to different values is refused.

mod built_in;
mod compose;
mod doubts;
mod lag;
mod layers;
mod shared;

use anyhow::Result;
use evenkeel_config::{ConfigError, Loaded, Loader, Renamed, Settings};
use evenkeel_engine::EngineSettings;
use evenkeel_environment_service::EnvironmentSettings;
use evenkeel_generation::GenerationSettings;
use evenkeel_learner::{BatchShape, TrainingSettings};
use evenkeel_model::ModelError;
use evenkeel_objective::Advantage;
use evenkeel_orchestrator::{
    CheckpointSettings, DataSettings, EvaluationSettings, LoopSettings, PageSettings, PipelineSettings,
    PolicySamplingSettings, ProofSettings, RecipeReader, ResolvedRecipe, RunSettings, SamplerAuditSettings,
    ServicesSettings, ShapingSettings, TurnsSettings, WarmStartSettings, recipe_stem,
};
use evenkeel_proto::FieldError;
use evenkeel_reward::RewardSettings;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(crate) use compose::{ModelSettings, is_formula};
use layers::Layers;

/// The recipe where none is named.
const DEFAULT: &str = "arithmetic";

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
    pub(crate) sampling: PolicySamplingSettings,
    /// Sampling ahead of training.
    pub(crate) pipeline: PipelineSettings,
    /// Episodes with several turns.
    pub(crate) turns: TurnsSettings,
    /// From raw to shaped rewards.
    pub(crate) shaping: ShapingSettings,
    /// Supervised steps before the first GRPO step.
    pub(crate) warm_start: WarmStartSettings,
    /// Held-out problems.
    pub(crate) evaluation: EvaluationSettings,
    /// What is kept on disk.
    pub(crate) checkpoint: CheckpointSettings,
    /// Whether the engines have the weights that they say they have.
    pub(crate) proof: ProofSettings,
    pub(crate) sampler_audit: SamplerAuditSettings,
    /// The page in which the run is watched.
    pub(crate) page: PageSettings,
    /// Deadlines and retries.
    pub(crate) services: ServicesSettings,
    /// Settings of the learner.
    pub(crate) learner: TrainingSettings,
    /// Settings of the embedded engine.
    pub(crate) engine: EngineSettings,
    /// Settings of the generation service.
    pub(crate) generation: GenerationSettings,
    /// Settings of the reward service.
    pub(crate) reward: RewardSettings,
    /// Settings of the environment service.
    pub(crate) environment: EnvironmentSettings,
}

/// Sections are validated by [`resolve`], once shared values are derived.
impl Settings for Recipe {
    const RENAMED: Renamed = Renamed {
        sections: &[
            ("", LoopSettings::RENAMED),
            ("generation", GenerationSettings::RENAMED),
            ("reward", RewardSettings::RENAMED),
        ],
        ..Renamed::keys(&[
            ("learner.keep_checkpoints", "checkpoint.keep"),
            ("learner.keep_weights", "checkpoint.keep_weights"),
        ])
    };
}

/// The recipes of these names or files, each over the ones before, with the environment and `--set` on top. Without any
/// it is `arithmetic`.
pub(crate) fn load(recipes: &[String], set: &[String]) -> Result<Loaded<Recipe>> {
    let layers = if recipes.is_empty() { Layers::of(&[DEFAULT]) } else { Layers::of(recipes) };
    finish(layers?.loader()?, set)
}

/// The same without the environment, which in a process of one service has that service's settings.
pub(crate) fn load_alone(recipes: &[String]) -> Result<Loaded<Recipe>> {
    Ok(resolve(Layers::of(recipes)?.loader()?)?)
}

/// The settings that recipes write, of the right types, whether or not they fit together.
#[cfg(test)]
pub(crate) fn read<T: Settings>(recipes: &[String]) -> Result<Loaded<T>, ConfigError> {
    Layers::of(recipes)?.loader()?.load()
}

/// The recipes that have no effect, in words: each of their keys is set by one that comes after them.
pub(crate) fn without_effect(recipes: &[String]) -> Result<Vec<String>> {
    Ok(Layers::of(recipes)?.without_effect())
}

/// What a run of these recipes is called after: `dapo-verl-exact`.
pub(crate) fn stem(recipes: &[String]) -> String {
    let stems: Vec<_> = recipes.iter().map(|recipe| recipe_stem(recipe)).collect();
    if stems.is_empty() { DEFAULT.to_owned() } else { stems.join("-") }
}

/// The built-in recipes: the name of each and its first sentence.
pub(crate) fn list() -> Vec<(String, String)> {
    let first_line = |name: &String| {
        let text = built_in::text(name).unwrap_or_default();
        let line = text.lines().next().and_then(|line| line.strip_prefix("# ")).unwrap_or_default();
        line.split_once(". ").map_or(line, |(sentence, _)| sentence).trim_end_matches('.').to_owned()
    };
    built_in::names().into_iter().map(|name| (first_line(&name), name)).map(|(line, name)| (name, line)).collect()
}

/// Whether a name is that of a built-in recipe.
pub(crate) fn comes_with_program(name: &str) -> bool {
    built_in::text(name).is_some()
}

/// Adds the environment and `--set`, and resolves every section.
pub(crate) fn finish(loader: Loader, set: &[String]) -> Result<Loaded<Recipe>> {
    Ok(resolve(loader.environment()?.set(set)?)?)
}

/// A recipe as the orchestrator takes it, with where each of its settings was written.
pub(crate) fn with_origins(loaded: &Loaded<Recipe>, mut resolved: ResolvedRecipe) -> ResolvedRecipe {
    let keys = resolved.rules.keys();
    // What is in a list was written with it.
    let origin = |key: &String| loaded.origin(key.split('[').next().unwrap_or(key));
    resolved.origins = keys.map(|key| (key.clone(), origin(key))).collect();
    resolved
}

/// The recipe of a run that is forked from one with the recipe `origin`.
pub(crate) fn finish_fork(origin: Loader, fork: Loader, set: &[String]) -> Result<Recipe> {
    Ok(resolve_fork(origin.environment()?, fork.environment()?.set(set)?)?)
}

/// Resolves the recipe of a fork, which may not differ from that of its origin in everything: the fresh model is also
/// what a term of the loss may refer to, and with another seed it would be another one.
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
    let mut loaded = loader.load::<Recipe>()?;
    shared::derive(&mut loaded).map_err(|error| refused(&loaded, error))?;
    validate(&loaded.settings).map_err(|error| refused(&loaded, error))?;
    Ok(loaded)
}

fn refused(loaded: &Loaded<Recipe>, error: FieldError) -> ConfigError {
    let origin = loaded.origin(&error.field);
    ConfigError::Invalid { key: error.field, value: error.value, origin, allowed: error.allowed }
}

/// Validates every section by its own crate, then what several sections must satisfy together.
fn validate(recipe: &Recipe) -> Result<(), FieldError> {
    recipe.loop_settings().validate()?;
    recipe.page.address(None)?;
    recipe.model.name().transpose()?;
    if let Err(ModelError::Input(error)) = recipe.model.fresh.validate() {
        return Err(error.within("model.fresh"));
    }
    recipe.learner.validate().map_err(|error| error.within("learner"))?;
    recipe.generation.validate().map_err(|error| error.within("generation"))?;
    recipe.reward.validate().map_err(|error| error.within("reward"))?;
    recipe.environment.validate().map_err(|error| error.within("environment"))?;
    // Its model is the run's.
    let engine = EngineSettings { model: "model".into(), ..recipe.engine.clone() };
    engine.validate().map_err(|error| error.within("engine"))?;
    validate_lengths(recipe)?;
    validate_batch(recipe)?;
    validate_advantage(recipe)?;
    lag::validate(recipe)
}

/// Refuses contexts that are too short for a response.
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
    recipe.learner.validate_batch(batch).map_err(|error| match error.field.as_str() {
        "group_size" => error.within("sampling"),
        _ => FieldError::new(setting, value, error.allowed),
    })?;
    let groups = recipe.sampling.prompts_per_step as usize;
    recipe.learner.validate_groups(groups).map_err(|error| error.within("learner"))
}

/// Refuses rewards that the advantages are not made for.
fn validate_advantage(recipe: &Recipe) -> Result<(), FieldError> {
    let advantage = recipe.learner.objective.advantage;
    match advantage {
        Advantage::MaxRl => match recipe.shaping.below_zero() {
            Some((setting, value)) => {
                let allowed = "a value with which no reward is below 0, with learner.objective.advantage = maxrl";
                Err(FieldError::new(setting, value, allowed))
            }
            None => Ok(()),
        },
        Advantage::Gdpo if recipe.shaping.counted_components() < 2 => {
            let allowed = "another one where the reward has a single component (shaping.weights gives weights to \
                several, such as format)";
            Err(FieldError::quoted("learner.objective.advantage", advantage.name(), allowed))
        }
        _ => Ok(()),
    }
}

/// Reads recipes for the orchestrator's server.
pub(crate) struct Reader;

impl RecipeReader for Reader {
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
mod tests;
