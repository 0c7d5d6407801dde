//! Assigns items to workers: a state machine of all unanswered items and all workers. It does no I/O and reads no
//! clock, so that every rule can be tested step by step.

use std::collections::BTreeMap;

use tokio::sync::mpsc;
use tokio::time::Instant;

use super::backlog::{Backlog, Entry, QueuedItem};
use super::worker::{Slot, Worker};
use super::{DeadlineStart, DisconnectReason, DispatchError, DispatchOptions, WorkerStatus};
use crate::balance::{Candidate, least_outstanding};
use crate::error::millis;
use crate::items::{DispatchItems, Disposition};
use crate::labels::ItemEnd;

/// Why an attempt at an item failed.
enum FailedAttempt<R> {
    /// The worker failed with it and gave this response.
    Failed(R),
    /// The worker was lost.
    Lost(DisconnectReason),
}

/// All unanswered items and all workers.
pub(super) struct Scheduler<P: DispatchItems> {
    options: DispatchOptions,
    backlog: Backlog<P>,
    workers: BTreeMap<u64, Worker<P>>,
    assignments: u64,
}

impl<P: DispatchItems> Scheduler<P> {
    pub(super) fn new(options: DispatchOptions) -> Self {
        Self { options, backlog: Backlog::new(), workers: BTreeMap::new(), assignments: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.backlog.is_empty()
    }

    pub(super) fn submit(&mut self, item: QueuedItem<P>) {
        self.backlog.submit(item, self.options.deadline_start);
    }

    /// The caller dropped its future.
    pub(super) fn cancel(&mut self, ticket: u64, now: Instant) {
        if let Some(entry) = self.remove(ticket, now) {
            self.backlog.finish(entry, Err(DispatchError::Closed), ItemEnd::Withdrawn, now);
        }
    }

    /// Fails items whose deadline has passed.
    pub(super) fn expire(&mut self, now: Instant) {
        while let Some((deadline, ticket)) = self.backlog.first_deadline() {
            if deadline > now {
                return;
            }
            let Some(entry) = self.remove(ticket, now) else { return };
            let id = entry.id().to_owned();
            let worker = entry.worker().and_then(|worker| self.workers.get(&worker));
            let assigned = deadline.checked_sub(entry.queued.budget).unwrap_or(entry.queued.submitted);
            let stray = worker.and_then(|worker| worker.stray_since(assigned)).map(str::to_owned);
            let (error, end) = match stray {
                Some(answered) => (DispatchError::UnexpectedId { id, answered }, ItemEnd::UnexpectedId),
                None => {
                    let waited_ms = millis(now - entry.queued.submitted);
                    (DispatchError::Deadline { id, waited_ms }, ItemEnd::Deadline)
                }
            };
            self.backlog.finish(entry, Err(error), end, now);
        }
    }

    /// Removes an item and cancels it at its worker.
    fn remove(&mut self, ticket: u64, now: Instant) -> Option<Entry<P>> {
        let entry = self.backlog.take(ticket)?;
        match entry.worker().and_then(|worker| self.workers.get_mut(&worker)) {
            Some(worker) => worker.cancel(entry.id(), now),
            None => self.backlog.remove_queued(ticket),
        }
        Some(entry)
    }

    /// Queues an item for another worker, or fails it after its last attempt.
    fn retry(&mut self, ticket: u64, worker: u64, failed: FailedAttempt<P::Response>, now: Instant) {
        if self.backlog.attempt_failed(ticket, worker) {
            self.requeue(ticket);
            return;
        }
        let Some(entry) = self.backlog.take(ticket) else { return };
        let (result, end) = match failed {
            FailedAttempt::Failed(response) => (Ok(response), ItemEnd::Failed),
            FailedAttempt::Lost(last) => {
                let id = entry.id().to_owned();
                let attempts = entry.attempts_used();
                (Err(DispatchError::WorkerLost { id, attempts, last }), ItemEnd::Lost)
            }
        };
        self.backlog.finish(entry, result, end, now);
    }

    /// Queues an item that has no worker any more in front: it has waited longest.
    fn requeue(&mut self, ticket: u64) {
        if self.options.deadline_start == DeadlineStart::Assigned {
            self.backlog.clear_deadline(ticket);
        }
        metrics::counter!("evenkeel_dispatch_retries_total", "items" => P::NAME).increment(1);
        self.backlog.queue_in_front(ticket);
    }

    /// Queues an item that its worker refused, which is no attempt.
    fn refused(&mut self, ticket: u64, worker: u64) {
        self.backlog.attempt_refused(ticket, worker);
        self.requeue(ticket);
    }

    pub(super) fn add_worker(&mut self, worker: u64, name: String) {
        self.workers.insert(worker, Worker::new(name, self.options.max_outstanding));
    }

    /// Marks a worker that is no longer among the endpoints.
    pub(super) fn set_leaving(&mut self, worker: u64, leaving: bool) {
        if let Some(worker) = self.workers.get_mut(&worker) {
            worker.set_leaving(leaving);
        }
    }

    /// Removes leaving workers that have finished their items.
    pub(super) fn take_departed(&mut self) -> Vec<u64> {
        self.workers.extract_if(.., |_, worker| worker.has_departed()).map(|(key, _)| key).collect()
    }

    pub(super) fn connected_to(&mut self, worker: u64, requests: mpsc::Sender<P::Request>) {
        if let Some(worker) = self.workers.get_mut(&worker) {
            worker.connected_to(requests, self.options.max_outstanding);
        }
    }

    /// The stream of a worker was lost: it no longer counts as connected. [`Self::disconnected_from`] reassigns its
    /// items.
    pub(super) fn disconnect(&mut self, key: u64) {
        if let Some(worker) = self.workers.get_mut(&key) {
            worker.disconnect();
        }
    }

    /// The stream of a worker was lost: its items go to other workers.
    pub(super) fn disconnected_from(&mut self, key: u64, reason: &DisconnectReason, now: Instant) {
        let Some(worker) = self.workers.get_mut(&key) else { return };
        // Pushed to the front one by one, the newest first, so that the oldest ends up in front.
        for ticket in worker.take_items(reason) {
            self.retry(ticket, key, FailedAttempt::Lost(reason.clone()), now);
        }
    }

    pub(super) fn response(&mut self, key: u64, response: P::Response, now: Instant) {
        let Some(worker) = self.workers.get_mut(&key) else { return };
        let ticket = match worker.answered(P::response_id(&response)) {
            Some(Slot::Active(ticket)) => ticket,
            Some(Slot::Abandoned(_)) => return,
            None => {
                metrics::counter!("evenkeel_dispatch_unasked_answers_total", "items" => P::NAME).increment(1);
                let answered = P::response_id(&response).to_owned();
                for ticket in worker.strayed(&answered, now) {
                    let Some(entry) = self.backlog.take(ticket) else { continue };
                    let id = entry.id().to_owned();
                    let error = DispatchError::UnexpectedId { id, answered: answered.clone() };
                    self.backlog.finish(entry, Err(error), ItemEnd::UnexpectedId, now);
                }
                return;
            }
        };
        match P::disposition(&response) {
            Disposition::Final => {
                worker.succeeded();
                if let Some(entry) = self.backlog.take(ticket) {
                    self.backlog.finish(entry, Ok(response), ItemEnd::Answered, now);
                }
            }
            Disposition::Failed => self.retry(ticket, key, FailedAttempt::Failed(response), now),
            Disposition::Overloaded { retry_after_ms } => {
                worker.refused(retry_after_ms, now);
                self.refused(ticket, key);
            }
            Disposition::Draining => {
                worker.drain();
                self.refused(ticket, key);
            }
        }
    }

    /// Workers whose streams are stuck: they have not answered a cancelled item for `abandon_timeout`.
    pub(super) fn stuck(&self, now: Instant) -> Vec<u64> {
        let timeout = self.options.abandon_timeout;
        let is_stuck = |worker: &Worker<P>| worker.oldest_abandoned().is_some_and(|since| since + timeout <= now);
        self.workers.iter().filter(|(_, worker)| is_stuck(worker)).map(|(&key, _)| key).collect()
    }

    /// Assigns queued items, each to the worker with the least outstanding work.
    pub(super) fn assign(&mut self, now: Instant) {
        for worker in self.workers.values_mut() {
            worker.end_backoff(now);
        }
        let mut waiting = Vec::new();
        while let Some(ticket) = self.backlog.pop_queued() {
            let Some(entry) = self.backlog.entry(ticket) else { continue };
            let id = entry.id();
            let avoid = entry.avoid();
            let candidates = self.workers.iter_mut().filter(|(_, worker)| worker.accepts(id));
            let best = least_outstanding(candidates.map(|(&key, worker)| Candidate {
                outstanding: worker.outstanding(),
                last_assigned: worker.last_assigned(),
                avoid: avoid == Some(key),
                key: (key, worker),
            }));
            let Some((key, worker)) = best else {
                waiting.push(ticket);
                // If a worker accepts other ids, this one is still there as a cancelled item: try the next item.
                if self.workers.values().any(Worker::has_room) {
                    continue;
                }
                break;
            };
            self.assignments += 1;
            worker.assign(id, ticket, self.assignments);
            let Some(item) = self.backlog.assign(ticket, key, now) else { continue };
            // If the stream broke just now, its reader reports it and the item is assigned again.
            worker.send(P::request(item));
        }
        waiting.into_iter().rev().for_each(|ticket| self.backlog.queue_in_front(ticket));
    }

    /// When [`Self::expire`], [`Self::stuck`] or [`Self::assign`] has to be called next without an event.
    pub(super) fn next_wake(&self) -> Option<Instant> {
        let timeout = self.options.abandon_timeout;
        let deadline = self.backlog.first_deadline().map(|(deadline, _)| deadline);
        let waiting = self.backlog.queued() > 0;
        let backoffs = self.workers.values().filter_map(Worker::full_until).filter(|_| waiting);
        let stuck = self.workers.values().filter_map(|worker| Some(worker.oldest_abandoned()? + timeout));
        deadline.into_iter().chain(backoffs).chain(stuck).min()
    }

    /// Whether the worker was already disconnected for the same reason, which needs no second warning.
    pub(super) fn was_disconnected(&self, worker: u64, reason: &DisconnectReason) -> bool {
        self.workers.get(&worker).is_some_and(|worker| worker.was_disconnected(reason))
    }

    pub(super) fn connected(&self) -> usize {
        self.workers.values().filter(|worker| worker.is_available()).count()
    }

    pub(super) fn queued(&self) -> usize {
        self.backlog.queued()
    }

    pub(super) fn status(&self) -> Vec<WorkerStatus> {
        let mut all: Vec<WorkerStatus> = self.workers.values().map(Worker::status).collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }
}

#[cfg(test)]
#[path = "scheduler_tests.rs"]
mod tests;
