//! The JSON of `/v1/completions`, key by key as vLLM writes it.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::metrics::Times;
use crate::sampling::Score;
use crate::scheduler::{FinishReason, Output};
use crate::text::{Tokenizer, Transcript};

/// How vLLM writes a log-probability of minus infinity.
const MINUS_INFINITY: f64 = -9999.0;

/// `finish_reason`, as vLLM spells it.
pub(super) fn finish_reason(finish: Option<&FinishReason>) -> Option<&'static str> {
    Some(match finish? {
        FinishReason::End | FinishReason::StopToken(_) | FinishReason::StopText(_) => "stop",
        FinishReason::Length => "length",
        FinishReason::Abort => "abort",
        FinishReason::Error(_) => "error",
    })
}

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
pub(super) struct Choice<'a> {
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
    pub(super) choices: Vec<Choice<'a>>,
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
    pub(super) fn of(times: &Times, tokens: usize) -> Self {
        let between = |from: Option<Instant>, to: Option<Instant>| Some((to? - from?).as_secs_f64() * 1e3);
        let generation = between(times.first, times.last);
        let inference = between(times.started, times.last).filter(|&ms| ms > 0.0);
        Self {
            time_to_first_token_ms: between(times.started, times.first),
            generation_time_ms: generation,
            queue_time_ms: between(Some(times.arrived), times.started),
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

#[derive(Serialize)]
pub(super) struct Logprobs {
    text_offset: Vec<usize>,
    token_logprobs: Vec<f64>,
    tokens: Vec<Cow<'static, str>>,
    top_logprobs: Vec<Top>,
}

/// The log-probabilities of a prompt: null for the first token, then for each its own by its id.
pub(super) struct PromptLogprobs(Vec<(u32, PromptToken)>);

#[derive(Serialize)]
struct PromptToken {
    logprob: f64,
    rank: u32,
    decoded_token: Option<String>,
}

impl PromptLogprobs {
    pub(super) fn of(prompt: &[u32], scores: &[Score], tokenizer: Option<&Arc<Tokenizer>>) -> Self {
        let tokens = prompt.iter().enumerate().skip(1).zip(scores).map(|((at, &id), score)| {
            let decoded_token = tokenizer.map(|tokenizer| tokenizer.shown(id, &prompt[at.saturating_sub(4)..at]));
            (id, PromptToken { logprob: written(score.logprob), rank: score.rank, decoded_token })
        });
        Self(tokens.collect())
    }
}

impl Serialize for PromptLogprobs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        struct Token<'a>(&'a (u32, PromptToken));
        impl Serialize for Token<'_> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let mut map = serializer.serialize_map(Some(1))?;
                map.serialize_entry(&self.0.0.to_string(), &self.0.1)?;
                map.end()
            }
        }
        let tokens = std::iter::once(None).chain(self.0.iter().map(|token| Some(Token(token))));
        serializer.collect_seq(tokens)
    }
}

/// Tokens and their log-probabilities, in order. Several ids may have the same text: like in a Python dictionary, the last one's
/// value appears in the first one's position.
struct Top(Vec<(Cow<'static, str>, f64)>);

impl Serialize for Top {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (at, (token, logprob)) in self.0.iter().enumerate() {
            if self.0[..at].iter().any(|(other, _)| other == token) {
                continue;
            }
            let last = self.0[at..].iter().rev().find(|(other, _)| other == token);
            map.serialize_entry(token, &last.map_or(*logprob, |(_, last)| *last))?;
        }
        map.end()
    }
}

/// Converts one sample's tokens to text, chunk by chunk.
pub(super) struct Writer {
    tokenizer: Option<Arc<Tokenizer>>,
    transcript: Option<Transcript>,
    tokens_as_ids: bool,
    logprobs: bool,
    /// Characters written so far.
    offset: usize,
    /// The last ids written, on which a token's text may depend.
    before: Vec<u32>,
}

impl Writer {
    pub(super) fn new(
        tokenizer: Option<&Arc<Tokenizer>>,
        prompt: &[u32],
        sampling: &crate::sampling::Sampling,
        tokens_as_ids: bool,
    ) -> Self {
        let transcript = tokenizer.map(|tokenizer| Transcript::new(tokenizer.clone(), prompt, sampling));
        let logprobs = sampling.logprobs.is_some();
        Self { tokenizer: tokenizer.cloned(), transcript, tokens_as_ids, logprobs, offset: 0, before: Vec::new() }
    }

    /// Appends the next tokens of the sample.
    pub(super) fn push(&mut self, output: &Output) {
        let Some(transcript) = &mut self.transcript else { return };
        let ends = matches!(output.finish, Some(FinishReason::End | FinishReason::StopToken(_)));
        for (at, &id) in output.ids.iter().enumerate() {
            // The scheduler stops at the same token, since it processes the same tokens in the same way.
            transcript.push(id, ends && at + 1 == output.ids.len());
        }
    }

    /// The whole text so far.
    pub(super) fn text(&self) -> &str {
        self.transcript.as_ref().map_or("", Transcript::text)
    }

    /// The text since the last call, as far as later tokens cannot change it.
    pub(super) fn take_text(&mut self, ended: bool) -> &str {
        self.transcript.as_mut().map_or("", |transcript| transcript.take_text(ended))
    }

    /// The log-probabilities of the output's tokens.
    pub(super) fn logprobs(&mut self, output: &Output) -> Option<Logprobs> {
        if !self.logprobs {
            return None;
        }
        let count = output.ids.len();
        let mut found = Logprobs {
            text_offset: Vec::with_capacity(count),
            token_logprobs: Vec::with_capacity(count),
            tokens: Vec::with_capacity(count),
            top_logprobs: Vec::with_capacity(count),
        };
        let width = output.top.len().checked_div(count).unwrap_or(0);
        for (at, (&id, &logprob)) in output.ids.iter().zip(&output.logprobs).enumerate() {
            let token = self.token(id);
            let mut top = Vec::with_capacity(width + 1);
            // The sampled one first, then the most likely others.
            top.push((token.clone(), written(logprob)));
            let others = output.top[at * width..][..width].iter().filter(|&&(other, _)| other != id);
            top.extend(others.map(|&(other, logprob)| (self.token(other), written(logprob))));
            found.text_offset.push(self.offset);
            found.token_logprobs.push(written(logprob));
            self.offset += token.chars().count();
            found.tokens.push(token);
            found.top_logprobs.push(Top(top));
            self.before.push(id);
        }
        let old = self.before.len().saturating_sub(4);
        self.before.drain(..old);
        Some(found)
    }

    fn token(&self, id: u32) -> Cow<'static, str> {
        match &self.tokenizer {
            Some(tokenizer) if !self.tokens_as_ids => tokenizer.shown(id, &self.before).into(),
            _ => format!("token_id:{id}").into(),
        }
    }
}

fn written(logprob: f32) -> f64 {
    f64::from(logprob).max(MINUS_INFINITY)
}
