//! Who has what: all items that are not answered, all workers, and the rules between them. Nothing here waits or reads a clock, so
//! that every rule can be tested step by step.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio::time::Instant;

use super::slots::{Slot, Worker, WorkerState};
use super::{DeadlineStart, DispatchError, DispatchOptions, WorkerStatus, left_ms};
use crate::balance::{Candidate, least_outstanding};
use crate::error::millis;
use crate::items::{Disposition, Items};

/// An item as its caller hands it over.
pub(super) struct Submission<P: Items> {
    pub(super) ticket: u64,
    pub(super) item: P::Item,
    pub(super) submitted: Instant,
    /// Time from the start of its deadline to its end.
    pub(super) budget: Duration,
    pub(super) reply: oneshot::Sender<Result<P::Answer, DispatchError>>,
    pub(super) place: OwnedSemaphorePermit,
}

/// An item that is not answered.
struct Entry<P: Items> {
    submission: Submission<P>,
    /// Absent while it waits for a worker, where only a worker's time counts.
    deadline: Option<Instant>,
    /// Times that it was given to a worker that then answered or was lost.
    attempts: u32,
    worker: Option<u64>,
    /// The worker that failed at it last: another is preferred.
    avoid: Option<u64>,
}

/// All items and workers.
pub(super) struct Board<P: Items> {
    options: DispatchOptions,
    entries: HashMap<u64, Entry<P>>,
    /// Tickets by id, for ids must differ.
    tickets: HashMap<String, u64>,
    queue: VecDeque<u64>,
    deadlines: BTreeSet<(Instant, u64)>,
    workers: BTreeMap<u64, Worker<P>>,
    given: u64,
}

impl<P: Items> Board<P> {
    pub(super) fn new(options: DispatchOptions) -> Self {
        Self {
            options,
            entries: HashMap::new(),
            tickets: HashMap::new(),
            queue: VecDeque::new(),
            deadlines: BTreeSet::new(),
            workers: BTreeMap::new(),
            given: 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    // === items ===

    pub(super) fn submit(&mut self, submission: Submission<P>) {
        let id = P::id(&submission.item);
        if self.tickets.contains_key(id) {
            let error = DispatchError::InWork { id: id.to_owned() };
            let _ = submission.reply.send(Err(error));
            return;
        }
        let ticket = submission.ticket;
        self.tickets.insert(id.to_owned(), ticket);
        self.queue.push_back(ticket);
        let deadline = match self.options.deadline_start {
            DeadlineStart::Submitted => Some(end_of(submission.submitted, submission.budget)),
            DeadlineStart::Assigned => None,
        };
        self.deadlines.extend(deadline.map(|deadline| (deadline, ticket)));
        self.entries.insert(ticket, Entry { submission, deadline, attempts: 0, worker: None, avoid: None });
    }

    /// The caller no longer waits.
    pub(super) fn withdraw(&mut self, ticket: u64, now: Instant) {
        if let Some(entry) = self.take_back(ticket, now) {
            self.finish(entry, Err(DispatchError::Closed), "withdrawn", now);
        }
    }

    /// Answers items whose deadline has ended.
    pub(super) fn expire(&mut self, now: Instant) {
        while let Some(&(deadline, ticket)) = self.deadlines.first() {
            if deadline > now {
                return;
            }
            let Some(entry) = self.take_back(ticket, now) else { return };
            let waited_ms = millis(now - entry.submission.submitted);
            let error = DispatchError::Deadline { id: P::id(&entry.submission.item).to_owned(), waited_ms };
            self.finish(entry, Err(error), "deadline", now);
        }
    }

    /// Removes an item, and cancels it where a worker has it.
    fn take_back(&mut self, ticket: u64, now: Instant) -> Option<Entry<P>> {
        let entry = self.entries.remove(&ticket)?;
        let id = P::id(&entry.submission.item);
        match entry.worker.and_then(|worker| self.workers.get_mut(&worker)) {
            Some(worker) => {
                worker.slots.insert(id.to_owned(), Slot::Abandoned(now));
                worker.send(P::cancel(id));
            }
            None => self.queue.retain(|&queued| queued != ticket),
        }
        Some(entry)
    }

    /// The one place where an item ends.
    fn finish(&mut self, entry: Entry<P>, result: Result<P::Answer, DispatchError>, end: &'static str, now: Instant) {
        let Submission { ticket, item, submitted, reply, place, .. } = entry.submission;
        self.entries.remove(&ticket);
        self.tickets.remove(P::id(&item));
        if let Some(deadline) = entry.deadline {
            self.deadlines.remove(&(deadline, ticket));
        }
        metrics::counter!("evenkeel_dispatch_items_total", "items" => P::NAME, "end" => end).increment(1);
        metrics::histogram!("evenkeel_dispatch_seconds", "items" => P::NAME).record(now - submitted);
        // The place is free before the caller knows, so that it finds one.
        drop(place);
        // A caller that went away in this moment wants no answer.
        let _ = reply.send(result);
    }

    /// Gives an item to another worker, or gives it up.
    fn again(
        &mut self,
        ticket: u64,
        failed_at: u64,
        counts: bool,
        lost: Option<&str>,
        answer: Option<P::Answer>,
        now: Instant,
    ) {
        let Some(entry) = self.entries.get_mut(&ticket) else { return };
        entry.worker = None;
        entry.avoid = Some(failed_at);
        if self.options.deadline_start == DeadlineStart::Assigned
            && let Some(deadline) = entry.deadline.take()
        {
            self.deadlines.remove(&(deadline, ticket));
        }
        entry.attempts += u32::from(counts);
        if !counts || entry.attempts < self.options.max_attempts {
            metrics::counter!("evenkeel_dispatch_retries_total", "items" => P::NAME).increment(1);
            // It has waited longest.
            self.queue.push_front(ticket);
            return;
        }
        let Some(entry) = self.entries.remove(&ticket) else { return };
        let result = answer.ok_or_else(|| DispatchError::WorkerLost {
            id: P::id(&entry.submission.item).to_owned(),
            attempts: entry.attempts,
            last: lost.unwrap_or_default().to_owned(),
        });
        let end = if result.is_ok() { "failed" } else { "lost" };
        self.finish(entry, result, end, now);
    }

    // === workers ===

    pub(super) fn add_worker(&mut self, worker: u64, name: String) {
        self.workers.insert(worker, Worker::new(name, self.options.max_outstanding));
    }

    /// Discovery no longer names it.
    pub(super) fn set_leaving(&mut self, worker: u64, leaving: bool) {
        if let Some(worker) = self.workers.get_mut(&worker) {
            worker.leaving = leaving;
        }
    }

    /// Workers that are leaving and have nothing any more; they are forgotten.
    pub(super) fn take_departed(&mut self) -> Vec<u64> {
        let gone = |worker: &Worker<P>| worker.leaving && (worker.link.is_none() || worker.slots.is_empty());
        let departed: Vec<u64> = self.workers.iter().filter(|(_, worker)| gone(worker)).map(|(&key, _)| key).collect();
        departed.iter().for_each(|key| drop(self.workers.remove(key)));
        departed
    }

    pub(super) fn link_up(&mut self, worker: u64, link: mpsc::Sender<P::Request>) {
        if let Some(worker) = self.workers.get_mut(&worker) {
            worker.link_up(link);
        }
    }

    /// The stream of a worker is gone: it no longer counts as connected. [`Self::link_down`] reassigns what it had.
    pub(super) fn disconnect(&mut self, key: u64) {
        if let Some(worker) = self.workers.get_mut(&key) {
            worker.link = None;
        }
    }

    /// The stream of a worker is gone, and with it every answer that was to come.
    pub(super) fn link_down(&mut self, key: u64, reason: &str, now: Instant) {
        let Some(worker) = self.workers.get_mut(&key) else { return };
        (worker.link, worker.state) = (None, WorkerState::Ready);
        worker.last_error = reason.to_owned();
        let slots = std::mem::take(&mut worker.slots);
        let mut tickets: Vec<u64> = slots
            .into_values()
            .filter_map(|slot| if let Slot::Active(ticket) = slot { Some(ticket) } else { None })
            .collect();
        // Pushed to the front one by one: the youngest first keeps the oldest in front.
        tickets.sort_unstable_by(|a, b| b.cmp(a));
        for ticket in tickets {
            self.again(ticket, key, true, Some(reason), None, now);
        }
    }

    pub(super) fn answer(&mut self, key: u64, answer: P::Answer, now: Instant) {
        let Some(worker) = self.workers.get_mut(&key) else { return };
        let ticket = match worker.slots.remove(P::answered(&answer)) {
            Some(Slot::Active(ticket)) => ticket,
            Some(Slot::Abandoned(_)) => return,
            None => {
                metrics::counter!("evenkeel_dispatch_unasked_answers_total", "items" => P::NAME).increment(1);
                return;
            }
        };
        worker.answered += 1;
        match P::disposition(&answer) {
            Disposition::Final => {
                worker.succeeded();
                if let Some(entry) = self.entries.remove(&ticket) {
                    self.finish(entry, Ok(answer), "answered", now);
                }
            }
            Disposition::Failed => self.again(ticket, key, true, None, Some(answer), now),
            Disposition::Overloaded { retry_after_ms } => {
                worker.refused(retry_after_ms, now);
                self.again(ticket, key, false, None, Some(answer), now);
            }
            Disposition::Draining => {
                worker.state = WorkerState::Draining;
                self.again(ticket, key, false, None, Some(answer), now);
            }
        }
    }

    /// Workers that leave cancelled items unanswered for too long: their streams are stuck.
    pub(super) fn stuck(&self, now: Instant) -> Vec<u64> {
        let patience = self.options.abandon_timeout;
        let is_stuck = |worker: &Worker<P>| worker.oldest_abandoned().is_some_and(|since| since + patience <= now);
        self.workers.iter().filter(|(_, worker)| is_stuck(worker)).map(|(&key, _)| key).collect()
    }

    // === between them ===

    /// Gives waiting items to workers with room, each to the one with the least outstanding.
    pub(super) fn assign(&mut self, now: Instant) {
        for worker in self.workers.values_mut() {
            worker.end_backoff(now);
        }
        let mut waiting = Vec::new();
        while let Some(ticket) = self.queue.pop_front() {
            let Some(entry) = self.entries.get_mut(&ticket) else { continue };
            let id = P::id(&entry.submission.item);
            let candidates = self.workers.iter_mut().filter(|(_, worker)| worker.takes(id));
            let best = least_outstanding(candidates.map(|(&key, worker)| Candidate {
                outstanding: worker.slots.len() as u64,
                last_assigned: worker.last_given,
                avoid: entry.avoid == Some(key),
                key: (key, worker),
            }));
            let Some((key, worker)) = best else {
                waiting.push(ticket);
                // Only an id that a worker still has, cancelled, is a reason to look at the next.
                if self.workers.values().any(|worker| worker.takes("")) {
                    continue;
                }
                break;
            };
            let deadline = *entry.deadline.get_or_insert_with(|| end_of(now, entry.submission.budget));
            self.deadlines.insert((deadline, ticket));
            let mut item = entry.submission.item.clone();
            P::set_deadline_ms(&mut item, left_ms(deadline, now));
            self.given += 1;
            worker.last_given = self.given;
            worker.slots.insert(id.to_owned(), Slot::Active(ticket));
            entry.worker = Some(key);
            // A link that broke in this moment says so itself, and then the item comes back.
            worker.send(P::request(item));
        }
        waiting.into_iter().rev().for_each(|ticket| self.queue.push_front(ticket));
    }

    /// When something happens without anybody doing something.
    pub(super) fn next_wake(&self) -> Option<Instant> {
        let patience = self.options.abandon_timeout;
        let deadline = self.deadlines.first().map(|&(deadline, _)| deadline);
        let waiting = !self.queue.is_empty();
        let backoffs = self.workers.values().filter_map(|worker| match worker.state {
            WorkerState::BackingOff { until } if waiting => Some(until),
            _ => None,
        });
        let stuck = self.workers.values().filter_map(|worker| Some(worker.oldest_abandoned()? + patience));
        deadline.into_iter().chain(backoffs).chain(stuck).min()
    }

    /// Whether a link that is down was known to be, for the same reason: nothing that is worth a warning.
    pub(super) fn knows_down(&self, worker: u64, reason: &str) -> bool {
        self.workers.get(&worker).is_some_and(|worker| worker.link.is_none() && worker.last_error == reason)
    }

    pub(super) fn connected(&self) -> usize {
        self.workers.values().filter(|worker| worker.link.is_some() && !worker.leaving).count()
    }

    pub(super) fn queued(&self) -> usize {
        self.queue.len()
    }

    pub(super) fn status(&self) -> Vec<WorkerStatus> {
        let status = |worker: &Worker<P>| WorkerStatus {
            name: worker.name.clone(),
            connected: worker.link.is_some(),
            outstanding: worker.slots.len(),
            answered: worker.answered,
            last_error: worker.last_error.clone(),
        };
        let mut all: Vec<WorkerStatus> = self.workers.values().map(status).collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }
}

/// A deadline beyond what can be represented is as good as a century.
fn end_of(start: Instant, budget: Duration) -> Instant {
    start.checked_add(budget).unwrap_or(start + Duration::from_secs(3_000_000_000))
}

#[cfg(test)]
#[path = "board_tests.rs"]
mod tests;
