//! Options of a dispatcher.

use std::time::Duration;

/// When an item's deadline begins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DeadlineStart {
    /// When the item is submitted: time in the queue counts.
    #[default]
    Submitted,
    /// When a worker gets the item, and anew with each worker: a long queue makes no item late.
    Assigned,
}

/// How items are assigned to workers. Counts and durations must be above zero.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DispatchOptions {
    /// Items that one worker may have at once.
    pub max_outstanding: usize,
    /// Unanswered items over all workers; further submissions wait.
    pub max_pending: usize,
    /// Deadline of items that have none of their own.
    pub item_deadline: Duration,
    pub deadline_start: DeadlineStart,
    /// Interval between resolutions of names.
    pub resolve_interval: Duration,
    /// Time limit of opening a connection and the stream on it.
    pub open_timeout: Duration,
    /// First pause before a lost worker is tried again; doubles up to `backoff_max`.
    pub backoff_initial: Duration,
    pub backoff_max: Duration,
    /// How long a worker may leave a cancelled item unanswered before its stream counts as stuck and is reopened.
    pub abandon_timeout: Duration,
}

impl Default for DispatchOptions {
    fn default() -> Self {
        Self {
            max_outstanding: 64,
            max_pending: 4096,
            item_deadline: Duration::from_secs(600),
            deadline_start: DeadlineStart::default(),
            resolve_interval: Duration::from_secs(3),
            open_timeout: Duration::from_secs(10),
            backoff_initial: Duration::from_millis(100),
            backoff_max: Duration::from_secs(5),
            abandon_timeout: Duration::from_secs(15),
        }
    }
}
