//! What status calls read while the learner's thread is busy.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use evenkeel_proto::v1::{LearnerState, TrainKind};

use super::instruments::record_state;

/// The status of the learner.
#[derive(Clone, Debug, Default)]
pub(super) struct Status {
    pub(super) state: LearnerState,
    pub(super) version: u64,
    /// The run that the weights belong to; empty if there is none.
    pub(super) run_id: String,
    pub(super) last_grpo_step: Option<u64>,
    pub(super) last_supervised_step: Option<u64>,
}

/// The current status. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct StatusBoard(Arc<Mutex<Status>>);

impl StatusBoard {
    /// The current status.
    pub(super) fn read(&self) -> Status {
        self.lock().clone()
    }

    /// Records what the thread is doing, and the version of the weights.
    pub(super) fn set_state(&self, state: LearnerState, version: u64) {
        let mut status = self.lock();
        (status.state, status.version) = (state, version);
        record_state(state, version);
    }

    /// Records the run that the weights belong to.
    pub(super) fn set_run(&self, run_id: &str) {
        run_id.clone_into(&mut self.lock().run_id);
    }

    /// Records a completed step.
    pub(super) fn step_done(&self, kind: TrainKind, step: u64, version: u64) {
        let mut status = self.lock();
        status.version = version;
        match kind {
            TrainKind::Supervised => status.last_supervised_step = Some(step),
            _ => status.last_grpo_step = Some(step),
        }
    }

    /// Records that the weights were replaced: no step has been done since.
    pub(super) fn restored(&self, version: u64) {
        let mut status = self.lock();
        status.version = version;
        (status.last_grpo_step, status.last_supervised_step) = (None, None);
    }

    fn lock(&self) -> MutexGuard<'_, Status> {
        // A panic cannot leave it inconsistent: writers only assign.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
