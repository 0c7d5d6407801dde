//! The JSON of `/v1/completions`, key by key as vLLM writes it.

use std::time::Duration;

use serde::Serialize;

use super::logprobs::{Logprobs, PromptLogprobs};
use crate::finish::FinishReason;
use crate::scheduler::Timestamps;

/// `stop_reason`: the token or text that ended the sample; null otherwise, also for the end of sequence.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub(super) enum StopReason {
    Token(u32),
    Text(String),
}

impl StopReason {
    pub(super) fn of(finish: Option<&FinishReason>) -> Option<Self> {
        match finish? {
            FinishReason::StopToken(id) => Some(Self::Token(*id)),
            FinishReason::StopText(text) => Some(Self::Text(text.clone())),
            _ => None,
        }
    }
}

#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Usage {
    prompt_tokens: usize,
    total_tokens: usize,
    completion_tokens: usize,
}

impl Usage {
    pub(super) fn new(prompt_tokens: usize, completion_tokens: usize) -> Self {
        Self { prompt_tokens, total_tokens: prompt_tokens + completion_tokens, completion_tokens }
    }
}

/// Usage in a whole response.
#[derive(Serialize)]
pub(super) struct CompletionUsage {
    #[serde(flatten)]
    usage: Usage,
    prompt_tokens_details: (),
    completion_tokens_details: (),
}

impl From<Usage> for CompletionUsage {
    fn from(usage: Usage) -> Self {
        Self { usage, prompt_tokens_details: (), completion_tokens_details: () }
    }
}

/// A sample in a whole response.
#[derive(Serialize)]
pub(super) struct CompletionChoice<'a> {
    pub(super) index: usize,
    pub(super) text: &'a str,
    pub(super) logprobs: Option<Logprobs>,
    pub(super) finish_reason: Option<&'static str>,
    pub(super) stop_reason: Option<StopReason>,
    pub(super) token_ids: Option<&'a [u32]>,
    pub(super) prompt_logprobs: Option<PromptLogprobs>,
    pub(super) prompt_token_ids: Option<&'a [u32]>,
    pub(super) routed_experts: (),
}

/// The new part of a sample in a frame of a stream.
#[derive(Serialize)]
pub(super) struct ChoiceDelta<'a> {
    pub(super) index: usize,
    pub(super) text: &'a str,
    pub(super) logprobs: Option<Logprobs>,
    pub(super) finish_reason: Option<&'static str>,
    pub(super) stop_reason: Option<StopReason>,
    pub(super) prompt_token_ids: Option<&'a [u32]>,
    pub(super) token_ids: Option<&'a [u32]>,
}

/// A whole response, not streamed.
#[derive(Serialize)]
pub(super) struct Completion<'a> {
    pub(super) id: &'a str,
    pub(super) object: &'static str,
    pub(super) created: u64,
    pub(super) model: &'a str,
    pub(super) choices: Vec<CompletionChoice<'a>>,
    pub(super) service_tier: (),
    pub(super) system_fingerprint: &'a str,
    pub(super) usage: CompletionUsage,
    pub(super) kv_transfer_params: (),
    pub(super) ec_transfer_params: (),
    pub(super) metrics: Option<Timings>,
}

/// Durations of a sample's phases, in milliseconds; `None` for those not reached.
#[derive(Serialize)]
pub(super) struct Timings {
    time_to_first_token_ms: Option<f64>,
    generation_time_ms: Option<f64>,
    queue_time_ms: Option<f64>,
    mean_itl_ms: Option<f64>,
    tokens_per_second: Option<f64>,
    speculative_decoding: (),
}

impl Timings {
    pub(super) fn of(times: &Timestamps, tokens: usize) -> Self {
        let ms = |duration: Duration| duration.as_secs_f64() * 1e3;
        let generation = times.decode().map(ms);
        let inference = times.inference().map(ms).filter(|&ms| ms > 0.0);
        Self {
            time_to_first_token_ms: times.prefill().map(ms),
            generation_time_ms: generation,
            queue_time_ms: times.queue().map(ms),
            mean_itl_ms: generation.filter(|_| tokens > 1).map(|ms| ms / (tokens - 1) as f64),
            tokens_per_second: inference.map(|ms| tokens as f64 / ms * 1e3),
            speculative_decoding: (),
        }
    }
}

/// A frame of a stream.
#[derive(Serialize)]
pub(super) struct Frame<'a> {
    pub(super) id: &'a str,
    pub(super) object: &'static str,
    pub(super) created: u64,
    pub(super) model: &'a str,
    pub(super) choices: &'a [ChoiceDelta<'a>],
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) usage: Option<Usage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) system_fingerprint: Option<&'a str>,
}
