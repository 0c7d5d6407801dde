//! The end of a server as its handlers see it: first no new work, in the end no work at all.

use tokio_util::sync::CancellationToken;

/// Tells handlers that the server ends. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Drain {
    draining: CancellationToken,
    aborting: CancellationToken,
}

impl Drain {
    /// A server that does not end yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// No new work from now on; what there is goes on.
    pub fn begin(&self) {
        self.draining.cancel();
    }

    /// No work at all from now on.
    pub fn abort(&self) {
        self.draining.cancel();
        self.aborting.cancel();
    }

    /// Whether no new work is taken.
    pub fn is_draining(&self) -> bool {
        self.draining.is_cancelled()
    }

    /// Ends when no new work is taken any more.
    pub async fn draining(&self) {
        self.draining.cancelled().await;
    }

    /// Ends when work in progress must end too.
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
