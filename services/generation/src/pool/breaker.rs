//! The circuit breaker of one engine: it trips when too many samples in a row fail.

use evenkeel_rpc::retry::{Backoff, RetryPolicy};
use tokio::time::Instant;

use crate::settings::EngineClientSettings;

/// Whether a circuit breaker lets samples through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BreakerState {
    Closed,
    /// Tripped, and too early for a probe.
    BackingOff,
    /// Tripped, and the engine has to draw a sample for a probe before it gets others.
    ProbeDue,
}

/// Counts failed samples in a row.
#[derive(Debug)]
pub(super) struct CircuitBreaker {
    /// Failures that trip it.
    threshold: u32,
    failures: u32,
    /// The backoff of a tripped breaker, which grows with every further failure.
    backoff: Backoff,
    /// End of the current backoff.
    retry_at: Option<Instant>,
}

impl CircuitBreaker {
    pub(super) fn new(settings: &EngineClientSettings) -> Self {
        let backoff = RetryPolicy::new(settings.probe_initial, settings.probe_max).backoff();
        Self { threshold: settings.breaker_failures, failures: 0, backoff, retry_at: None }
    }

    pub(super) fn record_success(&mut self) {
        (self.failures, self.retry_at) = (0, None);
        self.backoff.reset();
    }

    /// Returns whether it is tripped.
    pub(super) fn record_failure(&mut self, now: Instant) -> bool {
        self.failures = self.failures.saturating_add(1);
        if self.is_tripped() {
            self.retry_at = Some(now + self.backoff.next_pause());
        }
        self.is_tripped()
    }

    /// Failed samples in a row.
    pub(super) fn failures(&self) -> u32 {
        self.failures
    }

    pub(super) fn state(&self, now: Instant) -> BreakerState {
        match self.retry_at {
            _ if !self.is_tripped() => BreakerState::Closed,
            Some(at) if at > now => BreakerState::BackingOff,
            _ => BreakerState::ProbeDue,
        }
    }

    fn is_tripped(&self) -> bool {
        self.failures >= self.threshold
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn it_trips_after_failures_in_a_row_and_backs_off_longer_each_time() {
        let settings = EngineClientSettings { breaker_failures: 2, ..EngineClientSettings::default() };
        let now = Instant::now();
        let mut breaker = CircuitBreaker::new(&settings);
        assert!(!breaker.record_failure(now));
        breaker.record_success();
        assert!(!breaker.record_failure(now));
        assert_eq!(breaker.state(now), BreakerState::Closed);
        for delay in [100, 200, 400] {
            assert!(breaker.record_failure(now));
            assert_eq!(breaker.state(now + Duration::from_millis(delay - 1)), BreakerState::BackingOff);
            // The policy computes delays in floating point.
            assert_eq!(breaker.state(now + Duration::from_millis(delay + 1)), BreakerState::ProbeDue);
        }
        breaker.record_success();
        assert_eq!(breaker.state(now), BreakerState::Closed);
    }
}
