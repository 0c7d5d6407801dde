//! Why the stream to a worker is not open.

use std::time::Duration;

use evenkeel_config::human;
use tonic::{Code, Status};

/// Why a stream was lost or could not be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DisconnectReason {
    /// No connection could be made.
    #[error("{0}")]
    Unreachable(String),
    /// The stream was not open in time.
    #[error("the stream did not open within {}", human(*.0))]
    OpenTimeout(Duration),
    /// The worker refused the stream, or the stream failed.
    #[error("{code:?}: {message}")]
    Status {
        code: Code,
        /// The message of the status.
        message: String,
    },
    /// The worker ended the stream.
    #[error("the worker ended the stream")]
    Ended,
    /// The worker left cancelled items unanswered.
    #[error("it did not answer cancelled items")]
    Unresponsive,
    /// The stream is reopened because it stalled.
    #[error("the stream stalled")]
    Stuck,
}

impl From<Status> for DisconnectReason {
    fn from(status: Status) -> Self {
        Self::Status { code: status.code(), message: status.message().to_owned() }
    }
}
