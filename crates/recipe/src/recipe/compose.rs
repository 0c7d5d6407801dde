//! Composition: from a recipe to the settings of each service.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use anyhow::Context;
use evenkeel_config::{ConfigError, to_toml};
use evenkeel_hub::ModelName;
use evenkeel_learner::{CheckpointType, ComputeType, PublishType};
use evenkeel_model::ModelError;
use evenkeel_model::fresh::{FreshModel, FreshShape, write_fresh_model};
use evenkeel_orchestrator::{
    LoadLimits, LoopSettings, ModelSource, ProofSettings, ResolvedRecipe, RunError, identity, rules,
};
use evenkeel_proto::FieldError;
use evenkeel_run::{ChangedSetting, flat_settings};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Recipe;
use crate::named_model::{self, FoundModel, Say};

/// Tolerance of a proof of weights if everything is in f32, in nats: sums in another order differ by a thousandth of
/// it.
const EXACT_TOLERANCE: f64 = 0.01;

/// Section `model` of a recipe.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ModelSettings {
    /// Folder of a Hugging Face model with its tokenizer.json, or its name on the hub: `hf:OWNER/NAME`, with
    /// `@REVISION` for a branch, a tag or a commit other than `main`. A run notes the commit. Absent: a fresh, tiny
    /// Qwen3 with one token per character is created in `model` of the run directory, from the seed.
    pub path: Option<PathBuf>,
    /// Type of the weights that the learner publishes for the engines: `f32`, `bf16` or `f16`.
    pub publish_type: PublishType,
    /// Type of weights and moments in checkpoints: `f32`, from which a run resumes bit for bit, or `bf16` with half the
    /// disk space.
    pub checkpoint_type: CheckpointType,
    /// Shape of the fresh model: `vocabulary_size`, `hidden_size`, `intermediate_size`, `layers`, `heads`, `kv_heads`,
    /// `head_dim`, `context_tokens`, `tied` (the head is the embedding), `deviation` of its random matrices.
    pub fresh: FreshShape,
}

impl ModelSettings {
    /// The model's name, where `path` is one.
    pub fn name(&self) -> Option<Result<ModelName, FieldError>> {
        let path = self.path.as_ref().filter(|path| ModelName::is_name(path))?;
        Some(ModelName::parse("model.path", &path.to_string_lossy()))
    }

    /// Puts the commit into a name that does not have one, and brings the model into the cache: what a run begins with
    /// is part of its identity. Where only PyPI has it, its folder takes the place of its name.
    ///
    /// # Errors
    /// A model that cannot be downloaded from the hub.
    pub fn pin(&mut self, say: Say) -> anyhow::Result<()> {
        if let Some(name) = self.name() {
            let name = name?;
            self.path = Some(match named_model::find(&name, say).context("model.path")? {
                FoundModel::Hub(snapshot) => name.at(&snapshot.commit).to_string().into(),
                FoundModel::Package(folder) => folder,
            });
        }
        Ok(())
    }

    /// The folder of the model that is named, wherever it is.
    ///
    /// # Errors
    /// A model that cannot be downloaded from the hub.
    pub fn folder(&self, say: Say) -> anyhow::Result<Option<PathBuf>> {
        self.path.as_deref().map(|path| named_model::folder("model.path", path, say)).transpose()
    }
}

/// The settings that affect results; all others at their defaults.
#[derive(Serialize)]
struct RunIdentity<'a> {
    orchestrator: LoopSettings,
    model: &'a ModelSettings,
    learner: evenkeel_learner::TrainingSettings,
    engine: evenkeel_engine::EngineSettings,
    generation: evenkeel_generation::GenerationSettings,
    reward: evenkeel_reward::RewardSettings,
}

/// How the note with the learner's formula begins.
const FORMULA: &str = "objective: ";

/// Whether a note is the formula that the learner computes, or what it does not act on: both belong to every recipe,
/// not to a mistake in one.
pub fn is_formula(note: &str) -> bool {
    note.starts_with(FORMULA) || note.starts_with("learner: the clip of")
}

impl Recipe {
    /// Settings of the orchestrator: its sections of the recipe.
    pub fn loop_settings(&self) -> LoopSettings {
        LoopSettings {
            run: self.run.clone(),
            data: self.data.clone(),
            sampling: self.sampling.clone(),
            pipeline: self.pipeline,
            turns: self.turns,
            shaping: self.shaping.clone(),
            warm_start: self.warm_start.clone(),
            evaluation: self.evaluation.clone(),
            checkpoint: self.checkpoint.clone(),
            proof: self.proof.clone(),
            sampler_audit: self.sampler_audit.clone(),
            services: self.services.clone(),
        }
    }

    /// The recipe as TOML that resolves to the same recipe.
    pub fn to_toml(&self) -> Result<String, ConfigError> {
        to_toml(&super::shared::without_derived(self)?)
    }

    /// The recipe as the orchestrator takes it.
    pub fn resolved(&self) -> Result<ResolvedRecipe, ConfigError> {
        let toml = self.to_toml()?;
        let identified = RunIdentity {
            orchestrator: self.loop_settings().result_affecting(),
            model: &self.model,
            learner: self.learner.result_affecting(),
            engine: self.engine.result_affecting(),
            generation: self.generation.result_affecting(),
            reward: self.reward.result_affecting(),
        };
        Ok(ResolvedRecipe {
            settings: self.loop_settings(),
            toml,
            identity: identity(&identified),
            rules: rules(&identified),
            origins: BTreeMap::new(),
            model: Arc::new(self.run_model(|line| tracing::info!("{line}"))),
            teacher: self.learner.distillation.as_ref().and_then(|it| it.folder()).map(Path::to_owned),
            learns_from_rewards: self.learner.reward_weight() != 0.0,
            learner_settings_hash: Some(self.learner.hash()),
            groups_of_first_update: Some(self.learner.mini_batch_groups)
                .filter(|groups| *groups > 0)
                .map(|groups| groups as u32),
            aggregation: Some(self.learner.objective.aggregation.to_string()),
            objective: Some(self.learner.formula()),
            reward_files: self.reward.judge.iter().flat_map(|judge| judge.files().cloned()).collect(),
            changed: self.changed()?,
            notes: self.notes(),
        })
    }

    /// The settings that differ from their defaults.
    fn changed(&self) -> Result<Vec<ChangedSetting>, ConfigError> {
        let flat = |recipe: &Self| -> Result<_, ConfigError> {
            let table =
                recipe.to_toml()?.parse().map_err(|error: toml::de::Error| ConfigError::Write(error.to_string()))?;
            Ok(flat_settings(&table))
        };
        Ok(ChangedSetting::between(&flat(&Self::default())?, &flat(self)?))
    }

    /// What the user should know about the settings before the run starts.
    pub fn notes(&self) -> Vec<String> {
        let of_learner = self.learner.notes().into_iter().map(|note| format!("learner: {note}"));
        std::iter::once(format!("{FORMULA}{}", self.learner.formula()))
            .chain(of_learner)
            .chain(super::lag::note(self))
            .chain(super::doubts::notes(self))
            .collect()
    }

    /// Resolves the recipe for a run whose services are all in this process. The types of all numbers are known then,
    /// and with them how far the log-probabilities of engines may be from the learner's.
    pub fn resolved_for_this_process(&self) -> Result<ResolvedRecipe, ConfigError> {
        let mut resolved = self.resolved()?;
        resolved.settings.proof.tolerance = Some(self.proof_tolerance());
        resolved.notes.extend(super::doubts::without_effect(self));
        Ok(resolved)
    }

    fn proof_tolerance(&self) -> f64 {
        let is_exact = self.generation.endpoints.is_empty()
            && self.model.publish_type == PublishType::F32
            && self.learner.compute.dtype == ComputeType::F32;
        self.proof.tolerance.unwrap_or(if is_exact { EXACT_TOLERANCE } else { ProofSettings::DEFAULT_TOLERANCE })
    }

    /// The folder of the model that a run begins with; a fresh one is created in `model` of the run directory. `say` is
    /// told how far a download is.
    ///
    /// # Errors
    /// A model of the hub without a commit, or one that cannot be had or written.
    pub fn model_folder(&self, run_directory: &Path, say: Say) -> Result<PathBuf, RunError> {
        self.run_model(say).folder(run_directory, &LoadLimits::unbounded())
    }

    fn run_model(&self, say: Say) -> RunModel {
        RunModel { path: self.model.path.clone(), fresh: self.fresh_model(), fetched: OnceLock::new(), say }
    }

    /// The model that is created if the recipe names no folder.
    pub fn fresh_model(&self) -> FreshModel {
        FreshModel { shape: self.model.fresh.clone(), seed: self.run.seed }
    }
}

/// `model.path`, or a fresh model in `model` of the run directory.
#[derive(Debug)]
struct RunModel {
    path: Option<PathBuf>,
    fresh: FreshModel,
    /// Where the cache has a model that is named.
    fetched: OnceLock<PathBuf>,
    say: Say,
}

impl RunModel {
    /// The folder of a model of the hub. Only a commit will do: what a branch is changes, and a run with it.
    fn of_hub(&self, path: &Path) -> Result<PathBuf, RunError> {
        if let Some(folder) = self.fetched.get() {
            return Ok(folder.clone());
        }
        let name = ModelName::parse("model.path", &path.to_string_lossy())?;
        if !name.is_pinned() {
            let allowed = format!("{} with a commit, 40 hexadecimal digits", name.at("COMMIT"));
            return Err(FieldError::quoted("model.path", name.to_string(), allowed).into());
        }
        let folder = named_model::fetch(&name, self.say).map_err(|error| RunError::model(path, error))?.folder;
        Ok(self.fetched.get_or_init(|| folder).clone())
    }
}

impl ModelSource for RunModel {
    fn named(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    fn folder(&self, run_directory: &Path, limits: &LoadLimits) -> Result<PathBuf, RunError> {
        match &self.path {
            Some(path) if ModelName::is_name(path) => return self.of_hub(path),
            Some(path) => {
                named_model::require_folder("model.path", path)?;
                return Ok(path.clone());
            }
            None => {}
        }
        let parameters = self.fresh.shape.parameters();
        let most = limits.max_fresh_parameters;
        if parameters > most {
            let allowed = format!("at most {most} parameters (limits.max_fresh_parameters)");
            return Err(FieldError::new("model.fresh", parameters, allowed).into());
        }
        let folder = run_directory.join("model");
        write_fresh_model(&folder, &self.fresh).map_err(|error| match error {
            ModelError::File { path, source } => RunError::File { path, source },
            ModelError::Corrupt { path, reason } => RunError::model(path, reason),
            other => RunError::model(&folder, other),
        })?;
        Ok(folder)
    }
}
