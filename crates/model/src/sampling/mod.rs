//! Sampling: from a row of logits to a token and its log-probability.
//!
//! The result is a function of the row, the options and one number in [0, 1). It does not depend on the thread that
//! draws or on what else runs.

mod draw;
mod normalizer;
mod statistics;
mod truncate;
mod weights;

pub use draw::{Drawn, NotFinite, Sampler, Score};
use serde::{Deserialize, Serialize};
pub use statistics::{COMMON_RANKS, FLOORS, SURPRISE_BOUND, SampledFrom, SampledToken, TokenDraw, TokenStatistics};
pub use truncate::Truncation;

/// How a token is sampled.
#[derive(Debug, Clone, Copy)]
pub struct DrawOptions<'a> {
    /// Sampling temperature: divides the logits; 0 is greedy decoding.
    pub temperature: f32,
    /// Which tokens are too unlikely to be sampled.
    pub truncation: Truncation,
    /// Ids that cannot be sampled.
    pub excluded: &'a [u32],
    /// Log-probabilities to report, if any.
    pub logprobs: Option<LogprobsRequest>,
}

/// Excludes ids from a row of logits, for what draws from it and for what is said of the draw.
pub(crate) fn exclude(row: &mut [f32], ids: &[u32]) {
    for &id in ids {
        row[id as usize] = f32::NEG_INFINITY;
    }
}

/// The log-probabilities that are reported with a sampled token: its own, and those of alternatives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogprobsRequest {
    /// Distribution that the log-probabilities belong to.
    pub mode: LogprobsMode,
    /// Number of most likely tokens to report.
    pub alternatives: usize,
}

/// Which distribution a log-probability belongs to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum LogprobsMode {
    /// The one that was sampled from: after temperature and truncation, renormalized.
    #[default]
    ProcessedLogprobs,
    /// The model's own, before any processing.
    RawLogprobs,
}

impl LogprobsMode {
    /// Name of the mode, as vLLM's `--logprobs-mode` spells it.
    pub fn name(self) -> &'static str {
        match self {
            Self::ProcessedLogprobs => "processed_logprobs",
            Self::RawLogprobs => "raw_logprobs",
        }
    }
}
