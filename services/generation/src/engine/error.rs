//! What can go wrong between this service and an engine, and whose fault it is.

use evenkeel_proto::FieldError;
use evenkeel_rpc::error::ServiceError;
use tokio::task::JoinError;

/// What the embedded engine says of weights with which it can sample nothing.
const NOT_FINITE: &str = "logits are not finite";

/// Whose fault a failed sample is, which decides what another attempt needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineFault {
    /// The request's: no engine will take it.
    Request,
    /// The engine's: it answers, but incorrectly.
    Engine,
    /// The model's: every engine computes the same from these weights.
    Weights,
    /// The connection's: the engine cannot be reached, or was lost on the way.
    Connection,
    /// Only an interruption: the sample was taken back from its engine.
    Interruption,
}

/// A failed exchange with an engine.
#[derive(Debug, thiserror::Error)]
pub enum EngineClientError {
    /// No connection, or one that broke.
    #[error("{route}: {message}")]
    Transport { route: &'static str, message: String },
    /// No HTTP client can be made of the settings.
    #[error("cannot create an HTTP client: {message}")]
    NoClient { message: String },
    /// No answer in time.
    #[error("{route}: no answer within {after_ms} ms")]
    Timeout { route: &'static str, after_ms: u64 },
    #[error("{route}: HTTP {status}: {message}")]
    Status { route: &'static str, status: u16, message: String },
    /// The model computes no probabilities: its weights are not finite, or so large that its logits are not.
    #[error("{route}: HTTP {status}: {message}; the weights hold NaN or Inf, or an update has blown them up")]
    NotFinite { route: &'static str, status: u16, message: String },
    /// The request itself was refused.
    #[error("{route}: refused: {message}")]
    Refused { route: &'static str, message: String },
    /// A response that fails validation.
    #[error("invalid response: {0}")]
    InvalidResponse(FieldError),
    /// Samples of this engine would bias or break training.
    #[error("{0}")]
    Incompatible(FieldError),
    /// The engine serves other weights than it should.
    #[error("its weights are `{reported}`, they should be `{expected}`")]
    WrongWeights { reported: String, expected: String },
    /// The sample was taken back from its engine.
    #[error("interrupted: {reason}")]
    Interrupted { reason: String },
    /// The engine would have to load the weights that it was started with.
    #[error("the weights that it was started with cannot be loaded again")]
    NotLoadable,
    /// The task that reads its model's folder panicked.
    #[error("reading its model's folder: {0}")]
    ReadModel(#[source] JoinError),
    /// The engine had old weights, and could not be given the current ones.
    #[error("weights not updated: {0}")]
    NotUpdated(#[source] ServiceError),
}

impl EngineClientError {
    /// What an engine says instead of an answer.
    pub fn status(route: &'static str, status: u16, message: String) -> Self {
        if message.contains(NOT_FINITE) {
            Self::NotFinite { route, status, message }
        } else {
            Self::Status { route, status, message }
        }
    }

    /// A response whose `field` is `value`.
    pub fn invalid(field: &str, value: impl std::fmt::Display, allowed: impl Into<String>) -> Self {
        Self::InvalidResponse(FieldError::new(field, value, allowed))
    }

    /// Whose fault it is that a sample failed with it.
    pub fn fault(&self) -> EngineFault {
        match self {
            Self::Refused { .. } => EngineFault::Request,
            Self::NotFinite { .. } => EngineFault::Weights,
            Self::Transport { .. } | Self::NoClient { .. } | Self::Timeout { .. } | Self::WrongWeights { .. } => {
                EngineFault::Connection
            }
            Self::Status { .. } | Self::InvalidResponse(_) | Self::Incompatible(_) => EngineFault::Engine,
            // Only checks and updates of an engine fail with the last three, never samples.
            Self::Interrupted { .. } | Self::NotLoadable | Self::ReadModel(_) | Self::NotUpdated(_) => {
                EngineFault::Interruption
            }
        }
    }

    /// Whether the engine does not have the route.
    pub fn is_missing_route(&self) -> bool {
        matches!(self, Self::Status { status: 403 | 404 | 405 | 501, .. })
    }

    /// A label of metrics.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Transport { .. } | Self::NoClient { .. } => "transport",
            Self::Timeout { .. } => "timeout",
            Self::Status { .. } => "status",
            Self::Refused { .. } => "refused",
            Self::NotFinite { .. } => "not_finite",
            Self::InvalidResponse(_) => "invalid_response",
            Self::Incompatible(_) => "incompatible",
            Self::WrongWeights { .. } => "wrong_weights",
            Self::Interrupted { .. } | Self::NotLoadable | Self::ReadModel(_) | Self::NotUpdated(_) => "interrupted",
        }
    }
}
