//! What `train` requires of a recipe besides valid settings, before a service starts. The dry run calls the same
//! functions, so that it refuses what `train` refuses.

use std::path::Path;

use anyhow::Result;
use evenkeel_config::Loaded;
use evenkeel_engine::{EngineError, EngineSettings, context_tokens};
use evenkeel_math::Profile;
use evenkeel_model::folder::StoredAdapter;
use evenkeel_model::{Config, parameter_specs};
use evenkeel_orchestrator::{
    Descriptions, Endpoints, EnginesWhileTraining, LoadLimits, ResolvedRecipe, StartNeeds, TrialRows, check_start,
};
use evenkeel_proto::FieldError;

use crate::recipe::Recipe;

/// Nobody is connected to.
pub(crate) const NOWHERE: &str = "http://127.0.0.1:1";

/// Settings that say which fresh model is meant. `model.fresh.context_tokens` is not among them: recipes without a
/// model have it to go with their longest answers.
const FRESH: [&str; 7] =
    ["vocabulary_size", "hidden_size", "intermediate_size", "layers", "heads", "kv_heads", "head_dim"];

/// What a recipe does not say of its model and of its data: an overlay for others, which would train a tiny fresh model
/// on sums.
pub fn unnamed_model_and_data(loaded: &Loaded<Recipe>) -> Vec<FieldError> {
    let is_set = |key: &str| loaded.is_set(key);
    let is_fresh = FRESH.iter().any(|key| is_set(&format!("model.fresh.{key}")));
    let has_model = is_set("model.path");
    let mut missing = Vec::new();
    if !has_model && !is_fresh {
        let allowed =
            "the folder of a Hugging Face model, or hf:OWNER/NAME (a fresh, tiny model: model.fresh.layers = 3)";
        missing.push(FieldError::missing("model.path", allowed));
    }
    if (has_model || !is_fresh) && !["data.kind", "data.files", "data.sources"].into_iter().any(is_set) {
        let allowed = "files with problems (sums that the program makes: data.kind = \"arithmetic\")";
        missing.push(FieldError::missing("data.files", allowed));
    }
    missing
}

/// Reads everything that the run would read, and checks it as the run itself does. A fresh model is created below
/// `folder`. `described` are the environments that do not come with the program.
///
/// # Errors
/// What the run would refuse.
pub fn check_inputs(
    recipe: &Recipe,
    resolved: &ResolvedRecipe,
    folder: &Path,
    described: &Descriptions,
) -> Result<(StartNeeds, TrialRows)> {
    let named = |name: &String| (name.clone(), vec![NOWHERE.to_owned()]);
    let started = recipe.data.verifiers.iter().filter(|(_, verifier)| verifier.is_started()).map(|(name, _)| name);
    let endpoints = Endpoints {
        generation: NOWHERE.to_owned(),
        reward: vec![NOWHERE.to_owned()],
        learner: NOWHERE.to_owned(),
        environment: vec![NOWHERE.to_owned()],
        described: described.clone(),
        verifiers: started.map(named).collect(),
    };
    Ok(check_start(resolved, folder, &endpoints, &LoadLimits::unbounded())?)
}

/// What the services of this process would refuse once they start.
pub fn refused_by_services(recipe: &Recipe, model: &Path, config: &Config) -> Vec<FieldError> {
    let mut refused = Vec::new();
    if recipe.generation.endpoints.is_empty() {
        refused.extend(refused_by_engine(recipe, model, config));
    }
    refused.extend(refused_by_learner(recipe, config));
    refused.extend(recipe.learner.validate_networks(model).err().map(|error| error.within("learner")));
    refused.extend(refused_by_adapters(recipe));
    let (profile, known) = (&recipe.data.math_profile, Profile::ALL.map(|profile| profile.name()));
    if !profile.is_empty() && !known.contains(&profile.as_str()) {
        refused.push(FieldError::quoted("data.math_profile", profile, format!("one of {}", known.join(", "))));
    }
    refused
}

/// Adapters that this model cannot have, or that a training cannot begin with.
fn refused_by_learner(recipe: &Recipe, config: &Config) -> Option<FieldError> {
    let lora = recipe.learner.lora.as_ref()?;
    let (specs, ids) = parameter_specs(config);
    if let Err(error) = lora.shape().validate(&specs, &ids) {
        return Some(error.within("learner.lora"));
    }
    let start = lora.start.as_ref()?;
    let opened = StoredAdapter::open(start, config);
    let error = opened.and_then(|adapter| adapter.validate_shape(&lora.shape())).err()?;
    let allowed = format!("the folder of a PEFT adapter of this model, rank, alpha and targets ({error})");
    Some(FieldError::new("learner.lora.start", start.display(), allowed))
}

/// Engines that would sleep without the base of their adapters.
fn refused_by_adapters(recipe: &Recipe) -> Option<FieldError> {
    let discards = recipe.sampling.engines_while_training == EnginesWhileTraining::Discard;
    if recipe.learner.lora.is_none() || recipe.generation.endpoints.is_empty() || !discards {
        return None;
    }
    let allowed = "\"offload\" or \"awake\" with learner.lora: engines compute adapters beside the weights that they \
        were started with";
    Some(FieldError::quoted("sampling.engines_while_training", "discard", allowed))
}

/// What does not go with the embedded engine.
fn refused_by_engine(recipe: &Recipe, model: &Path, config: &Config) -> Vec<FieldError> {
    let mut refused = Vec::new();
    let engine = EngineSettings { model: model.to_owned(), ..recipe.engine.clone() };
    if let Err(EngineError::Setting(error)) = context_tokens(&engine, config) {
        refused.push(error.within("engine"));
    }
    let served = engine.model_name();
    if let Some(wanted) = recipe.generation.model.as_ref().filter(|wanted| **wanted != served) {
        let allowed = "absent with the embedded engine (generation.endpoints names engines that serve a model by name)";
        refused.push(FieldError::quoted("generation.model", wanted, allowed));
    }
    let asleep = match recipe.sampling.engines_while_training {
        EnginesWhileTraining::Awake => None,
        EnginesWhileTraining::Offload => Some("offload"),
        EnginesWhileTraining::Discard => Some("discard"),
    };
    if let Some(asleep) = asleep {
        let allowed =
            "\"awake\" with the embedded engine, which does not sleep (generation.endpoints names engines that do)";
        refused.push(FieldError::quoted("sampling.engines_while_training", asleep, allowed));
    }
    refused
}
