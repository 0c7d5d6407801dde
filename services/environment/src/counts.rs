//! Open episodes, how many there may be, and how those that ended did.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use evenkeel_proto::Label;
use evenkeel_proto::v1::EpisodeFailure;

/// How an episode ends.
pub(crate) const ENDS: &[&str] =
    &["scored", "closed", "overloaded", "task_invalid", "timeout", "refused", "crashed", "internal"];

/// The environment of an episode that is in none.
const UNKNOWN: &str = "unknown";

/// How an episode ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Scored,
    /// Whoever opened it ended it, or went away.
    Closed,
    Failed(EpisodeFailure),
}

impl End {
    fn label(self) -> &'static str {
        match self {
            Self::Scored => "scored",
            Self::Closed => "closed",
            Self::Failed(failure) => failure.label(),
        }
    }
}

/// The episodes of a worker, over all of its streams.
#[derive(Debug)]
pub(crate) struct Episodes {
    open: AtomicUsize,
    most: usize,
    ended: Mutex<BTreeMap<&'static str, u64>>,
}

/// The place of an open episode, until it is dropped. One that is dropped without an end was closed by its client.
#[derive(Debug)]
pub(crate) struct Counted {
    episodes: Arc<Episodes>,
    environment: String,
    is_counted: bool,
}

impl Episodes {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { open: AtomicUsize::new(0), most, ended: Mutex::default() })
    }

    /// A place for an episode; `None` where all are taken.
    pub(crate) fn enter(self: &Arc<Self>) -> Option<Counted> {
        let entered =
            self.open.fetch_update(Ordering::AcqRel, Ordering::Acquire, |open| (open < self.most).then_some(open + 1));
        entered.ok()?;
        metrics::gauge!("evenkeel_episodes_open").increment(1.0);
        Some(Counted { episodes: Arc::clone(self), environment: UNKNOWN.to_owned(), is_counted: false })
    }

    pub(crate) fn open(&self) -> usize {
        self.open.load(Ordering::Acquire)
    }

    pub(crate) fn most(&self) -> usize {
        self.most
    }

    /// Counts an episode that found no place.
    pub(crate) fn refused(&self, failure: EpisodeFailure) {
        self.ended(UNKNOWN, End::Failed(failure));
    }

    fn ended(&self, environment: &str, end: End) {
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner).entry(end.label()).or_default() += 1;
        let environment = environment.to_owned();
        metrics::counter!("evenkeel_episodes_total", "environment" => environment, "end" => end.label()).increment(1);
    }

    /// How the episodes ended.
    pub(crate) fn by_end(&self) -> BTreeMap<String, u64> {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        ended.iter().map(|(end, count)| ((*end).to_owned(), *count)).collect()
    }
}

impl Counted {
    /// Counts the episode under this environment.
    pub(crate) fn plays(&mut self, environment: &str) {
        environment.clone_into(&mut self.environment);
    }

    /// Ends the episode and frees its place.
    pub(crate) fn end(mut self, end: End) {
        self.count(end);
    }

    fn count(&mut self, end: End) {
        if !self.is_counted {
            self.is_counted = true;
            self.episodes.ended(&self.environment, end);
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.count(End::Closed);
        self.episodes.open.fetch_sub(1, Ordering::AcqRel);
        metrics::gauge!("evenkeel_episodes_open").decrement(1.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_episodes_are_open_at_once_and_every_failure_has_a_label() {
        let episodes = Episodes::new(2);
        let first = episodes.enter().unwrap();
        let _second = episodes.enter().unwrap();
        assert!(episodes.enter().is_none());
        drop(first);
        assert!(episodes.enter().is_some());
        assert_eq!(episodes.open(), 1);
        assert_eq!(episodes.by_end()["closed"], 2, "nobody said how they ended");
        episodes.enter().unwrap().end(End::Scored);
        assert_eq!((episodes.open(), episodes.by_end()["scored"]), (1, 1));
        for &failure in EpisodeFailure::SPECIFIED {
            assert!(ENDS.contains(&End::Failed(failure).label()), "{failure:?}");
        }
    }
}
