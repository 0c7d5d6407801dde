//! What a handler knows about its item besides the message.

use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;

use crate::deadline::Deadline;
use crate::error::ServiceError;
use evenkeel_telemetry::TraceContext;

/// Why an item was stopped before it had a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// The client cancelled it.
    Cancelled,
    /// The deadline of the item or of its call passed.
    Deadline,
    /// The server is shutting down.
    Aborted,
}

impl StopReason {
    pub(super) fn error(self, waited: Duration) -> ServiceError {
        match self {
            Self::Cancelled => ServiceError::Cancelled,
            Self::Deadline => ServiceError::Deadline(waited),
            Self::Aborted => ServiceError::Draining,
        }
    }
}

/// What a handler knows about its item.
#[derive(Debug, Clone)]
pub struct ItemContext {
    /// Deadline of the item. It is enforced outside the handler.
    pub deadline: Deadline,
    /// How long the item waited before its handler started.
    pub queued: Duration,
    /// Trace context of the item: the span that its handler may record. Handlers already run in its scope.
    pub trace: TraceContext,
    /// The span that the item names as its parent. `None` where neither it nor its call does.
    pub parent: Option<TraceContext>,
    pub(super) stop: StopSignal,
    pub(super) permit: Weak<HeldPermit>,
}

/// The permit of a running item, unless its handler released it.
pub(super) type HeldPermit = Mutex<Option<OwnedSemaphorePermit>>;

impl ItemContext {
    /// Completes when the item is stopped. A handler that waits for it may still respond within the server's grace
    /// period, for example with a partial result; any other handler is dropped.
    pub async fn stopped(&self) -> StopReason {
        self.stop.wait().await
    }

    /// Whether the item is stopped: for work on threads, which cannot be dropped and must poll.
    pub fn is_stopped(&self) -> bool {
        self.stop.token.is_cancelled()
    }

    /// Lets another item run: for handlers with a queue and threads of their own. The item still counts as running.
    pub fn release_permit(&self) {
        if let Some(permit) = self.permit.upgrade() {
            drop(permit.lock().unwrap_or_else(PoisonError::into_inner).take());
        }
    }
}

/// Tells a handler that its item is stopped, and why. The first reason wins.
#[derive(Debug, Clone, Default)]
pub(super) struct StopSignal {
    reason: Arc<OnceLock<StopReason>>,
    token: CancellationToken,
}

impl StopSignal {
    pub(super) fn stop(&self, reason: StopReason) {
        self.reason.get_or_init(|| reason);
        self.token.cancel();
    }

    pub(super) async fn wait(&self) -> StopReason {
        self.token.cancelled().await;
        *self.reason.get().expect("the reason is set before the token is cancelled")
    }
}

/// Stops the item when its task is dropped: its threads may outlive the task.
pub(super) struct AbortOnDrop(pub(super) StopSignal);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.stop(StopReason::Aborted);
    }
}
