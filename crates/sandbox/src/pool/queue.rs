//! Schedules the tests of queued programs.
//!
//! Programs are ordered by their expected finish time, but how long a test takes is not known in advance. There are as
//! many regular slots as cores, and as many slots for long-running tests. While other tests wait, a test that exceeds
//! its time slice moves to a long-running slot and continues. If all of those are taken, it is stopped, and started
//! again once one is free. Programs that never end therefore do not block the others.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::QueueFull;
use super::job::{Done, Job, UnitResult, WorkUnit};
use crate::outcome::{Invalid, ProgramOutcome};
use crate::verdict::ProgramVerdict;

/// When a program would finish had it come to an idle machine, and its id: short programs overtake long ones, and none
/// starves.
type FinishTime = (Duration, u64);

/// How long a test may run in a regular slot while others wait.
const TIME_SLICE: Duration = Duration::from_secs(1);
/// How often tests are checked for having exceeded their time slice.
const PREEMPTION_INTERVAL: Duration = Duration::from_millis(100);

pub(super) struct Queue {
    state: Mutex<QueuedJobs>,
    /// Work may be available, or the queue was closed.
    changed: Condvar,
    closed: Condvar,
    capacity: usize,
    /// Number of regular slots, and of long-running ones.
    slots: usize,
    started: Instant,
}

#[derive(Default)]
struct QueuedJobs {
    /// Programs without a verdict.
    jobs: HashMap<u64, Job>,
    /// Programs with tests to hand out, in the order of their finish times.
    waiting: BTreeMap<FinishTime, u64>,
    finish_times: HashMap<u64, FinishTime>,
    running: Vec<RunningTest>,
    /// Tests that were stopped for others: program and test.
    preempted: VecDeque<(u64, usize)>,
    next_id: u64,
    closed: bool,
}

struct RunningTest {
    job: u64,
    test: usize,
    started: Instant,
    /// Whether the test is in a long-running slot.
    long_running: bool,
    /// Whether the test has to stop for other tests.
    preempted: bool,
}

impl Queue {
    pub(super) fn new(capacity: usize, slots: usize) -> Self {
        Self {
            state: Mutex::default(),
            changed: Condvar::new(),
            closed: Condvar::new(),
            capacity,
            slots,
            started: Instant::now(),
        }
    }

    pub(super) fn push(&self, job: Job) -> Result<(), QueueFull> {
        let mut state = self.lock();
        if state.closed || state.jobs.len() >= self.capacity {
            return Err(QueueFull);
        }
        let id = state.next_id;
        state.next_id += 1;
        let finish_time = (self.started.elapsed() + job.cost(), id);
        state.waiting.insert(finish_time, id);
        state.finish_times.insert(id, finish_time);
        state.jobs.insert(id, job);
        drop(state);
        // One program may have work for every thread.
        self.changed.notify_all();
        Ok(())
    }

    /// Waits for a unit. `None` once the queue is closed.
    pub(super) fn take(&self) -> Option<(u64, WorkUnit)> {
        let mut state = self.lock();
        loop {
            if state.closed {
                return None;
            }
            if let Some(taken) = state.take(self.slots) {
                return Some(taken);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Preempts long-running tests in favour of waiting ones, until the queue is closed.
    pub(super) fn preempt_until_closed(&self) {
        let mut state = self.lock();
        while !state.closed {
            if state.preempt(self.slots) {
                self.changed.notify_all();
            }
            state = self.closed.wait_timeout(state, PREEMPTION_INTERVAL).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Records the result of a unit. A final verdict is delivered outside of the lock.
    pub(super) fn record(&self, id: u64, test: usize, result: UnitResult) {
        let mut state = self.lock();
        let preempted = state.end(id, test);
        let Some(job) = state.jobs.get_mut(&id) else { return };
        let interrupted = result.outcome() == ProgramOutcome::Invalid(Invalid::Cancelled);
        if preempted && interrupted && !job.cancel.is_cancelled() {
            // This thread and its slot are free now.
            state.preempted.push_back((id, test));
            return;
        }
        let finished: Option<(Done, ProgramVerdict)> = job.record(test, result);
        if !job.has_more() {
            state.stop_waiting(id);
        }
        if finished.is_some() {
            state.jobs.remove(&id);
        }
        drop(state);
        if let Some((done, verdict)) = finished {
            done(verdict);
        }
    }

    pub(super) fn load(&self) -> usize {
        self.lock().jobs.len()
    }

    /// Cancels everything and ends the threads.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.waiting.clear();
        let jobs: Vec<Job> = std::mem::take(&mut state.jobs).into_values().collect();
        drop(state);
        self.changed.notify_all();
        self.closed.notify_all();
        for job in jobs {
            job.cancel.cancel();
            job.abandon();
        }
    }

    fn lock(&self) -> MutexGuard<'_, QueuedJobs> {
        // Nothing panics while the state is inconsistent; a caller's panic must not stop the others.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl QueuedJobs {
    fn take(&mut self, slots: usize) -> Option<(u64, WorkUnit)> {
        let long_running = self.running.iter().filter(|running| running.long_running).count();
        while self.running.len() - long_running < slots
            && let Some(id) = self.waiting.values().next().copied()
        {
            let unit = self.jobs.get_mut(&id).and_then(Job::take);
            if !self.jobs.get(&id).is_some_and(Job::has_more) {
                self.stop_waiting(id);
            }
            if let Some(unit) = unit {
                return Some(self.begin(id, unit, false));
            }
        }
        while let Some((id, test)) = self.next_preempted(long_running < slots) {
            if let Some(unit) = self.jobs.get(&id).and_then(|job| job.running_unit(test)) {
                return Some(self.begin(id, unit, true));
            }
        }
        None
    }

    fn next_preempted(&mut self, has_free_slot: bool) -> Option<(u64, usize)> {
        // A test that was cancelled meanwhile needs no slot.
        let cancelled = self.preempted.iter().position(|(id, test)| {
            self.jobs.get(id).and_then(|job| job.running_unit(*test)).is_none_or(|unit| unit.cancel.is_cancelled())
        });
        match cancelled {
            Some(at) => self.preempted.remove(at),
            None if has_free_slot => self.preempted.pop_front(),
            None => None,
        }
    }

    fn begin(&mut self, job: u64, unit: WorkUnit, long_running: bool) -> (u64, WorkUnit) {
        let test = unit.test;
        let started = Instant::now();
        self.running.push(RunningTest { job, test, started, long_running, preempted: false });
        (job, unit)
    }

    /// Removes a unit from the running ones. Returns whether it was preempted.
    fn end(&mut self, job: u64, test: usize) -> bool {
        let at = self.running.iter().position(|running| (running.job, running.test) == (job, test));
        at.is_some_and(|at| self.running.swap_remove(at).preempted)
    }

    /// If tests wait for a regular slot, moves the oldest test beyond its time slice to a long-running slot, or stops
    /// it. Returns whether waiting threads may find work.
    fn preempt(&mut self, slots: usize) -> bool {
        let long_running = self.running.iter().filter(|running| running.long_running).count();
        let mut regular: Vec<&mut RunningTest> =
            self.running.iter_mut().filter(|running| !running.long_running && !running.preempted).collect();
        if self.waiting.is_empty() || regular.len() < slots {
            // Preempted tests may have been cancelled.
            return !self.preempted.is_empty();
        }
        regular.sort_by_key(|running| running.started);
        let oldest = regular.first_mut().filter(|oldest| oldest.started.elapsed() >= TIME_SLICE);
        let Some(oldest) = oldest else { return false };
        if long_running < slots {
            oldest.long_running = true;
            return true;
        }
        oldest.preempted = true;
        let job = oldest.job;
        let test = oldest.test;
        if let Some(job) = self.jobs.get_mut(&job) {
            job.preempt(test);
        }
        false
    }

    fn stop_waiting(&mut self, id: u64) {
        if let Some(finish_time) = self.finish_times.remove(&id) {
            self.waiting.remove(&finish_time);
        }
    }
}
