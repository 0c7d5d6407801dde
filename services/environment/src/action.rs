//! What the model said in a turn, as an episode takes it.

use evenkeel_proto::v1::{AssistantMessage, FinishReason, SampledToken};

/// What the model said in a turn.
pub(crate) struct Action {
    pub(crate) message: AssistantMessage,
    pub(crate) finish_reason: FinishReason,
    /// Number of the turn, from 1.
    pub(crate) turn: u32,
    /// Tokens before the turn, and of it.
    pub(crate) tokens: (u32, u32),
    /// Token ids before the turn, and tokens of the turn, where an agent wants them.
    pub(crate) token_ids: (Vec<u32>, Vec<SampledToken>),
}
