//! Who asks: clients share what a server has by their connections.

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};

tokio::task_local! {
    static CURRENT: ClientId;
}

/// One connection of a client, unique within the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClientId(u64);

impl ClientId {
    /// A client that has not been seen before.
    pub fn unseen() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// The client whose call is being answered; an unseen one outside of calls.
    pub fn current() -> Self {
        CURRENT.try_with(|client| *client).unwrap_or_else(|_| Self::unseen())
    }

    /// Answers a call of this client.
    pub(crate) fn scope<F: Future>(self, call: F) -> impl Future<Output = F::Output> {
        CURRENT.scope(self, call)
    }
}
