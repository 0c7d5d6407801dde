//! A worker as the scheduler sees it: the items that it has, and whether it may get more.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::items::Items;

/// First and longest backoff from a full worker that gives no `retry_after_ms`.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));
/// Responses per slot after which the limit of a worker is raised by one.
const GROW_AFTER: usize = 8;

/// Answered ids that are remembered.
const REMEMBERED: usize = 64;

/// An item that a worker has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Slot {
    /// Unanswered, with its ticket.
    Active(u64),
    /// Cancelled at this time; the worker has not answered yet.
    Abandoned(Instant),
}

/// Whether a worker accepts items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WorkerState {
    /// It accepts items.
    Ready,
    /// It was full with items of other clients: no items until then.
    BackingOff { until: Instant },
    /// It is shutting down: no items before its stream is reopened.
    Draining,
}

/// One worker.
pub(super) struct Worker<P: Items> {
    pub(super) name: String,
    /// Its request stream. `None` while it is not connected.
    pub(super) requests: Option<mpsc::Sender<P::Request>>,
    pub(super) slots: HashMap<String, Slot>,
    pub(super) state: WorkerState,
    /// Items that it may have at once: adapted to what it accepts, at most `max_outstanding`.
    limit: usize,
    max_limit: usize,
    /// Responses since the limit last changed.
    responses: usize,
    /// How often in a row it was full without any of our items.
    refusals: u32,
    /// It is no longer among the endpoints and only finishes its items.
    pub(super) leaving: bool,
    /// Number of its last assignment, so that equally loaded workers take turns.
    pub(super) last_assigned: u64,
    pub(super) answered: u64,
    /// The newest ids that it answered.
    recent: VecDeque<String>,
    /// Answers under ids that it did not have, since its last good one.
    strays: usize,
    /// The newest of them, and when it came.
    last_stray: Option<(String, Instant)>,
    pub(super) last_error: String,
}

impl<P: Items> Worker<P> {
    pub(super) fn new(name: String, max_limit: usize) -> Self {
        Self {
            name,
            requests: None,
            slots: HashMap::new(),
            state: WorkerState::Ready,
            limit: max_limit,
            max_limit,
            responses: 0,
            refusals: 0,
            leaving: false,
            last_assigned: 0,
            answered: 0,
            recent: VecDeque::new(),
            strays: 0,
            last_stray: None,
            last_error: String::new(),
        }
    }

    /// Returns to [`WorkerState::Ready`] once the backoff is over.
    pub(super) fn end_backoff(&mut self, now: Instant) {
        if matches!(self.state, WorkerState::BackingOff { until } if until <= now) {
            self.state = WorkerState::Ready;
        }
    }

    /// Whether it may get the item of that id. While it has a cancelled item of the same id, their responses could not be distinguished.
    pub(super) fn accepts(&self, id: &str) -> bool {
        let ready = self.state == WorkerState::Ready && !self.leaving && self.requests.is_some();
        ready && self.slots.len() < self.limit && !self.slots.contains_key(id)
    }

    /// A new stream is open. What was learnt on the old one may no longer be true.
    pub(super) fn connected_to(&mut self, requests: mpsc::Sender<P::Request>) {
        (self.requests, self.state, self.refusals) = (Some(requests), WorkerState::Ready, 0);
        (self.limit, self.responses) = (self.max_limit, 0);
        (self.strays, self.last_stray) = (0, None);
        self.recent.clear();
    }

    /// It answered an item that it had.
    pub(super) fn answered(&mut self, id: &str) {
        self.answered += 1;
        self.strays = 0;
        self.recent.push_back(id.to_owned());
        if self.recent.len() > REMEMBERED {
            self.recent.pop_front();
        }
    }

    /// It answered under an id that it does not have. Once there are as many such answers in a row as items that it has, all of them must
    /// have been answered under other ids: returns their tickets. An item that is answered twice is none of this.
    pub(super) fn strayed(&mut self, id: &str, now: Instant) -> Vec<u64> {
        if self.recent.iter().any(|known| known == id) {
            return Vec::new();
        }
        self.strays += 1;
        self.last_stray = Some((id.to_owned(), now));
        if self.strays < self.slots.len() {
            return Vec::new();
        }
        self.strays = 0;
        let active = self.slots.extract_if(|_, slot| matches!(slot, Slot::Active(_)));
        let mut tickets: Vec<u64> =
            active.filter_map(|(_, slot)| if let Slot::Active(ticket) = slot { Some(ticket) } else { None }).collect();
        tickets.sort_unstable();
        tickets
    }

    /// The id under which it answered something since then that it did not have.
    pub(super) fn stray_since(&self, then: Instant) -> Option<&str> {
        self.last_stray.as_ref().filter(|(_, at)| *at >= then).map(|(id, _)| id.as_str())
    }

    /// It completed an item: raises the limit after some responses.
    pub(super) fn succeeded(&mut self) {
        self.refusals = 0;
        self.responses += 1;
        if self.responses >= GROW_AFTER * self.limit && self.limit < self.max_limit {
            (self.limit, self.responses) = (self.limit + 1, 0);
        }
    }

    /// It refused an item as full: lowers the limit to the items that it has. If it has none, other clients fill it: backs off.
    pub(super) fn refused(&mut self, retry_after_ms: Option<u64>, now: Instant) {
        (self.limit, self.responses) = (self.slots.len().clamp(1, self.limit), 0);
        if !self.slots.is_empty() && retry_after_ms.is_none() {
            return;
        }
        let doubled = BACKOFF.0.saturating_mul(1 << self.refusals.min(10));
        let delay = retry_after_ms.map_or(doubled, Duration::from_millis).min(BACKOFF.1);
        self.refusals = self.refusals.saturating_add(1);
        self.state = WorkerState::BackingOff { until: now + delay };
    }

    /// Sends a request. If the stream is broken, its reader reports that. The channel is never full: it has capacity for an item and a
    /// cancellation of every slot.
    pub(super) fn send(&self, request: P::Request) -> bool {
        self.requests.as_ref().is_some_and(|requests| requests.try_send(request).is_ok())
    }

    /// When the oldest unanswered cancellation was sent.
    pub(super) fn oldest_abandoned(&self) -> Option<Instant> {
        let since = |slot: &Slot| match slot {
            Slot::Abandoned(since) => Some(*since),
            Slot::Active(_) => None,
        };
        self.slots.values().filter_map(since).min()
    }
}
