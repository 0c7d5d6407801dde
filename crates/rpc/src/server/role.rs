//! What a caller may do.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a caller may do; each role may do what the ones before it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// A service that is called and calls no other, such as a reward worker: health checks and the list of methods.
    Service,
    /// People, dashboards and the page: watch, and change nothing.
    Reader,
    /// Fetch published weights.
    Agent,
    /// Start and stop runs, and have answers verified.
    Admin,
    /// Take part in the training steps of a learner, as another of its ranks.
    Rank,
    /// Drive all services.
    Orchestrator,
}

impl Role {
    /// The name in settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Service => "service",
            Self::Reader => "reader",
            Self::Agent => "agent",
            Self::Admin => "admin",
            Self::Rank => "rank",
            Self::Orchestrator => "orchestrator",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
