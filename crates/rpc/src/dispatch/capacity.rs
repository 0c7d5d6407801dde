//! How many items a worker may have at once: adapted to what it accepts.

use std::time::Duration;

use tokio::time::Instant;

use crate::retry::{Backoff, RetryPolicy};

/// Longest backoff from a full worker.
const MAX_BACKOFF: Duration = Duration::from_secs(1);
/// Backoff from a full worker that gives no `retry_after_ms`.
const BACKOFF: RetryPolicy = RetryPolicy::new(Duration::from_millis(10), MAX_BACKOFF);
/// Responses per slot after which the limit is raised by one.
const GROW_AFTER: usize = 8;

/// The number of items that a worker may have, and whether it is too full for any.
pub(super) struct Capacity {
    /// Items in flight that are allowed now, at most `max`.
    limit: usize,
    max: usize,
    /// Responses since the limit last changed.
    responses: usize,
    /// Pauses while it is full without any of our items.
    backoff: Backoff,
    /// Until when the worker gets no items, having been full with those of other clients.
    full_until: Option<Instant>,
}

impl Capacity {
    pub(super) fn new(max: usize) -> Self {
        Self { limit: max, max, responses: 0, backoff: BACKOFF.backoff(), full_until: None }
    }

    /// Whether a worker that has `held` items may get another.
    pub(super) fn allows(&self, held: usize) -> bool {
        self.full_until.is_none() && held < self.limit
    }

    /// When the backoff ends.
    pub(super) fn full_until(&self) -> Option<Instant> {
        self.full_until
    }

    /// Ends the backoff if it is over.
    pub(super) fn end_backoff(&mut self, now: Instant) {
        self.full_until = self.full_until.filter(|until| *until > now);
    }

    /// An item was completed: raises the limit after some responses.
    pub(super) fn succeeded(&mut self) {
        self.backoff.reset();
        self.responses += 1;
        if self.responses >= GROW_AFTER * self.limit && self.limit < self.max {
            (self.limit, self.responses) = (self.limit + 1, 0);
        }
    }

    /// An item was refused as one too many: lowers the limit to the `held` ones. If there are none, other clients fill
    /// the worker: backs off.
    pub(super) fn refused(&mut self, held: usize, retry_after_ms: Option<u64>, now: Instant) {
        (self.limit, self.responses) = (held.clamp(1, self.limit), 0);
        if held > 0 && retry_after_ms.is_none() {
            return;
        }
        let pause = self.backoff.next_pause();
        self.full_until = Some(now + retry_after_ms.map_or(pause, Duration::from_millis).min(MAX_BACKOFF));
    }
}
