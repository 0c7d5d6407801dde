//! `evenkeel serve tinker`: the front that speaks Tinker's API, with the learner, the engine and the generation service
//! behind it in one process.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use evenkeel_config::Settings;
use evenkeel_engine::{Engine, EngineSettings};
use evenkeel_generation::GenerationSettings;
use evenkeel_learner::{LearnerSettings, LoraSettings, PublishType, TrainingSettings};
use evenkeel_model::LinearModule;
use evenkeel_proto::FieldError;
use evenkeel_rpc::server::{ServerSettings, shutdown_signal};
use evenkeel_tinker::{Adapters, Services, TinkerSettings};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::hub;

/// What clients of Tinker assume.
const RANK: usize = 32;
const ALPHA: f64 = 32.0;

/// The settings of `evenkeel serve tinker`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct TinkerService {
    /// The Hugging Face folder of the base model. Required.
    pub(crate) model: PathBuf,
    /// The type of weights that engines load.
    pub(crate) publish_type: PublishType,
    /// The front.
    pub(crate) tinker: TinkerSettings,
    /// The learner, whose adapters have rank 32 and alpha 32 by default. What a client decides is not used: its
    /// objective and its optimizers.
    pub(crate) learner: TrainingSettings,
    /// The embedded engine, unless `generation.endpoints` names others.
    pub(crate) engine: EngineSettings,
    /// The generation service.
    pub(crate) generation: GenerationSettings,
}

impl Default for TinkerService {
    fn default() -> Self {
        let lora = LoraSettings { rank: RANK, alpha: ALPHA, ..LoraSettings::default() };
        Self {
            model: PathBuf::new(),
            publish_type: PublishType::default(),
            tinker: TinkerSettings::default(),
            learner: TrainingSettings { lora: Some(lora), ..TrainingSettings::default() },
            engine: EngineSettings::default(),
            generation: GenerationSettings::default(),
        }
    }
}

impl Settings for TinkerService {
    fn validate(&self) -> Result<(), FieldError> {
        if self.model.as_os_str().is_empty() {
            return Err(FieldError::missing("model", "a Hugging Face folder"));
        }
        self.tinker.validate().map_err(|error| error.within("tinker"))?;
        self.learner.validate().map_err(|error| error.within("learner"))?;
        if self.learner.lora.is_none() {
            return Err(FieldError::missing("learner.lora", "the adapters that clients train"));
        }
        self.generation.validate().map_err(|error| error.within("generation"))
    }
}

impl TinkerService {
    /// The adapters that clients are told of.
    fn adapters(&self) -> Adapters {
        let lora = self.learner.lora.clone().unwrap_or_default();
        let has = |modules: &[LinearModule]| modules.iter().all(|module| lora.targets.contains(module));
        let [attention, mlp] = [&LinearModule::OF_LAYERS[..4], &LinearModule::OF_LAYERS[4..]].map(has);
        Adapters { rank: lora.rank as u32, attention, mlp, head: has(&[LinearModule::Head]) }
    }
}

pub(crate) async fn serve(settings: TinkerService) -> Result<ExitCode> {
    let model = hub::folder("model", &settings.model)?;
    let settings = TinkerService { model, ..settings };
    let folder = &settings.tinker.folder;
    let checkpoints = folder.join("checkpoints");
    let weights = folder.join("weights");
    let learner = LearnerSettings {
        server: ServerSettings::private(),
        model: settings.model.clone(),
        checkpoints,
        weights: weights.clone(),
        publish_dtype: settings.publish_type,
        training: settings.learner.clone(),
        // The front decides who trains.
        lease: Duration::ZERO,
        ..LearnerSettings::default()
    };
    let learner = evenkeel_learner::bind(learner).await.context("the learner")?.spawn();
    let mut generation = GenerationSettings { server: ServerSettings::private(), ..settings.generation.clone() };
    generation.weights.roots = vec![weights];
    let engine = if generation.endpoints.is_empty() {
        let own = EngineSettings { per_request_metrics: true, ..settings.engine.clone().private(&settings.model) };
        let engine = Engine::start(own).await.context("the engine")?;
        generation.endpoints = vec![engine.endpoint()];
        Some(engine)
    } else {
        None
    };
    let generation = evenkeel_generation::bind(generation).await.context("the generation service")?.spawn();
    let services = Services {
        learner: learner.endpoint().to_owned(),
        generation: generation.endpoint().to_owned(),
        model: settings.model.clone(),
        adapters: settings.adapters(),
    };
    let running = evenkeel_tinker::start(settings.tinker, services).await?;
    shutdown_signal().await;
    running.stop().await;
    drop((generation, learner));
    if let Some(engine) = engine {
        engine.stop().await;
    }
    Ok(ExitCode::SUCCESS)
}
