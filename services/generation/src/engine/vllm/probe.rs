//! The probe of a server before its first sample. Servers silently ignore unknown fields, so only a response shows
//! whether they do what was asked.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use evenkeel_proto::v1::LogProbabilityMode;
use evenkeel_proto::{FieldError, SamplingSettings};
use evenkeel_rpc::error::millis;
use serde::Deserialize;

use super::VllmClient;
use crate::engine::{
    EngineAdvice, EngineClientError, EngineInfo, SampleFinish, SampleRequest, SampledTokens, WakeTarget,
    opaque_request_id,
};

/// Lower bound for the log-probability of a token that had no alternative.
const CERTAIN: f32 = -1e-7;
/// vLLM raises temperatures between 0 and this to it, with only a line in its log.
const MIN_TEMPERATURE: f32 = 0.01;

const ADVICE: EngineAdvice = EngineAdvice {
    updates: "vLLM has them with VLLM_SERVER_DEV_MODE=1",
    sleep: "vLLM has it with --enable-sleep-mode and VLLM_SERVER_DEV_MODE=1",
    processed: "vllm serve --logprobs-mode processed_logprobs",
};

/// Tokens of the tiny sample.
const TINY_TOKENS: u32 = 3;
/// How many times longer than other requests of a probe the tiny sample may take: it computes, and a machine may be busy
/// or an engine compile its kernels first.
const SAMPLE_PATIENCE: u32 = 12;

#[derive(Deserialize)]
struct Version {
    version: String,
}

/// The models of a server, adapters among them.
#[derive(Deserialize)]
pub(super) struct Models {
    pub(super) data: Vec<Model>,
}

#[derive(Deserialize)]
pub(super) struct Model {
    pub(super) id: String,
    #[serde(default)]
    pub(super) root: Option<String>,
    #[serde(default)]
    max_model_len: Option<u32>,
    /// The model that an adapter belongs to.
    #[serde(default)]
    pub(super) parent: Option<String>,
}

impl VllmClient {
    pub(super) async fn run_probe(&self) -> Result<EngineInfo, EngineClientError> {
        self.check_health().await?;
        let version = self.version().await?;
        let model = self.find_model().await?;
        let context_tokens = model.max_model_len.unwrap_or(0);
        if context_tokens <= TINY_TOKENS {
            let allowed = format!("above {TINY_TOKENS}, as in vLLM's /v1/models");
            return Err(incompatible("max_model_len", context_tokens, &allowed));
        }
        *self.model.write().await = Arc::from(model.id.as_str());
        // Left like this by a service that died: its weights may be half changed or gone.
        let asleep = self.is_sleeping().await? == Some(true);
        let paused = self.is_paused().await?;
        // Kept in case this probe fails later on: the next one will find the engine awake.
        self.found_paused.fetch_or(asleep || paused == Some(true), Ordering::AcqRel);
        if asleep {
            self.post_wake_up(WakeTarget::All).await?;
        }
        if asleep || paused == Some(true) {
            // It would not answer the tiny sample.
            self.post_resume().await?;
        }
        let log_probabilities = self.tiny_sample().await?;
        let extras = self.extras().await;
        Ok(EngineInfo {
            version: format!("vllm {version}"),
            root: model.root.unwrap_or_else(|| model.id.clone()),
            model: model.id,
            context_tokens,
            log_probabilities,
            updates_weights: paused.is_some(),
            takes_tied_head: extras.takes_tied_head,
            adapters: extras.adapters,
            has_digests: extras.digests,
            arithmetic: extras.arithmetic,
            min_temperature: MIN_TEMPERATURE,
            advice: ADVICE,
            found_paused: self.found_paused.load(Ordering::Acquire),
        })
    }

    async fn version(&self) -> Result<String, EngineClientError> {
        match self.control.get("/version", self.control_timeout).await {
            Ok(body) => serde_json::from_slice::<Version>(&body)
                .map(|answer| answer.version)
                .map_err(|_| incompatible("/version", "without a version", "a server compatible with vLLM")),
            Err(error) if error.is_missing_route() => {
                Err(incompatible("/version", "absent", "a server compatible with vLLM"))
            }
            Err(error) => Err(error),
        }
    }

    async fn find_model(&self) -> Result<Model, EngineClientError> {
        let body = self.control.get("/v1/models", self.control_timeout).await?;
        let models: Models = serde_json::from_slice(&body)
            .map_err(|_| incompatible("/v1/models", "not a list of models", "a server compatible with vLLM"))?;
        // Adapters that a service before this one has left.
        let mut models: Vec<Model> = models.data.into_iter().filter(|model| model.parent.is_none()).collect();
        let named = || models.iter().map(|model| model.id.as_str()).collect::<Vec<_>>().join(", ");
        let index = match &self.wanted_model {
            Some(wanted) => models
                .iter()
                .position(|model| model.id == *wanted)
                .ok_or_else(|| incompatible("model", wanted, &format!("a model that it serves: {}", named())))?,
            None if models.len() == 1 => 0,
            None => {
                return Err(incompatible("model", "absent", &format!("one of the models that it serves: {}", named())));
            }
        };
        Ok(models.swap_remove(index))
    }

    /// Draws a few tokens with top-k 1: processed log-probabilities are 0 then, raw ones are not. (Unless the model is
    /// certain by itself; then both are the same here, and nearly so elsewhere.) The first token does not count: id 0
    /// is often padding, whose embedding is zero, and after it all tokens are equally probable.
    pub(super) async fn tiny_sample(&self) -> Result<LogProbabilityMode, EngineClientError> {
        let sampling = SamplingSettings {
            top_k: 1,
            min_tokens: TINY_TOKENS,
            ignore_eos: true,
            ..SamplingSettings::plain(TINY_TOKENS, 1)
        };
        let request = SampleRequest {
            request_id: &opaque_request_id(),
            // In every vocabulary.
            token_ids: &[0],
            sampling: &sampling,
            adapter: None,
            cache_salt: "probe",
            traceparent: None,
            stream: false,
        };
        let mut tokens = SampledTokens::default();
        let limit = self.control_timeout * SAMPLE_PATIENCE;
        let after_ms = millis(limit);
        let outcome = tokio::time::timeout(limit, self.draw(request, &mut tokens))
            .await
            .unwrap_or(Err(EngineClientError::Timeout { route: super::COMPLETIONS, after_ms }))?;
        if outcome.finish != SampleFinish::Length {
            return Err(EngineClientError::invalid("finish_reason", outcome.finish.label(), "length"));
        }
        let certain = tokens.log_probabilities().iter().skip(1).all(|&value| value >= CERTAIN);
        Ok(if certain { LogProbabilityMode::Processed } else { LogProbabilityMode::Raw })
    }
}

fn incompatible(field: &str, value: impl std::fmt::Display, allowed: &str) -> EngineClientError {
    EngineClientError::Incompatible(FieldError::new(field, value, allowed))
}
