//! A session, as its user has it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio_util::sync::CancellationToken;

use super::outcome::CellOutcome;
use super::thread::{CellThread, Message, Requests};

/// A session. Dropping it ends a cell that runs, and frees its memory.
pub struct CellSession {
    id: u64,
    requests: Requests,
    cancel: CancellationToken,
    /// Sessions of the pool.
    open: Arc<AtomicUsize>,
}

impl CellSession {
    pub(super) fn new(id: u64, thread: &CellThread, open: Arc<AtomicUsize>) -> Self {
        Self { id, requests: thread.enter(), cancel: CancellationToken::new(), open }
    }

    /// Runs a cell after those before it. `done` is called once with its outcome, on a thread of the pool; it must not
    /// block. It is dropped without being called where the pool has ended.
    pub fn run(&self, source: String, done: impl FnOnce(CellOutcome) + Send + 'static) {
        let id = self.id;
        let cancel = self.cancel.clone();
        self.requests.send(Message::Run { id, source, cancel, done: Box::new(done) });
    }

    /// Runs a cell and waits for its outcome.
    #[must_use]
    pub fn run_and_wait(&self, source: &str) -> CellOutcome {
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        self.run(source.to_owned(), move |outcome| drop(sender.send(outcome)));
        receiver.recv().unwrap_or_else(|_| CellOutcome::Lost("the pool has ended".to_owned()))
    }
}

impl Drop for CellSession {
    fn drop(&mut self) {
        self.cancel.cancel();
        self.requests.send(Message::End { id: self.id });
        self.open.fetch_sub(1, Ordering::AcqRel);
    }
}
