//! SamplingParams: from a row of logits to a token and its log-probability.
//!
//! The result is a function of the row, the request and one number of the sequence's own stream. It does not depend on
//! the thread that draws or on what else runs.

mod draw;
mod truncate;
mod weights;

pub(crate) use draw::{Drawn, NotFinite, Sampler, Score};
pub(crate) use truncate::Truncation;

use std::sync::Arc;

/// The sampling settings of a request.
#[derive(Debug, Clone)]
pub(crate) struct SamplingParams {
    /// 0 for the most likely token.
    pub(crate) temperature: f32,
    pub(crate) truncation: Truncation,
    /// Alternatives to report at each token; `None` reports no log-probabilities at all.
    pub(crate) logprobs: Option<usize>,
    /// Whether the tokens of the prompt are scored as well, which feeds it token by token.
    pub(crate) prompt_logprobs: bool,
    /// Number of tokens before which none of `never_early` may be drawn.
    pub(crate) min_tokens: usize,
    pub(crate) never_early: Vec<u32>,
    /// Maximum number of tokens to generate, at least 1.
    pub(crate) max_tokens: usize,
    /// The end-of-sequence token: it ends a sample without a stop reason.
    pub(crate) eos_token_id: Option<u32>,
    /// Tokens that end it and are reported as the reason.
    pub(crate) stop_token_ids: Vec<u32>,
    /// Texts that end it.
    pub(crate) stop: Arc<[String]>,
    /// Whether the text includes the stop text.
    pub(crate) include_stop_str_in_output: bool,
    /// Whether special tokens have no text.
    pub(crate) skip_special_tokens: bool,
}
