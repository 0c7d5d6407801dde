//! When the model ran within a step, for which groups and how long: what traces and metrics show of it.

use std::time::{Duration, Instant, SystemTime};

/// What a pass does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassKind {
    /// Forward alone: old and reference log-probabilities.
    Scoring,
    /// Forward and backward.
    Gradient,
    /// The optimizer's update.
    Update,
}

impl PassKind {
    /// The name in metrics and traces.
    pub fn label(self) -> &'static str {
        match self {
            Self::Scoring => "scoring",
            Self::Gradient => "gradient",
            Self::Update => "update",
        }
    }
}

/// One pass over a few micro-batches, or an update.
#[derive(Clone, Debug, PartialEq)]
pub struct Pass {
    /// Kind of work that the pass did.
    pub kind: PassKind,
    /// Time at which it began.
    pub began: SystemTime,
    /// Time at which it ended.
    pub ended: SystemTime,
    /// How many it ran; 0 for an update.
    pub micro_batches: usize,
    /// Indices of the step's groups whose responses are among them, ascending. Empty for an update and for a supervised
    /// step.
    pub groups: Vec<usize>,
}

/// The work done, with the time of each part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkDone {
    /// Forward passes alone: old and reference log-probabilities.
    pub scoring: Duration,
    /// Forward and backward passes.
    pub gradient: Duration,
    /// Time of clipping and the optimizer.
    pub optimizer: Duration,
    /// Micro-batches that went through a forward and backward pass.
    pub micro_batches: u64,
}

/// When a pass began, in wall-clock and monotonic time.
#[derive(Clone, Copy)]
pub(crate) struct StartTime {
    wall: SystemTime,
    monotonic: Instant,
}

/// The passes of the step so far, and the work done since it was last taken.
#[derive(Debug, Default)]
pub(crate) struct Timeline {
    passes: Vec<Pass>,
    work: WorkDone,
}

impl Timeline {
    /// Begins a step.
    pub(crate) fn clear(&mut self) {
        self.passes.clear();
    }

    /// The beginning of a pass.
    pub(crate) fn now() -> StartTime {
        StartTime { monotonic: Instant::now(), wall: SystemTime::now() }
    }

    /// Adds a pass that ends now.
    pub(crate) fn add(&mut self, kind: PassKind, began: StartTime, micro_batches: usize) {
        let took = began.monotonic.elapsed();
        match kind {
            PassKind::Scoring => self.work.scoring += took,
            PassKind::Gradient => {
                self.work.gradient += took;
                self.work.micro_batches += micro_batches as u64;
            }
            PassKind::Update => self.work.optimizer += took,
        }
        let began = began.wall;
        let ended = SystemTime::now();
        self.passes.push(Pass { kind, began, ended, micro_batches, groups: Vec::new() });
    }

    /// Records whose responses the last pass of this kind ran. Does nothing if there was none.
    pub(crate) fn of_groups(&mut self, kind: PassKind, groups: impl Iterator<Item = usize>) {
        if let Some(pass) = self.passes.iter_mut().rev().find(|pass| pass.kind == kind) {
            pass.groups = groups.collect();
            pass.groups.sort_unstable();
            pass.groups.dedup();
        }
    }

    /// Takes the passes recorded so far.
    pub(crate) fn take_passes(&mut self) -> Vec<Pass> {
        std::mem::take(&mut self.passes)
    }

    /// Takes the work done since the last call.
    pub(crate) fn take_work(&mut self) -> WorkDone {
        std::mem::take(&mut self.work)
    }

    pub(crate) fn work(&self) -> WorkDone {
        self.work
    }

    /// Forgets what was done since [`Self::work`].
    pub(crate) fn set_work(&mut self, work: WorkDone) {
        self.work = work;
    }
}
