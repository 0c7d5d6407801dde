//! All unanswered items: by ticket and id, in the queue, and by deadline.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::time::Instant;

use super::{DeadlineStart, DispatchError, Dispatched, left_ms};
use crate::items::DispatchItems;
use crate::labels::ItemEnd;

/// An item as its caller submits it.
pub(super) struct QueuedItem<P: DispatchItems> {
    pub(super) ticket: u64,
    pub(super) item: P::Item,
    pub(super) submitted: Instant,
    /// Length of its deadline.
    pub(super) budget: Duration,
    /// Attempts that it may use; at least 1.
    pub(super) max_attempts: u32,
    pub(super) reply: oneshot::Sender<Dispatched<P::Response>>,
    pub(super) permit: OwnedSemaphorePermit,
}

pub(super) struct Entry<P: DispatchItems> {
    pub(super) queued: QueuedItem<P>,
    /// `None` in the queue if only time at a worker counts.
    deadline: Option<Instant>,
    /// Completed attempts: the worker failed or was lost.
    attempts: u32,
    /// The worker that has it; `None` in the queue.
    worker: Option<u64>,
    /// The worker that failed last; others are preferred.
    avoid: Option<u64>,
}

impl<P: DispatchItems> Entry<P> {
    pub(super) fn id(&self) -> &str {
        P::id(&self.queued.item)
    }

    /// The worker that has it.
    pub(super) fn worker(&self) -> Option<u64> {
        self.worker
    }

    /// The worker that should not get it if another can.
    pub(super) fn avoid(&self) -> Option<u64> {
        self.avoid
    }

    /// Attempts so far, with the one that a worker is at.
    pub(super) fn attempts_used(&self) -> u32 {
        self.attempts + u32::from(self.worker.is_some())
    }
}

/// Items that no worker has answered yet.
pub(super) struct Backlog<P: DispatchItems> {
    entries: HashMap<u64, Entry<P>>,
    /// Tickets by id: no two unanswered items have the same.
    tickets: HashMap<String, u64>,
    queue: VecDeque<u64>,
    deadlines: BTreeSet<(Instant, u64)>,
}

impl<P: DispatchItems> Backlog<P> {
    pub(super) fn new() -> Self {
        Self { entries: HashMap::new(), tickets: HashMap::new(), queue: VecDeque::new(), deadlines: BTreeSet::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Number of items without a worker.
    pub(super) fn queued(&self) -> usize {
        self.queue.len()
    }

    /// Queues an item. One whose id is that of an unanswered item fails at once.
    pub(super) fn submit(&mut self, queued: QueuedItem<P>, deadline_start: DeadlineStart) {
        let id = P::id(&queued.item);
        if self.tickets.contains_key(id) {
            let error = DispatchError::InFlight { id: id.to_owned() };
            let _ = queued.reply.send(Dispatched::unsent(error));
            return;
        }
        let ticket = queued.ticket;
        self.tickets.insert(id.to_owned(), ticket);
        self.queue.push_back(ticket);
        let deadline = match deadline_start {
            DeadlineStart::Submitted => Some(end_of(queued.submitted, queued.budget)),
            DeadlineStart::Assigned => None,
        };
        self.deadlines.extend(deadline.map(|deadline| (deadline, ticket)));
        self.entries.insert(ticket, Entry { queued, deadline, attempts: 0, worker: None, avoid: None });
    }

    pub(super) fn entry(&self, ticket: u64) -> Option<&Entry<P>> {
        self.entries.get(&ticket)
    }

    /// Takes an item out, to [`finish`](Self::finish) it.
    pub(super) fn take(&mut self, ticket: u64) -> Option<Entry<P>> {
        self.entries.remove(&ticket)
    }

    /// The earliest deadline and its item.
    pub(super) fn first_deadline(&self) -> Option<(Instant, u64)> {
        self.deadlines.first().copied()
    }

    /// Restarts an item's deadline at its next assignment.
    pub(super) fn clear_deadline(&mut self, ticket: u64) {
        if let Some(deadline) = self.entries.get_mut(&ticket).and_then(|entry| entry.deadline.take()) {
            self.deadlines.remove(&(deadline, ticket));
        }
    }

    /// Takes the first item of the queue.
    pub(super) fn pop_queued(&mut self) -> Option<u64> {
        self.queue.pop_front()
    }

    pub(super) fn queue_in_front(&mut self, ticket: u64) {
        self.queue.push_front(ticket);
    }

    /// A worker refused an item, which is no attempt.
    pub(super) fn attempt_refused(&mut self, ticket: u64, worker: u64) {
        if let Some(entry) = self.entries.get_mut(&ticket) {
            (entry.worker, entry.avoid) = (None, Some(worker));
        }
    }

    /// An attempt at an item failed at that worker. Returns whether it may have another.
    pub(super) fn attempt_failed(&mut self, ticket: u64, worker: u64) -> bool {
        self.attempt_refused(ticket, worker);
        let Some(entry) = self.entries.get_mut(&ticket) else { return false };
        entry.attempts += 1;
        entry.attempts < entry.queued.max_attempts
    }

    pub(super) fn remove_queued(&mut self, ticket: u64) {
        self.queue.retain(|&queued| queued != ticket);
    }

    /// Notes the worker that gets an item. Returns the item with what is left of its time, which begins now at the
    /// latest.
    pub(super) fn assign(&mut self, ticket: u64, worker: u64, now: Instant) -> Option<P::Item> {
        let entry = self.entries.get_mut(&ticket)?;
        let deadline = *entry.deadline.get_or_insert_with(|| end_of(now, entry.queued.budget));
        self.deadlines.insert((deadline, ticket));
        let mut item = entry.queued.item.clone();
        P::set_deadline_ms(&mut item, left_ms(deadline, now));
        entry.worker = Some(worker);
        Some(item)
    }

    /// The one place where an item ends.
    pub(super) fn finish(
        &mut self,
        entry: Entry<P>,
        result: Result<P::Response, DispatchError>,
        end: ItemEnd,
        now: Instant,
    ) {
        let attempts = entry.attempts_used();
        let QueuedItem { ticket, item, submitted, reply, permit, .. } = entry.queued;
        self.entries.remove(&ticket);
        self.tickets.remove(P::id(&item));
        if let Some(deadline) = entry.deadline {
            self.deadlines.remove(&(deadline, ticket));
        }
        metrics::counter!("evenkeel_dispatch_items_total", "items" => P::NAME, "end" => end.label()).increment(1);
        metrics::histogram!("evenkeel_dispatch_seconds", "items" => P::NAME).record(now - submitted);
        // Before the response, so that the caller finds a free permit.
        drop(permit);
        // The caller may have dropped its future just now.
        let _ = reply.send(Dispatched { result, attempts });
    }
}

/// A deadline beyond the range of `Instant` becomes a century.
fn end_of(start: Instant, budget: Duration) -> Instant {
    start.checked_add(budget).unwrap_or(start + Duration::from_secs(3_000_000_000))
}
