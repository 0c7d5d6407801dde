//! The programs that wait and run, in the order in which they are expected to be done.
//!
//! Nobody knows beforehand how long a test takes. There are as many places for tests that have just begun as there are cores, and as
//! many for tests that have run for a while. One that has run for a while while others wait moves to a place of the second kind, and
//! goes on; where all of those are taken it is stopped, and begun again when one is free. So programs that never end do not keep those
//! waiting that do.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::Full;
use super::job::{Done, Job, Outturn, Unit};
use crate::verdict::{Invalid, Outcome, Verdict};

/// The place of a program: when it would be done if it had come to an idle machine. Short ones overtake long ones, and none waits
/// for ever.
type Place = (Duration, u64);

/// A test that has run for so long has run for a while.
const A_WHILE: Duration = Duration::from_secs(1);
/// How often it is looked whether one has.
const LOOK: Duration = Duration::from_millis(100);

pub(super) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
    ended: Condvar,
    capacity: usize,
    /// How many tests run that have just begun, and how many that have run for a while.
    places: usize,
    began: Instant,
}

#[derive(Default)]
struct State {
    /// Every program that has no verdict yet.
    jobs: HashMap<u64, Job>,
    /// Those that have a test to hand out.
    waiting: BTreeMap<Place, u64>,
    places: HashMap<u64, Place>,
    running: Vec<Running>,
    /// Tests that were stopped after a while: program and test.
    stopped: VecDeque<(u64, usize)>,
    next: u64,
    closed: bool,
}

struct Running {
    job: u64,
    test: usize,
    began: Instant,
    /// It has run for a while and may go on.
    long: bool,
    /// It has run for a while and was told to end.
    stopping: bool,
}

impl Queue {
    pub(super) fn new(capacity: usize, places: usize) -> Self {
        Self {
            state: Mutex::default(),
            changed: Condvar::new(),
            ended: Condvar::new(),
            capacity,
            places,
            began: Instant::now(),
        }
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
            if let Some(taken) = state.take(self.places) {
                return Some(taken);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Makes room for tests that wait, until the pool ends.
    pub(super) fn keep_room(&self) {
        let mut state = self.lock();
        while !state.closed {
            if state.make_room(self.places) {
                self.changed.notify_all();
            }
            state = self.ended.wait_timeout(state, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Notes what came of a unit; the verdict is handed to whoever waits for it, outside of the lock.
    pub(super) fn note(&self, id: u64, test: usize, outturn: Outturn) {
        let mut state = self.lock();
        let stopping = state.end(id, test);
        let Some(job) = state.jobs.get_mut(&id) else { return };
        let interrupted = outturn.outcome() == Outcome::Invalid(Invalid::Cancelled);
        if stopping && interrupted && !job.cancel.is_cancelled() {
            // The thread that noted this is free, and so is its place.
            state.stopped.push_back((id, test));
            return;
        }
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
        self.ended.notify_all();
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
    fn take(&mut self, places: usize) -> Option<(u64, Unit)> {
        let long = self.running.iter().filter(|running| running.long).count();
        while self.running.len() - long < places
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
        while let Some((id, test)) = self.next_stopped(long < places) {
            if let Some(unit) = self.jobs.get(&id).and_then(|job| job.again(test)) {
                return Some(self.begin(id, unit, true));
            }
        }
        None
    }

    fn next_stopped(&mut self, room: bool) -> Option<(u64, usize)> {
        // One that was taken back meanwhile is done at once.
        let gone = self.stopped.iter().position(|(id, test)| {
            self.jobs.get(id).and_then(|job| job.again(*test)).is_none_or(|unit| unit.cancel.is_cancelled())
        });
        match gone {
            Some(at) => self.stopped.remove(at),
            None if room => self.stopped.pop_front(),
            None => None,
        }
    }

    fn begin(&mut self, job: u64, unit: Unit, long: bool) -> (u64, Unit) {
        self.running.push(Running { job, test: unit.test, began: Instant::now(), long, stopping: false });
        (job, unit)
    }

    /// A unit runs no more; whether it was told to end.
    fn end(&mut self, job: u64, test: usize) -> bool {
        let at = self.running.iter().position(|running| (running.job, running.test) == (job, test));
        at.is_some_and(|at| self.running.swap_remove(at).stopping)
    }

    /// Where tests wait for places: lets one that has run for a while go on elsewhere, or ends it. Whether a thread that waits may find
    /// something to do.
    fn make_room(&mut self, places: usize) -> bool {
        let long = self.running.iter().filter(|running| running.long).count();
        let mut short: Vec<&mut Running> =
            self.running.iter_mut().filter(|running| !running.long && !running.stopping).collect();
        if self.waiting.is_empty() || short.len() < places {
            // Stopped tests may have been taken back.
            return !self.stopped.is_empty();
        }
        short.sort_by_key(|running| running.began);
        let Some(oldest) = short.first_mut().filter(|oldest| oldest.began.elapsed() >= A_WHILE) else { return false };
        if long < places {
            oldest.long = true;
            return true;
        }
        oldest.stopping = true;
        let (job, test) = (oldest.job, oldest.test);
        if let Some(job) = self.jobs.get_mut(&job) {
            job.interrupt(test);
        }
        false
    }

    fn stop_waiting(&mut self, id: u64) {
        if let Some(place) = self.places.remove(&id) {
            self.waiting.remove(&place);
        }
    }
}
