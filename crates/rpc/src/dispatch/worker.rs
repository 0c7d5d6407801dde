//! A worker as the scheduler sees it: the items that it has, and whether it may get more.

use std::collections::HashMap;

use tokio::sync::mpsc;
use tokio::time::Instant;

use super::answers::Answers;
use super::capacity::Capacity;
use super::{DisconnectReason, WorkerStatus};
use crate::items::DispatchItems;

/// An item that a worker has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Slot {
    /// Unanswered, with its ticket.
    Active(u64),
    /// Cancelled at this time; the worker has not answered yet.
    Abandoned(Instant),
}

pub(super) struct Worker<P: DispatchItems> {
    name: String,
    /// The stream of requests to the worker. `None` while it is not connected.
    requests: Option<mpsc::Sender<P::Request>>,
    slots: HashMap<String, Slot>,
    capacity: Capacity,
    answers: Answers,
    /// The worker is shutting down: no items before its stream is reopened.
    is_draining: bool,
    /// No longer among the endpoints, the worker only finishes its items.
    is_leaving: bool,
    /// Number of its last assignment, so that equally loaded workers take turns.
    last_assigned: u64,
    last_error: Option<DisconnectReason>,
}

impl<P: DispatchItems> Worker<P> {
    pub(super) fn new(name: String, max_outstanding: usize) -> Self {
        Self {
            name,
            requests: None,
            slots: HashMap::new(),
            capacity: Capacity::new(max_outstanding),
            answers: Answers::default(),
            is_draining: false,
            is_leaving: false,
            last_assigned: 0,
            last_error: None,
        }
    }

    pub(super) fn set_leaving(&mut self, leaving: bool) {
        self.is_leaving = leaving;
    }

    /// Whether it is leaving and has finished its items.
    pub(super) fn has_departed(&self) -> bool {
        self.is_leaving && (self.requests.is_none() || self.slots.is_empty())
    }

    /// A new stream is open. What was learned on the old one may no longer hold.
    pub(super) fn connected_to(&mut self, requests: mpsc::Sender<P::Request>, max_outstanding: usize) {
        (self.requests, self.is_draining) = (Some(requests), false);
        self.capacity = Capacity::new(max_outstanding);
        self.answers.restart();
    }

    /// The stream was lost.
    pub(super) fn disconnect(&mut self) {
        self.requests = None;
    }

    /// Takes the items away from a worker whose stream was lost: their tickets, the newest first.
    pub(super) fn take_items(&mut self, reason: &DisconnectReason) -> Vec<u64> {
        self.disconnect();
        self.last_error = Some(reason.clone());
        let mut tickets = self.take_active();
        self.slots.clear();
        tickets.reverse();
        tickets
    }

    /// The tickets of the unanswered items, the oldest first. Cancelled ones stay.
    fn take_active(&mut self) -> Vec<u64> {
        let active = self.slots.extract_if(|_, slot| matches!(slot, Slot::Active(_)));
        let mut tickets: Vec<u64> =
            active.filter_map(|(_, slot)| if let Slot::Active(ticket) = slot { Some(ticket) } else { None }).collect();
        tickets.sort_unstable();
        tickets
    }

    /// Whether it may get another item.
    pub(super) fn has_room(&self) -> bool {
        let is_open = self.requests.is_some() && !self.is_draining && !self.is_leaving;
        is_open && self.capacity.allows(self.slots.len())
    }

    /// Whether it may get the item of that id. While it has a cancelled item of the same id, their responses could not
    /// be distinguished.
    pub(super) fn accepts(&self, id: &str) -> bool {
        self.has_room() && !self.slots.contains_key(id)
    }

    /// Number of items that it has.
    pub(super) fn outstanding(&self) -> u64 {
        self.slots.len() as u64
    }

    /// Number of its last assignment.
    pub(super) fn last_assigned(&self) -> u64 {
        self.last_assigned
    }

    /// Gives it a slot for an item, as assignment `number`. [`send`](Self::send) sends the item.
    pub(super) fn assign(&mut self, id: &str, ticket: u64, number: u64) {
        self.last_assigned = number;
        self.slots.insert(id.to_owned(), Slot::Active(ticket));
    }

    /// Sends a request. If the stream is broken, its reader reports that. The channel is never full: it has capacity
    /// for an item and a cancellation of every slot.
    pub(super) fn send(&self, request: P::Request) {
        if let Some(requests) = &self.requests {
            let _ = requests.try_send(request);
        }
    }

    /// Cancels an item that it has.
    pub(super) fn cancel(&mut self, id: &str, now: Instant) {
        self.slots.insert(id.to_owned(), Slot::Abandoned(now));
        self.send(P::cancel(id));
    }

    /// Frees an item that the worker answered. `None` if it did not have that item.
    pub(super) fn answered(&mut self, id: &str) -> Option<Slot> {
        let slot = self.slots.remove(id)?;
        if matches!(slot, Slot::Active(_)) {
            self.answers.good(id);
        }
        Some(slot)
    }

    /// Counts an answer under an id that the worker does not have. Returns the tickets of all its items if they must
    /// have been answered under other ids.
    pub(super) fn strayed(&mut self, id: &str, now: Instant) -> Vec<u64> {
        if self.answers.stray(id, self.slots.len(), now) { self.take_active() } else { Vec::new() }
    }

    /// The id under which it answered something since then that it did not have.
    pub(super) fn stray_since(&self, then: Instant) -> Option<&str> {
        self.answers.stray_since(then)
    }

    /// The worker completed an item.
    pub(super) fn succeeded(&mut self) {
        self.capacity.succeeded();
    }

    /// The worker refused an item as full.
    pub(super) fn refused(&mut self, retry_after_ms: Option<u64>, now: Instant) {
        self.capacity.refused(self.slots.len(), retry_after_ms, now);
    }

    /// The worker refused an item because it is shutting down.
    pub(super) fn drain(&mut self) {
        self.is_draining = true;
    }

    /// Accepts items again once its backoff is over.
    pub(super) fn end_backoff(&mut self, now: Instant) {
        self.capacity.end_backoff(now);
    }

    /// When its backoff ends.
    pub(super) fn full_until(&self) -> Option<Instant> {
        self.capacity.full_until()
    }

    /// When the oldest unanswered cancellation was sent.
    pub(super) fn oldest_abandoned(&self) -> Option<Instant> {
        let since = |slot: &Slot| match slot {
            Slot::Abandoned(since) => Some(*since),
            Slot::Active(_) => None,
        };
        self.slots.values().filter_map(since).min()
    }

    /// Whether it is connected and among the endpoints.
    pub(super) fn is_available(&self) -> bool {
        self.requests.is_some() && !self.is_leaving
    }

    /// Whether it was already disconnected for the same reason.
    pub(super) fn was_disconnected(&self, reason: &DisconnectReason) -> bool {
        self.requests.is_none() && self.last_error.as_ref() == Some(reason)
    }

    pub(super) fn status(&self) -> WorkerStatus {
        WorkerStatus {
            name: self.name.clone(),
            connected: self.requests.is_some(),
            outstanding: self.slots.len(),
            answered: self.answers.count(),
            last_error: self.last_error.clone(),
        }
    }
}
