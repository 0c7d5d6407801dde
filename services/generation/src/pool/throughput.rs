//! Tokens per second over the last few seconds. Reported, never used for a decision.

use tokio::time::Instant;

const SECONDS: usize = 8;

/// A ring buffer of counts, one for each second.
#[derive(Debug, Clone)]
pub(super) struct Throughput {
    started: Instant,
    /// The second counted last.
    current: u64,
    counts: [u64; SECONDS],
}

impl Throughput {
    pub(super) fn new(now: Instant) -> Self {
        Self { started: now, current: 0, counts: [0; SECONDS] }
    }

    pub(super) fn add(&mut self, now: Instant, tokens: u64) {
        let second = self.advance_to(now);
        self.counts[second] += tokens;
    }

    /// The mean of the complete seconds in the buffer.
    pub(super) fn per_second(&mut self, now: Instant) -> f64 {
        let second = self.advance_to(now);
        let whole: u64 = (0..SECONDS).filter(|&index| index != second).map(|index| self.counts[index]).sum();
        let seconds = self.current.min(SECONDS as u64 - 1);
        if seconds == 0 { 0.0 } else { whole as f64 / seconds as f64 }
    }

    fn advance_to(&mut self, now: Instant) -> usize {
        let second = now.saturating_duration_since(self.started).as_secs();
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
    fn complete_seconds_count_and_old_ones_do_not() {
        let started = Instant::now();
        let after = |ms: u64| started + Duration::from_millis(ms);
        let mut throughput = Throughput::new(started);
        throughput.add(after(100), 300);
        assert_eq!(throughput.per_second(after(900)), 0.0);
        throughput.add(after(1500), 100);
        assert_eq!(throughput.per_second(after(2000)), 200.0);
        assert_eq!(throughput.per_second(after(60_000)), 0.0);
    }
}
