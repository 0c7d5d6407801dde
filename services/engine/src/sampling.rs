//! The sampling settings of a request.

use std::sync::Arc;

use evenkeel_model::sampling::{DrawOptions, LogprobsMode, LogprobsRequest, Truncation};

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

impl SamplingParams {
    /// What the model divides logits by before a draw: the temperature, so that log-probabilities have the bits of the
    /// learner's. 1 where nothing is divided, or where the draw does it, since raw log-probabilities are asked for.
    pub(crate) fn divisor(&self, mode: LogprobsMode) -> f32 {
        if self.temperature > 0.0 && mode == LogprobsMode::ProcessedLogprobs { self.temperature } else { 1.0 }
    }

    /// How the token after `generated` others is drawn from logits over the [divisor](Self::divisor).
    pub(crate) fn draw_options(&self, generated: usize, mode: LogprobsMode) -> DrawOptions<'_> {
        DrawOptions {
            temperature: self.temperature / self.divisor(mode),
            truncation: self.truncation,
            excluded: if generated < self.min_tokens { &self.never_early } else { &[] },
            logprobs: self.logprobs.map(|alternatives| LogprobsRequest { mode, alternatives }),
        }
    }
}
