//! Why an episode ends without a result.

use std::path::Path;
use std::time::Duration;

use evenkeel_host::FileDigest;
use evenkeel_proto::shown::with_traceback;
use evenkeel_proto::v1::environment_event::Kind;
use evenkeel_proto::v1::{EnvironmentEvent, EpisodeFailed, EpisodeFailure};

/// Longest message, in characters: it may repeat what a program of others said.
const MAX_MESSAGE: usize = 1000;
/// Longest traceback behind a message, in characters.
const MAX_TRACEBACK: usize = 4000;

/// Why an episode has ended without a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) kind: EpisodeFailure,
    /// Whether another attempt makes sense.
    pub(crate) retryable: bool,
    pub(crate) message: String,
}

impl Failure {
    /// A failure with its message: one line, which a traceback may follow.
    pub(crate) fn new(kind: EpisodeFailure, message: impl AsRef<str>) -> Self {
        let message = with_traceback(message.as_ref(), MAX_MESSAGE, MAX_TRACEBACK);
        // Another attempt at a task that cannot be done ends the same way.
        Self { kind, retryable: kind != EpisodeFailure::TaskInvalid, message }
    }

    /// The environment itself failed.
    pub(crate) fn crashed(message: impl AsRef<str>) -> Self {
        Self::new(EpisodeFailure::Crashed, message)
    }

    /// Refuses a file that has another content than when the worker was started.
    ///
    /// # Errors
    /// A changed file, which is refused in every attempt.
    pub(crate) fn of_changed_file(path: &Path, digest: &str) -> Result<(), Self> {
        if FileDigest::of(path).is_ok_and(|now| now.to_string() == digest) {
            return Ok(());
        }
        let message = format!("{} is not the file that the worker was started with", path.display());
        Err(Self { retryable: false, ..Self::crashed(message) })
    }

    /// A request breaks the protocol.
    pub(crate) fn refused(message: impl AsRef<str>) -> Self {
        Self::new(EpisodeFailure::Refused, message)
    }

    /// Something took longer than it may.
    pub(crate) fn timeout(what: &str, limit: Duration) -> Self {
        let limit = evenkeel_config::human(limit);
        Self::new(EpisodeFailure::Timeout, format!("{what} took longer than {limit}"))
    }

    /// As an event of an episode.
    pub(crate) fn event(self, episode_id: &str, attempt: u32) -> EnvironmentEvent {
        let failed = EpisodeFailed { failure: self.kind.into(), retryable: self.retryable, message: self.message };
        EnvironmentEvent { episode_id: episode_id.to_owned(), attempt, kind: Some(Kind::Failed(failed)) }
    }
}
