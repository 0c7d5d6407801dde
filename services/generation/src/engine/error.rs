//! What can go wrong between this service and an engine, and whose fault it is.

use evenkeel_proto::FieldError;

/// Who has to change something before another attempt can succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Blame {
    /// The sample: no engine will take it.
    Sample,
    /// The engine answers, and not as it should.
    Engine,
    /// The engine cannot be reached, or was lost on the way.
    Connection,
    /// The sample did nothing wrong and neither did the engine: its work was taken back.
    Nobody,
}

/// A failed exchange with an engine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EngineError {
    /// No connection, or one that broke.
    #[error("{route}: {message}")]
    Transport { route: &'static str, message: String },
    /// No answer in time.
    #[error("{route}: no answer within {after_ms} ms")]
    Timeout { route: &'static str, after_ms: u64 },
    /// An answer that says no.
    #[error("{route}: HTTP {status}: {message}")]
    Status { route: &'static str, status: u16, message: String },
    /// The request itself was refused.
    #[error("{route}: refused: {message}")]
    Refused { route: &'static str, message: String },
    /// An answer that does not check.
    #[error("{route}: answer not believed: {0}", route = "/v1/completions")]
    Answer(FieldError),
    /// Something about the engine that would bias or break training.
    #[error("{0}")]
    Unfit(FieldError),
    /// It has other weights than it should.
    #[error("its weights are `{says}`, they should be `{expected}`")]
    Weights { says: String, expected: String },
    /// The engine was given up while it had the sample.
    #[error("given up with its engine: {reason}")]
    TakenBack { reason: String },
}

impl EngineError {
    /// An answer whose `field` is `value`.
    pub(crate) fn answer(field: &str, value: impl std::fmt::Display, allowed: impl Into<String>) -> Self {
        Self::Answer(FieldError::new(field, value, allowed))
    }

    /// Whose fault it is, where it came of a sample.
    pub(crate) fn blame(&self) -> Blame {
        match self {
            Self::Refused { .. } => Blame::Sample,
            Self::Transport { .. } | Self::Timeout { .. } | Self::Weights { .. } => Blame::Connection,
            Self::Status { .. } | Self::Answer(_) | Self::Unfit(_) => Blame::Engine,
            Self::TakenBack { .. } => Blame::Nobody,
        }
    }

    /// The route is not there.
    pub(crate) fn is_missing_route(&self) -> bool {
        matches!(self, Self::Status { status: 403 | 404 | 405 | 501, .. })
    }

    /// Short and bounded, for metrics.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Transport { .. } => "transport",
            Self::Timeout { .. } => "timeout",
            Self::Status { .. } => "status",
            Self::Refused { .. } => "refused",
            Self::Answer(_) => "answer",
            Self::Unfit(_) => "unfit",
            Self::Weights { .. } => "weights",
            Self::TakenBack { .. } => "taken_back",
        }
    }
}
