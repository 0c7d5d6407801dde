//! The shutdown of a server as its handlers see it: draining, then aborting.

use tokio_util::sync::CancellationToken;

/// The shutdown signal for handlers. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Drain {
    draining: CancellationToken,
    aborting: CancellationToken,
}

impl Drain {
    /// A server that is not shutting down.
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts to drain: new work is refused, work in progress continues.
    pub fn begin(&self) {
        self.draining.cancel();
    }

    /// Aborts work in progress.
    pub fn abort(&self) {
        self.draining.cancel();
        self.aborting.cancel();
    }

    /// Whether new work is refused.
    pub fn is_draining(&self) -> bool {
        self.draining.is_cancelled()
    }

    /// Completes when the server drains.
    pub async fn draining(&self) {
        self.draining.cancelled().await;
    }

    /// Completes when work in progress is aborted.
    pub async fn aborting(&self) {
        self.aborting.cancelled().await;
    }

    pub(super) fn draining_token(&self) -> CancellationToken {
        self.draining.clone()
    }

    pub(super) fn aborting_token(&self) -> CancellationToken {
        self.aborting.clone()
    }
}
