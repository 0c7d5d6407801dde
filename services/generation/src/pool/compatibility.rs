//! Whether the samples of an engine fit this service: checked for each engine before its first sample. What a batch does
//! to samples is checked again for one that was lost and comes back, since it may be another process.

use std::sync::OnceLock;
use std::time::Duration;

use evenkeel_proto::FieldError;
use evenkeel_proto::v1::LogProbabilityMode;

use super::batch_probe;
use super::engine::PooledEngine;
use crate::engine::{EngineClientError, EngineInfo};
use crate::model::Model;
use crate::settings::{GenerationSettings, LogProbabilitySetting};

/// What every engine must have in common.
#[derive(Debug)]
pub(super) struct Compatibility {
    log_probabilities: LogProbabilityMode,
    min_context_tokens: u32,
    routes_required: bool,
    /// How long the probe for batch invariance may take. `None`: it is not asked for.
    batch_probe: Option<Duration>,
    /// The model of the first engine that was probed.
    model: OnceLock<Model>,
}

impl Compatibility {
    pub(super) fn new(settings: &GenerationSettings) -> Self {
        let log_probabilities = match settings.log_probabilities {
            LogProbabilitySetting::Processed => LogProbabilityMode::Processed,
            LogProbabilitySetting::Raw => LogProbabilityMode::Raw,
        };
        Self {
            log_probabilities,
            min_context_tokens: settings.min_context_tokens,
            routes_required: settings.weights.routes_required,
            batch_probe: settings.batch_invariant.then_some(settings.item_deadline),
            model: OnceLock::new(),
        }
    }

    pub(super) fn log_probabilities(&self) -> LogProbabilityMode {
        self.log_probabilities
    }

    pub(super) fn model(&self) -> Option<&Model> {
        self.model.get()
    }

    /// Probes an engine unless that was done before.
    ///
    /// # Errors
    /// [`EngineClientError::Incompatible`] if its samples would bias training.
    pub(super) async fn probe(&self, engine: &PooledEngine) -> Result<(), EngineClientError> {
        if engine.info().is_some() {
            return Ok(());
        }
        let mut info = engine.client().probe().await?;
        self.validate(&info).map_err(EngineClientError::Incompatible)?;
        let name = info.model.clone();
        let root = info.root.clone();
        let model = tokio::task::spawn_blocking(move || Model::read(&name, root.as_ref()))
            .await
            .map_err(EngineClientError::ReadModel)?;
        self.model.get_or_init(|| model.clone()).check_same(&model).map_err(EngineClientError::Incompatible)?;
        if self.batch_probe.is_some() {
            engine.set_comparison_due(true);
            self.compare(engine).await?;
            // The run and each sample are recorded with it.
            info.version.push_str(", batch-invariant");
        }
        if !info.updates_weights {
            // Only a warning: some engines are asked for samples alone.
            let advice = info.advice.updates;
            tracing::warn!(engine = engine.name(), "no routes for weight updates ({advice}): updates will fail");
        }
        tracing::info!(engine = engine.name(), version = info.version, model = info.model, "engine probed");
        engine.set_info(info);
        Ok(())
    }

    /// Whether an engine's samples have to be [compared](Self::compare) before it may serve.
    pub(super) fn is_comparison_due(&self, engine: &PooledEngine) -> bool {
        self.batch_probe.is_some() && engine.is_comparison_due()
    }

    /// Compares the samples of an engine alone and in a batch, if that is due. It must be awake.
    ///
    /// # Errors
    /// [`EngineClientError::Incompatible`] with the first difference; whatever a sample fails with.
    pub(super) async fn compare(&self, engine: &PooledEngine) -> Result<(), EngineClientError> {
        let Some(limit) = self.batch_probe.filter(|_| engine.is_comparison_due()) else { return Ok(()) };
        // Due again where the engine is lost meanwhile.
        engine.set_comparison_due(false);
        let compared = batch_probe::check(engine.client(), limit).await;
        if compared.is_err() {
            engine.set_comparison_due(true);
        }
        compared
    }

    fn validate(&self, info: &EngineInfo) -> Result<(), FieldError> {
        // A model that is certain of every token looks processed.
        if self.log_probabilities == LogProbabilityMode::Processed && info.log_probabilities == LogProbabilityMode::Raw
        {
            let advice = info.advice.processed;
            let allowed = format!("processed ({advice}), or generation.log_probabilities = \"raw\"");
            return Err(FieldError::new("log_probabilities", "raw", allowed));
        }
        let shortest = self.min_context_tokens;
        if info.context_tokens < shortest {
            let allowed = format!("at least generation.min_context_tokens, which is {shortest}");
            return Err(FieldError::new("max_model_len", info.context_tokens, allowed));
        }
        let is_enough = info.updates_weights || !self.routes_required;
        let allowed = format!("present ({}), since `weights.routes_required` is true", info.advice.updates);
        FieldError::ensure(is_enough, "routes for weight updates", "absent", allowed)
    }
}
