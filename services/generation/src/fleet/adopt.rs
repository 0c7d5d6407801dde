//! Whether an engine may sample for this service at all. Asked before its first sample, at the start and when it joins late.

use evenkeel_proto::FieldError;
use evenkeel_proto::v1::LogProbabilityMode;

use super::Fleet;
use crate::engine::{EngineError, EngineInfo};
use crate::model::Model;
use crate::settings::LogProbabilitySetting;

impl Fleet {
    /// Probes an engine and remembers what it is. [`EngineError::Unfit`] where its samples would bias training.
    pub(crate) async fn adopt(&self, engine: usize) -> Result<(), EngineError> {
        let member = self.member(engine);
        if member.info.get().is_some() {
            return Ok(());
        }
        let info = member.engine.probe().await?;
        self.check_fit(&info).map_err(EngineError::Unfit)?;
        let (name, root) = (info.model.clone(), info.root.clone());
        let model = tokio::task::spawn_blocking(move || Model::read(&name, root.as_ref()))
            .await
            .map_err(|error| EngineError::TakenBack { reason: format!("reading its model's folder: {error}") })?;
        let mut fits = Ok(());
        self.model.get_or_init(|| model.clone());
        if let Some(first) = self.model.get() {
            fits = first.agrees_with(&model);
        }
        fits.map_err(EngineError::Unfit)?;
        if !info.switches_weights {
            tracing::warn!(
                engine = member.name,
                "it has no routes to change its weights (vLLM has them with VLLM_SERVER_DEV_MODE=1): updates will fail"
            );
        }
        tracing::info!(engine = member.name, version = info.version, model = info.model, "engine adopted");
        // Whoever adopts holds the engine's control, so that nobody else was faster.
        let _ = member.info.set(info);
        Ok(())
    }

    fn check_fit(&self, info: &EngineInfo) -> Result<(), FieldError> {
        let wanted = match self.settings.log_probabilities {
            LogProbabilitySetting::Processed => LogProbabilityMode::Processed,
            LogProbabilitySetting::Raw => LogProbabilityMode::Raw,
        };
        // A model that is certain of everything looks processed.
        if wanted == LogProbabilityMode::Processed && info.log_probabilities == LogProbabilityMode::Raw {
            let allowed =
                "processed (vllm serve --logprobs-mode processed_logprobs), or generation.log_probabilities = \"raw\"";
            return Err(FieldError::new("log_probabilities", "raw", allowed));
        }
        let shortest = self.settings.min_context_tokens;
        if info.context_tokens < shortest {
            let allowed = format!("at least generation.min_context_tokens, which is {shortest}");
            return Err(FieldError::new("max_model_len", info.context_tokens, allowed));
        }
        Ok(())
    }

    /// What log-probabilities of this service are taken of.
    pub(crate) fn log_probability_mode(&self) -> LogProbabilityMode {
        match self.settings.log_probabilities {
            LogProbabilitySetting::Processed => LogProbabilityMode::Processed,
            LogProbabilitySetting::Raw => LogProbabilityMode::Raw,
        }
    }
}
