//! How a device wants sequences packed.

/// How sequences are packed whose gradient is summed. Micro-batches never cross a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GradientPacking {
    /// Consecutive sequences of one group, whose prompt is computed once: of this many tokens after the prompt
    /// together, or as many as the prompt has, or one longer sequence. What is summed with what then follows from the
    /// groups alone.
    InOrder(usize),
    /// The sequences of a block that a pass has, the longest first, up to this many tokens, or one longer sequence:
    /// full micro-batches of similar lengths, each with its prompt.
    ByLength(usize),
}
