//! Pauses between attempts to reach a worker: they double, and differ from worker to worker, so that a hundred clients of a worker
//! that comes back do not come back in one moment. No clock and no generator: one client has the same pauses for the same worker.

use std::time::Duration;

/// The pauses of one worker.
#[derive(Debug, Clone)]
pub(super) struct Backoff {
    seed: u64,
    initial: Duration,
    max: Duration,
    attempt: u32,
}

impl Backoff {
    /// For the worker of that name, seen by the client of that number.
    pub(super) fn new(name: &str, client: u64, initial: Duration, max: Duration) -> Self {
        let seed = name
            .bytes()
            .fold(client ^ 0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        Self { seed, initial, max, attempt: 0 }
    }

    /// The next pause: between half of it and all of it, as the worker's name has it.
    pub(super) fn next(&mut self) -> Duration {
        let doubled = self.initial.saturating_mul(1 << self.attempt.min(20)).min(self.max);
        let mut bits = self.seed.wrapping_add(u64::from(self.attempt).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits ^= bits >> 27;
        self.attempt = self.attempt.saturating_add(1);
        let part = (bits >> 40) as f64 / (1_u64 << 24) as f64;
        doubled.mul_f64(0.5 + part / 2.0)
    }

    /// The worker was there again.
    pub(super) fn reset(&mut self) {
        self.attempt = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pauses(name: &str) -> Vec<Duration> {
        let mut backoff = Backoff::new(name, 0, Duration::from_millis(100), Duration::from_secs(5));
        (0..40).map(|_| backoff.next()).collect()
    }

    #[test]
    fn pauses_double_up_to_the_longest() {
        for (attempt, pause) in pauses("http://a:1").into_iter().enumerate() {
            let full = Duration::from_millis(100 << attempt.min(20)).min(Duration::from_secs(5));
            assert!(pause >= full / 2 && pause <= full, "{attempt}: {pause:?}");
        }
    }

    #[test]
    fn pauses_are_the_workers_own() {
        assert_eq!(pauses("http://a:1"), pauses("http://a:1"));
        assert_ne!(pauses("http://a:1"), pauses("http://b:1"));
    }

    #[test]
    fn a_worker_that_was_there_begins_anew() {
        let mut backoff = Backoff::new("a", 0, Duration::from_millis(100), Duration::from_secs(5));
        let first = backoff.next();
        backoff.next();
        backoff.reset();
        assert_eq!(backoff.next(), first);
    }
}
