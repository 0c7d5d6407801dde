//! Whether sequences run, and the callers that wait for a pause to take effect.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::oneshot;

use super::reply;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PauseState {
    Running,
    Draining,
    Frozen,
}

/// The pause of a scheduler.
pub(super) struct Pause {
    state: PauseState,
    /// Callers that wait until nothing runs.
    waiting: Vec<oneshot::Sender<()>>,
    /// Read by other threads.
    paused: Arc<AtomicBool>,
}

impl Pause {
    pub(super) fn new(paused: Arc<AtomicBool>) -> Self {
        Self { state: PauseState::Running, waiting: Vec::new(), paused }
    }

    /// Whether waiting sequences may be admitted.
    pub(super) fn admits(&self) -> bool {
        self.state == PauseState::Running
    }

    /// Whether admitted sequences may run.
    pub(super) fn steps(&self) -> bool {
        self.state != PauseState::Frozen
    }

    /// Freezes sequences at once.
    pub(super) fn freeze(&mut self) {
        self.paused.store(true, Ordering::Release);
        self.state = PauseState::Frozen;
    }

    /// Admits no more sequences. The pause is complete when [`Self::settle`] is called with nothing running.
    pub(super) fn drain(&mut self, done: oneshot::Sender<()>) {
        self.paused.store(true, Ordering::Release);
        self.state = PauseState::Draining;
        self.waiting.push(done);
    }

    /// Replies to callers that wait for the pause, if nothing runs.
    pub(super) fn settle(&mut self, idle: bool) {
        if self.state == PauseState::Draining && idle {
            self.waiting.drain(..).for_each(|done| reply(done, ()));
        }
    }

    /// Ends the pause, even one that never took effect.
    pub(super) fn resume(&mut self) {
        self.state = PauseState::Running;
        self.paused.store(false, Ordering::Release);
        self.waiting.drain(..).for_each(|done| reply(done, ()));
    }
}
