//! What a pool is doing, for monitoring.

use std::sync::atomic::{AtomicU64, Ordering};

/// Programs and worker processes of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolUsage {
    /// Programs that are queued or running.
    pub programs: usize,
    /// Worker processes that run now.
    pub processes: u64,
    /// Worker processes that were started so far.
    pub processes_started: u64,
    /// Worker processes that crashed or were killed.
    pub processes_lost: u64,
}

/// Counts the worker processes that a pool starts and loses.
#[derive(Debug, Default)]
pub(super) struct ProcessCounts {
    started: AtomicU64,
    lost: AtomicU64,
}

impl ProcessCounts {
    pub(super) fn started(&self) {
        self.started.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn lost(&self) {
        self.lost.fetch_add(1, Ordering::Relaxed);
    }

    /// Processes live as long as the pool, unless they are lost.
    pub(super) fn usage(&self, programs: usize) -> PoolUsage {
        // In this order no process is lost that was not started.
        let lost = self.lost.load(Ordering::Relaxed);
        let started = self.started.load(Ordering::Relaxed);
        let processes = started.saturating_sub(lost);
        PoolUsage { programs, processes, processes_started: started, processes_lost: lost }
    }
}
