//! What a sample says of itself while it is generated: its tokens, and why it ended.

use crate::metrics::{Outcome, Times};
use crate::sampling::Score;

/// Why a sample ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FinishReason {
    /// The end of sequence.
    End,
    /// A token of the request or of the model's own list.
    StopToken(u32),
    /// A text of the request.
    StopText(String),
    /// `max_tokens`, or the end of the context.
    Length,
    /// It was aborted.
    Abort,
    /// The step failed, or its logits are not finite.
    Error(String),
}

impl FinishReason {
    /// The outcome in metrics.
    pub(super) fn outcome(&self) -> Outcome {
        match self {
            Self::End | Self::StopToken(_) | Self::StopText(_) => Outcome::Stop,
            Self::Length => Outcome::Length,
            Self::Abort => Outcome::Abort,
            Self::Error(_) => Outcome::Error,
        }
    }
}

/// Tokens of one sample: all of them, or those since the last output.
#[derive(Debug)]
pub(crate) struct Output {
    /// Index of the sample in the request.
    pub(crate) index: usize,
    pub(crate) ids: Vec<u32>,
    /// Of each token, if requested.
    pub(crate) logprobs: Vec<f32>,
    /// The alternatives of each token, as many as the request asked for, most likely first.
    pub(crate) top: Vec<(u32, f32)>,
    /// Of each token of the prompt but the first, if requested; in the last output only.
    pub(crate) prompt: Vec<Score>,
    pub(crate) finish: Option<FinishReason>,
    /// Its timestamps so far.
    pub(crate) times: Times,
}
