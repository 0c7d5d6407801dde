//! What a sample says of itself while it is generated.

use super::timestamps::Timestamps;
use crate::finish::FinishReason;
use evenkeel_model::sampling::Score;

/// Tokens of one sample: all of them, or those since the last output.
#[derive(Debug)]
pub(crate) struct Output {
    /// Index of the sample in the request.
    pub(crate) index: usize,
    pub(crate) ids: Vec<u32>,
    /// Log-probability of each token, if requested.
    pub(crate) logprobs: Vec<f32>,
    /// The alternatives of each token, as many as the request asked for, most likely first.
    pub(crate) top: Vec<(u32, f32)>,
    /// Score of each token of the prompt but the first, if requested; in the last output only.
    pub(crate) prompt: Vec<Score>,
    pub(crate) finish: Option<FinishReason>,
    /// Timestamps so far.
    pub(crate) times: Timestamps,
}
