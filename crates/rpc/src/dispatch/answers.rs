//! What a worker has answered, to notice one that answers under other ids.

use std::collections::VecDeque;

use tokio::time::Instant;

/// Answered ids that are remembered.
const REMEMBERED: usize = 64;

/// The answers of a worker.
#[derive(Debug, Default)]
pub(super) struct Answers {
    /// Good answers since the worker was added.
    count: u64,
    /// Ids of the newest of them on this stream.
    recent: VecDeque<String>,
    /// Answers under ids that it did not have, since its last good one.
    strays: usize,
    /// The newest of them, and when it came.
    last_stray: Option<(String, Instant)>,
}

impl Answers {
    /// Number of good answers.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// A new stream is open: what came on the old one says nothing about it.
    pub(super) fn restart(&mut self) {
        *self = Self { count: self.count, ..Self::default() };
    }

    /// An item was answered that the worker had.
    pub(super) fn good(&mut self, id: &str) {
        self.count += 1;
        self.strays = 0;
        self.recent.push_back(id.to_owned());
        if self.recent.len() > REMEMBERED {
            self.recent.pop_front();
        }
    }

    /// An answer came under an id that the worker, with `held` items, does not have. Returns whether all of these must
    /// have been answered under other ids, because there are as many such answers in a row. Duplicate responses do not
    /// count.
    pub(super) fn stray(&mut self, id: &str, held: usize, now: Instant) -> bool {
        if self.recent.iter().any(|known| known == id) {
            return false;
        }
        self.strays += 1;
        self.last_stray = Some((id.to_owned(), now));
        let all = self.strays >= held;
        if all {
            self.strays = 0;
        }
        all
    }

    /// The id of the last answer under an id that the worker did not have, if it came since then.
    pub(super) fn stray_since(&self, then: Instant) -> Option<&str> {
        self.last_stray.as_ref().filter(|(_, at)| *at >= then).map(|(id, _)| id.as_str())
    }
}
