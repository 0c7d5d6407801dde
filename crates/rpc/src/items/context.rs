//! What a handler knows of its item besides the item.

use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::turns::Turn;
use crate::deadline::Deadline;
use crate::error::ServiceError;
use evenkeel_telemetry::TraceContext;

/// Why an item was stopped before it had a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// Its caller took it back.
    Cancelled,
    /// Its or its call's deadline ended.
    Deadline,
    /// The server ends.
    Aborted,
}

impl Stopped {
    pub(super) fn error(self, waited: Duration) -> ServiceError {
        match self {
            Self::Cancelled => ServiceError::Cancelled,
            Self::Deadline => ServiceError::Deadline(waited),
            Self::Aborted => ServiceError::Draining,
        }
    }
}

/// What a handler knows of its item.
#[derive(Debug, Clone)]
pub struct ItemContext {
    /// When the item ends. It is enforced around the handler, which need not look at it.
    pub deadline: Deadline,
    /// How long the item waited for a place to be worked on.
    pub queued: Duration,
    /// The item's place in its trace; handlers already run in its scope.
    pub trace: TraceContext,
    pub(super) stop: Stop,
    pub(super) place: Weak<Place>,
}

/// An item's place in work.
pub(super) type Place = Mutex<Option<Turn>>;

impl ItemContext {
    /// Ends when the item is stopped. A handler that listens may answer itself within the server's grace (with what it has so
    /// far); one that does not is dropped.
    pub async fn stopped(&self) -> Stopped {
        self.stop.wait().await
    }

    /// Becomes true when the item is stopped: for work on threads, which cannot be dropped and has to look.
    pub fn is_stopped(&self) -> bool {
        self.stop.token.is_cancelled()
    }

    /// Gives the item's place in work to another item: for a handler that has a queue and threads of its own. The item still
    /// counts as one in work.
    pub fn leave_place(&self) {
        if let Some(place) = self.place.upgrade() {
            drop(place.lock().unwrap_or_else(PoisonError::into_inner).take());
        }
    }
}

/// Tells a handler that it is stopped, and why; the first reason stands.
#[derive(Debug, Clone, Default)]
pub(super) struct Stop {
    reason: Arc<OnceLock<Stopped>>,
    token: CancellationToken,
}

impl Stop {
    pub(super) fn because(&self, reason: Stopped) {
        self.reason.get_or_init(|| reason);
        self.token.cancel();
    }

    pub(super) async fn wait(&self) -> Stopped {
        self.token.cancelled().await;
        *self.reason.get().expect("the reason is set before the token is cancelled")
    }
}

/// Stops the item when its task is dropped, for work on threads that outlives the task.
pub(super) struct StopOnDrop(pub(super) Stop);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.because(Stopped::Aborted);
    }
}
