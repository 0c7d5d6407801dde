//! Tokens a second over the last seconds. For people: nothing is decided by it.

use tokio::time::Instant;

const SECONDS: usize = 8;

/// A ring of seconds.
#[derive(Debug, Clone)]
pub(super) struct Rate {
    begun: Instant,
    /// The second that was counted last.
    current: u64,
    counts: [u64; SECONDS],
}

impl Rate {
    pub(super) fn new(now: Instant) -> Self {
        Self { begun: now, current: 0, counts: [0; SECONDS] }
    }

    pub(super) fn add(&mut self, now: Instant, tokens: u64) {
        let second = self.turn_to(now);
        self.counts[second] += tokens;
    }

    /// Over the whole seconds of the ring; fewer at the beginning.
    pub(super) fn per_second(&mut self, now: Instant) -> f64 {
        let second = self.turn_to(now);
        let whole: u64 = (0..SECONDS).filter(|&index| index != second).map(|index| self.counts[index]).sum();
        let seconds = self.current.min(SECONDS as u64 - 1);
        if seconds == 0 { 0.0 } else { whole as f64 / seconds as f64 }
    }

    fn turn_to(&mut self, now: Instant) -> usize {
        let second = now.saturating_duration_since(self.begun).as_secs();
        let index = |second: u64| (second % SECONDS as u64) as usize;
        if second >= self.current + SECONDS as u64 {
            self.counts = [0; SECONDS];
        } else {
            for passed in self.current + 1..=second {
                self.counts[index(passed)] = 0;
            }
        }
        self.current = self.current.max(second);
        index(self.current)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn whole_seconds_count_and_old_ones_do_not() {
        let begun = Instant::now();
        let at = |ms: u64| begun + Duration::from_millis(ms);
        let mut rate = Rate::new(begun);
        rate.add(at(100), 300);
        assert_eq!(rate.per_second(at(900)), 0.0);
        rate.add(at(1500), 100);
        assert_eq!(rate.per_second(at(2000)), 200.0);
        assert_eq!(rate.per_second(at(60_000)), 0.0);
    }
}
