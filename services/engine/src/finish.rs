//! Why samples end.

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
    Abort,
    /// The step failed, or its logits are not finite.
    Error(String),
}

impl FinishReason {
    /// Every label, in vLLM's order.
    pub(crate) const LABELS: [&'static str; 4] = ["stop", "length", "abort", "error"];

    /// `finish_reason`, as vLLM spells it in responses and metrics.
    pub(crate) fn label(&self) -> &'static str {
        Self::LABELS[self.index()]
    }

    /// The position of its label.
    pub(crate) fn index(&self) -> usize {
        match self {
            Self::End | Self::StopToken(_) | Self::StopText(_) => 0,
            Self::Length => 1,
            Self::Abort => 2,
            Self::Error(_) => 3,
        }
    }
}
