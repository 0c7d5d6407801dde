//! One worker's side of the board: what it has, and whether it may get more.

use std::collections::HashMap;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::items::Items;

/// First and longest backoff from a worker that is full and does not say for how long.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));
/// Answers for each place of a worker before it is tried with one place more.
const GROW_AFTER: usize = 8;

/// What a worker has under an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Slot {
    /// The item of this ticket.
    Active(u64),
    /// Nobody's any more: cancelled, its answer not in yet.
    Abandoned(Instant),
}

/// Whether a worker may be given items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WorkerState {
    /// Yes.
    Ready,
    /// It was full with the work of others: none until then.
    BackingOff { until: Instant },
    /// It is shutting down: none before it has another stream.
    Draining,
}

/// One worker.
pub(super) struct Worker<P: Items> {
    pub(super) name: String,
    /// Its stream, where one stands.
    pub(super) link: Option<mpsc::Sender<P::Request>>,
    pub(super) slots: HashMap<String, Slot>,
    pub(super) state: WorkerState,
    /// Items that it may have: what it turned out to take, at most what the settings allow.
    limit: usize,
    max_limit: usize,
    /// Answers since the limit last changed.
    answers: usize,
    /// How often in a row it was full although it had nothing of ours.
    refusals: u32,
    /// Discovery no longer names it: it finishes what it has.
    pub(super) leaving: bool,
    /// Number of its last item, so that equals take turns.
    pub(super) last_given: u64,
    pub(super) answered: u64,
    pub(super) last_error: String,
}

impl<P: Items> Worker<P> {
    pub(super) fn new(name: String, max_limit: usize) -> Self {
        Self {
            name,
            link: None,
            slots: HashMap::new(),
            state: WorkerState::Ready,
            limit: max_limit,
            max_limit,
            answers: 0,
            refusals: 0,
            leaving: false,
            last_given: 0,
            answered: 0,
            last_error: String::new(),
        }
    }

    /// Ends a backoff that is over.
    pub(super) fn end_backoff(&mut self, now: Instant) {
        if matches!(self.state, WorkerState::BackingOff { until } if until <= now) {
            self.state = WorkerState::Ready;
        }
    }

    /// Whether it may get the item of that id. An id that it still has, cancelled, would make two answers look alike.
    pub(super) fn takes(&self, id: &str) -> bool {
        let willing = self.state == WorkerState::Ready && !self.leaving && self.link.is_some();
        willing && self.slots.len() < self.limit && !self.slots.contains_key(id)
    }

    /// A new stream: whatever was learnt about the old one may no longer hold.
    pub(super) fn link_up(&mut self, link: mpsc::Sender<P::Request>) {
        (self.link, self.state, self.refusals) = (Some(link), WorkerState::Ready, 0);
        (self.limit, self.answers) = (self.max_limit, 0);
    }

    /// It answered: after some answers it may be tried with one more at once.
    pub(super) fn succeeded(&mut self) {
        self.refusals = 0;
        self.answers += 1;
        if self.answers >= GROW_AFTER * self.limit && self.limit < self.max_limit {
            (self.limit, self.answers) = (self.limit + 1, 0);
        }
    }

    /// It is full. What it still has is what it takes; where that is nothing, others fill it, and it is left alone for a while.
    pub(super) fn refused(&mut self, retry_after_ms: Option<u64>, now: Instant) {
        (self.limit, self.answers) = (self.slots.len().clamp(1, self.limit), 0);
        if !self.slots.is_empty() && retry_after_ms.is_none() {
            return;
        }
        let doubled = BACKOFF.0.saturating_mul(1 << self.refusals.min(10));
        let delay = retry_after_ms.map_or(doubled, Duration::from_millis).min(BACKOFF.1);
        self.refusals = self.refusals.saturating_add(1);
        self.state = WorkerState::BackingOff { until: now + delay };
    }

    /// Sends, unless the link is broken, which its reader finds out, too. Every slot sends at most an item and a cancel, and the
    /// link has room for both: it is never full.
    pub(super) fn send(&self, request: P::Request) -> bool {
        self.link.as_ref().is_some_and(|link| link.try_send(request).is_ok())
    }

    /// The oldest cancelled item that is not answered.
    pub(super) fn oldest_abandoned(&self) -> Option<Instant> {
        let since = |slot: &Slot| match slot {
            Slot::Abandoned(since) => Some(*since),
            Slot::Active(_) => None,
        };
        self.slots.values().filter_map(since).min()
    }
}
