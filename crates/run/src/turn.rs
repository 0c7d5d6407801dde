//! A turn of an episode, as it is kept.

use serde::{Deserialize, Serialize};

/// A turn of an episode with several.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RolloutTurn {
    /// `assistant` for what the model sampled, `tool` and `user` for what the environment said, `prompt` for a prompt
    /// that an agent has made, with which a sequence begins.
    pub role: String,
    /// What; of the model with its special tokens.
    pub text: String,
    /// Tokens of the response. Those of several messages between two turns count at the last of them, with what the
    /// template puts around them.
    pub tokens: u32,
    /// Whether its tokens were sampled, so that they are what is trained on.
    pub trained: bool,
    /// What the environment gave for it, where it gives rewards with turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reward: Option<f64>,
}
