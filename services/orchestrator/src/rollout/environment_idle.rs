//! How long no engine had a sample while episodes waited for their environments: idle time that faster environments, or
//! more episodes at a time, would save.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Where a sample is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// With the generation service.
    Engine,
    Environment,
}

/// The idle time of all samples of a run together. Clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct EnvironmentIdle(Arc<Mutex<PlaceCounts>>);

#[derive(Debug, Default)]
struct PlaceCounts {
    sampled: usize,
    waiting: usize,
    since: Option<Instant>,
    total: Duration,
}

/// A sample at a place, until it is dropped.
#[derive(Debug)]
pub(super) struct At(EnvironmentIdle, Place);

impl EnvironmentIdle {
    /// A sample is at a place.
    pub(super) fn enter(&self, place: Place) -> At {
        self.counts().change(place, |count| count + 1);
        At(self.clone(), place)
    }

    /// The time since this was last asked.
    pub(super) fn take(&self) -> Duration {
        let mut counts = self.counts();
        let now = Instant::now();
        let running = counts.since.replace(now).map_or(Duration::ZERO, |since| now - since);
        counts.since = counts.since.filter(|_| counts.is_idle());
        std::mem::take(&mut counts.total) + running
    }

    fn counts(&self) -> MutexGuard<'_, PlaceCounts> {
        // A poisoned lock is harmless: a metric is at stake.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PlaceCounts {
    fn is_idle(&self) -> bool {
        self.sampled == 0 && self.waiting > 0
    }

    fn change(&mut self, place: Place, to: impl FnOnce(usize) -> usize) {
        let count = match place {
            Place::Engine => &mut self.sampled,
            Place::Environment => &mut self.waiting,
        };
        *count = to(*count);
        match (self.is_idle(), self.since) {
            (true, None) => self.since = Some(Instant::now()),
            (false, Some(since)) => {
                self.total += since.elapsed();
                self.since = None;
            }
            _ => {}
        }
    }
}

impl Drop for At {
    fn drop(&mut self) {
        self.0.counts().change(self.1, |count| count.saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: Duration = Duration::from_millis(20);

    #[test]
    fn only_time_in_which_all_samples_wait_for_environments_counts() {
        let idle = EnvironmentIdle::default();
        let sampled = idle.enter(Place::Engine);
        let waiting = idle.enter(Place::Environment);
        std::thread::sleep(PAUSE);
        assert_eq!(idle.take(), Duration::ZERO, "one is sampled");
        drop(sampled);
        std::thread::sleep(PAUSE);
        assert!(idle.take() >= PAUSE, "it goes on");
        std::thread::sleep(PAUSE);
        drop(waiting);
        let second = idle.take();
        std::thread::sleep(PAUSE);
        assert!(second >= PAUSE && idle.take() == Duration::ZERO, "nothing waits");
    }
}
