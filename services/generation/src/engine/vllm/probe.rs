//! What a server is, found out before it gets its first sample: an unknown field of a request is ignored without a word, so that
//! only an answer tells whether a server does what is asked.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use evenkeel_proto::v1::LogProbabilityMode;
use evenkeel_proto::{FieldError, SamplingSettings};
use serde::Deserialize;

use super::VllmEngine;
use crate::engine::{Draw, EngineError, EngineInfo, Finish, Tokens, Wake};

/// Log-probabilities of a token that had no rival, as far as they may be from 0.
const CERTAIN: f32 = -1e-7;
/// Tokens of the tiny sample.
const TINY_TOKENS: u32 = 3;

#[derive(Deserialize)]
struct Version {
    version: String,
}

#[derive(Deserialize)]
struct Models {
    data: Vec<Model>,
}

#[derive(Deserialize)]
struct Model {
    id: String,
    #[serde(default)]
    root: Option<String>,
    #[serde(default)]
    max_model_len: Option<u32>,
}

impl VllmEngine {
    pub(super) async fn find_out(&self) -> Result<EngineInfo, EngineError> {
        self.check_health().await?;
        let version = self.version().await?;
        let model = self.find_model().await?;
        let context_tokens = model.max_model_len.unwrap_or(0);
        if context_tokens <= TINY_TOKENS {
            let allowed = format!("above {TINY_TOKENS}, as /v1/models of vLLM says");
            return Err(unfit("max_model_len", context_tokens, &allowed));
        }
        *self.model.write().await = Arc::from(model.id.as_str());
        // Left like this by whoever changed its weights or put it to sleep, and is gone: its weights may be half changed, or no more.
        let asleep = self.is_sleeping().await? == Some(true);
        let paused = self.is_paused().await?;
        // Kept, where this probe does not come to its end: the next one finds it awake.
        self.found_paused.fetch_or(asleep || paused == Some(true), Ordering::AcqRel);
        if asleep {
            self.post_wake_up(Wake::All).await?;
        }
        if asleep || paused == Some(true) {
            // It would not answer the tiny sample.
            self.post_resume().await?;
        }
        let log_probabilities = self.tiny_sample().await?;
        Ok(EngineInfo {
            version: format!("vllm {version}"),
            root: model.root.unwrap_or_else(|| model.id.clone()),
            model: model.id,
            context_tokens,
            log_probabilities,
            switches_weights: paused.is_some(),
            found_paused: self.found_paused.load(Ordering::Acquire),
        })
    }

    async fn version(&self) -> Result<String, EngineError> {
        match self.control.get("/version", self.control_timeout).await {
            Ok(body) => serde_json::from_slice::<Version>(&body)
                .map(|answer| answer.version)
                .map_err(|_| unfit("/version", "without a version", "a server that speaks as vLLM does")),
            Err(error) if error.is_missing_route() => {
                Err(unfit("/version", "not there", "a server that speaks as vLLM does"))
            }
            Err(error) => Err(error),
        }
    }

    async fn find_model(&self) -> Result<Model, EngineError> {
        let body = self.control.get("/v1/models", self.control_timeout).await?;
        let models: Models = serde_json::from_slice(&body)
            .map_err(|_| unfit("/v1/models", "no list of models", "a server that speaks as vLLM does"))?;
        let mut models = models.data;
        let named = || models.iter().map(|model| model.id.as_str()).collect::<Vec<_>>().join(", ");
        let index = match &self.wanted_model {
            Some(wanted) => models
                .iter()
                .position(|model| model.id == *wanted)
                .ok_or_else(|| unfit("model", wanted, &format!("a model that it serves: {}", named())))?,
            None if models.len() == 1 => 0,
            None => return Err(unfit("model", "absent", &format!("one of the models that it serves: {}", named()))),
        };
        Ok(models.swap_remove(index))
    }

    /// Draws a few tokens of which only the most probable is left to draw: processed log-probabilities are 0 then, raw ones are
    /// not. (Unless the model is certain by itself; then both are the same here, and nearly so elsewhere.) The first token does
    /// not count: id 0 often is padding, whose embedding is zero, and after it all tokens are equally probable.
    pub(super) async fn tiny_sample(&self) -> Result<LogProbabilityMode, EngineError> {
        let sampling = SamplingSettings {
            top_k: 1,
            min_tokens: TINY_TOKENS,
            ignore_eos: true,
            ..SamplingSettings::plain(TINY_TOKENS, 1)
        };
        let draw = Draw {
            request_id: "probe",
            // Every vocabulary has it.
            token_ids: &[0],
            sampling: &sampling,
            cache_salt: "probe",
            traceparent: "",
            stream: false,
        };
        let mut tokens = Tokens::default();
        let after_ms = u64::try_from(self.control_timeout.as_millis()).unwrap_or(u64::MAX);
        let ending = tokio::time::timeout(self.control_timeout, self.draw(draw, &mut tokens))
            .await
            .unwrap_or(Err(EngineError::Timeout { route: super::COMPLETIONS, after_ms }))?;
        if ending.finish != Finish::Length {
            return Err(EngineError::answer("finish_reason", format_args!("{:?}", ending.finish), "length"));
        }
        let certain = tokens.log_probabilities.iter().skip(1).all(|&value| value >= CERTAIN);
        Ok(if certain { LogProbabilityMode::Processed } else { LogProbabilityMode::Raw })
    }
}

fn unfit(field: &str, value: impl std::fmt::Display, allowed: &str) -> EngineError {
    EngineError::Unfit(FieldError::new(field, value, allowed))
}
