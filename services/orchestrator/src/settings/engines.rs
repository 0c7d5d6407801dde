//! What engines do beside the learner.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What engines do while the learner trains.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Engines {
    /// They keep their memory.
    #[default]
    Awake,
    /// They sleep, with their weights in the host's memory.
    Offload,
    /// They sleep, without weights.
    Discard,
}
