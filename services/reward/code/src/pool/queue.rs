//! The programs that wait and run, in the order in which they are expected to be done.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::Full;
use super::job::{Done, Job, Outturn, Unit};
use crate::verdict::Verdict;

/// The place of a program: when it would be done if it had come to an idle machine. Short ones overtake long ones, and none waits
/// for ever.
type Place = (Duration, u64);

pub(super) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
    capacity: usize,
    began: Instant,
}

#[derive(Default)]
struct State {
    /// Every program that has no verdict yet.
    jobs: HashMap<u64, Job>,
    /// Those that have a test to hand out.
    waiting: BTreeMap<Place, u64>,
    places: HashMap<u64, Place>,
    next: u64,
    closed: bool,
}

impl Queue {
    pub(super) fn new(capacity: usize) -> Self {
        Self { state: Mutex::default(), changed: Condvar::new(), capacity, began: Instant::now() }
    }

    pub(super) fn push(&self, job: Job) -> Result<(), Full> {
        let mut state = self.lock();
        if state.closed || state.jobs.len() >= self.capacity {
            return Err(Full);
        }
        let id = state.next;
        state.next += 1;
        let place = (self.began.elapsed() + job.cost(), id);
        state.waiting.insert(place, id);
        state.places.insert(id, place);
        state.jobs.insert(id, job);
        drop(state);
        // One program may have work for every thread.
        self.changed.notify_all();
        Ok(())
    }

    /// Waits for a unit; `None` once the pool ends.
    pub(super) fn take(&self) -> Option<(u64, Unit)> {
        let mut state = self.lock();
        loop {
            if state.closed {
                return None;
            }
            if let Some(id) = state.waiting.values().next().copied() {
                let unit = state.jobs.get_mut(&id).and_then(Job::take);
                if !state.jobs.get(&id).is_some_and(Job::has_more) {
                    state.stop_waiting(id);
                }
                if let Some(unit) = unit {
                    return Some((id, unit));
                }
                continue;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Notes what came of a unit; the verdict is handed to whoever waits for it, outside of the lock.
    pub(super) fn note(&self, id: u64, test: usize, outturn: Outturn) {
        let mut state = self.lock();
        let Some(job) = state.jobs.get_mut(&id) else { return };
        let finished: Option<(Done, Verdict)> = job.note(test, outturn);
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

    /// Cancels everything and lets the threads end.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.waiting.clear();
        let jobs: Vec<Job> = std::mem::take(&mut state.jobs).into_values().collect();
        drop(state);
        self.changed.notify_all();
        for job in jobs {
            job.cancel.cancel();
            job.abandon();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing in here panics half-way; a caller's panic must not stop everyone else.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn stop_waiting(&mut self, id: u64) {
        if let Some(place) = self.places.remove(&id) {
            self.waiting.remove(&place);
        }
    }
}
