//! Retries: backoff, limits, retryable statuses.
//!
//! A [`RetryPolicy`] is a value; [`RetryPolicy::start`] begins one series of attempts. The caller runs the attempts,
//! because what interrupts one (a stop, a lost connection) differs from caller to caller:
//!
//! ```
//! # use std::time::Duration;
//! # use evenkeel_rpc::retry::{RetryPolicy, is_retryable};
//! # async fn call() -> Result<(), tonic::Status> { Ok(()) }
//! # async fn example() -> Result<(), tonic::Status> {
//! let policy = RetryPolicy::new(Duration::from_millis(100), Duration::from_secs(5)).with_max_attempts(4);
//! let mut retries = policy.start();
//! loop {
//!     match call().await {
//!         Err(status) if is_retryable(&status) => match retries.next_retry() {
//!             Some(retry) => tokio::time::sleep(retry.pause).await,
//!             None => return Err(status),
//!         },
//!         result => return result,
//!     }
//! }
//! # }
//! ```
//!
//! Only one layer retries a given failure; docs/architecture.md ("Retries") names it.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use tokio::time::Instant;
use tonic::{Code, Status};

use crate::error::reason_of;

/// How a failure is retried: pauses that double up to a maximum, and optionally a limit on attempts or on time.
#[derive(Debug, Clone, Copy)]
pub struct RetryPolicy {
    initial: Duration,
    max: Duration,
    max_attempts: Option<u32>,
    time_limit: Option<Duration>,
    jitter_seed: Option<u64>,
}

impl RetryPolicy {
    /// Retries without end, after `initial`, twice that, and so on up to `max`.
    pub const fn new(initial: Duration, max: Duration) -> Self {
        Self { initial, max, max_attempts: None, time_limit: None, jitter_seed: None }
    }

    /// Limits the number of attempts, the first included.
    #[must_use]
    pub fn with_max_attempts(self, attempts: u32) -> Self {
        Self { max_attempts: Some(attempts), ..self }
    }

    /// Gives up that long after the first failure.
    #[must_use]
    pub fn with_time_limit(self, limit: Duration) -> Self {
        Self { time_limit: Some(limit), ..self }
    }

    /// Shortens each pause by up to a half, so that many clients of one server do not return at the same moment. `who`
    /// names the client: the same client has the same pauses, and no global generator is involved.
    #[must_use]
    pub fn with_jitter(self, who: impl Hash) -> Self {
        let mut hasher = DefaultHasher::new();
        who.hash(&mut hasher);
        Self { jitter_seed: Some(hasher.finish()), ..self }
    }

    /// The pause after the first failure, without jitter.
    pub fn initial_pause(&self) -> Duration {
        self.initial
    }

    /// Begins a series of attempts.
    pub fn start(&self) -> Retries {
        Retries { policy: *self, backoff: self.backoff(), failures: 0, since: None }
    }

    /// The pauses of the policy, without its limits.
    pub fn backoff(&self) -> Backoff {
        Backoff { policy: *self, delays: self.delays() }
    }

    fn delays(&self) -> ExponentialBackoff {
        // backon adds up to the whole delay as jitter: with half the delay the pause is between half of it and all of
        // it.
        let part = if self.jitter_seed.is_some() { 2 } else { 1 };
        let builder = ExponentialBuilder::new().with_min_delay(self.initial / part).with_max_delay(self.max / part);
        let builder = builder.without_max_times();
        match self.jitter_seed {
            Some(seed) => builder.with_jitter().with_jitter_seed(seed).build(),
            None => builder.build(),
        }
    }
}

/// The pauses of a policy, one after the other and without end.
#[derive(Debug)]
pub struct Backoff {
    policy: RetryPolicy,
    delays: ExponentialBackoff,
}

impl Backoff {
    /// The pause before the next attempt.
    pub fn next_pause(&mut self) -> Duration {
        self.delays.next().unwrap_or(self.policy.max)
    }

    /// Starts over with the first pause.
    pub fn reset(&mut self) {
        self.delays = self.policy.delays();
    }
}

/// Another attempt that a policy allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// Time until the next attempt.
    pub pause: Duration,
    /// Time since the first failure.
    pub waited: Duration,
    /// Time until the policy gives up. `None` without a time limit.
    pub left: Option<Duration>,
}

/// A series of attempts.
#[derive(Debug)]
pub struct Retries {
    policy: RetryPolicy,
    backoff: Backoff,
    failures: u32,
    since: Option<Instant>,
}

impl Retries {
    /// Records a failure. `None` when the policy gives up.
    pub fn next_retry(&mut self) -> Option<Retry> {
        let waited = self.since.get_or_insert_with(Instant::now).elapsed();
        let left = self.policy.time_limit.map(|limit| limit.saturating_sub(waited));
        self.failures = self.failures.saturating_add(1);
        if left == Some(Duration::ZERO) || self.policy.max_attempts.is_some_and(|attempts| self.failures >= attempts) {
            return None;
        }
        let pause = self.backoff.next_pause();
        Some(Retry { pause: left.map_or(pause, |left| pause.min(left)), waited, left })
    }

    /// Time since the first failure. `None` before one.
    pub fn waited(&self) -> Option<Duration> {
        self.since.map(|since| since.elapsed())
    }

    /// Starts over after a success: the next failure counts as the first.
    pub fn reset(&mut self) {
        *self = self.policy.start();
    }
}

/// Whether the same call may succeed later. Every call of `evenkeel.v1` is idempotent, so it does not matter whether it
/// was executed.
pub fn is_retryable(status: &Status) -> bool {
    match status.code() {
        // Aborted: an earlier call of the same kind is still running.
        Code::Unavailable | Code::DeadlineExceeded | Code::ResourceExhausted | Code::Aborted => true,
        // Without a reason it is the transport's own failure; our servers always attach one.
        Code::Unknown | Code::Internal | Code::Cancelled => reason_of(status).is_none(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INITIAL: Duration = Duration::from_millis(100);
    const MAX: Duration = Duration::from_secs(5);

    fn policy() -> RetryPolicy {
        RetryPolicy::new(INITIAL, MAX)
    }

    fn pauses(policy: RetryPolicy) -> Vec<Duration> {
        let mut retries = policy.start();
        (0..40).map(|_| retries.next_retry().unwrap().pause).collect()
    }

    #[test]
    fn pauses_double_up_to_the_longest() {
        let millis: Vec<u128> = pauses(policy()).iter().map(Duration::as_millis).collect();
        assert_eq!(millis[..8], [100, 200, 400, 800, 1600, 3200, 5000, 5000]);
    }

    #[test]
    fn jitter_shortens_a_pause_by_half_at_most() {
        for (attempt, pause) in pauses(policy().with_jitter("http://a:1")).into_iter().enumerate() {
            let full = Duration::from_millis(100 << attempt.min(20)).min(MAX);
            assert!(pause >= full / 2 && pause <= full, "{attempt}: {pause:?}");
        }
    }

    #[test]
    fn jitter_is_the_clients_own_and_reproducible() {
        let pauses_of = |who: &str| pauses(policy().with_jitter(who));
        assert_eq!(pauses_of("http://a:1"), pauses_of("http://a:1"));
        assert_ne!(pauses_of("http://a:1"), pauses_of("http://b:1"));
    }

    #[test]
    fn attempts_are_counted_with_the_first() {
        let mut retries = policy().with_max_attempts(3).start();
        assert!(retries.next_retry().is_some() && retries.next_retry().is_some());
        assert_eq!(retries.next_retry(), None);
        assert_eq!(policy().with_max_attempts(1).start().next_retry(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_limit_counts_from_the_first_failure() {
        let mut retries = policy().with_time_limit(Duration::from_millis(250)).start();
        tokio::time::sleep(Duration::from_secs(60)).await;
        let mut seen = Vec::new();
        while let Some(retry) = retries.next_retry() {
            seen.push((retry.pause.as_millis(), retry.left.unwrap().as_millis()));
            tokio::time::sleep(retry.pause).await;
        }
        // The last pause is cut to what is left.
        assert_eq!(seen, [(100, 250), (150, 150)]);
        assert!(retries.waited().unwrap() >= Duration::from_millis(250));
    }

    #[test]
    fn a_success_starts_the_series_over() {
        let mut retries = policy().with_max_attempts(2).with_jitter("a").start();
        let first = retries.next_retry().unwrap();
        assert_eq!(retries.next_retry(), None);
        retries.reset();
        assert_eq!(retries.next_retry().unwrap().pause, first.pause);
    }

    #[test]
    fn a_backoff_has_no_limit_and_starts_over() {
        let mut backoff = policy().with_max_attempts(2).with_time_limit(Duration::ZERO).backoff();
        let pauses: Vec<_> = (0..4).map(|_| backoff.next_pause().as_millis()).collect();
        assert_eq!(pauses, [100, 200, 400, 800]);
        backoff.reset();
        assert_eq!(backoff.next_pause(), INITIAL);
    }

    #[test]
    fn only_failures_that_may_pass_are_retryable() {
        let retryable =
            [Code::Unavailable, Code::DeadlineExceeded, Code::ResourceExhausted, Code::Aborted, Code::Internal];
        let last = [
            Code::InvalidArgument,
            Code::FailedPrecondition,
            Code::NotFound,
            Code::Unauthenticated,
            Code::PermissionDenied,
        ];
        assert!(retryable.into_iter().all(|code| is_retryable(&Status::new(code, ""))));
        assert!(!last.into_iter().any(|code| is_retryable(&Status::new(code, ""))));
        let ours = crate::error::ServiceError::Internal { message: "a defect".to_owned() };
        assert!(!is_retryable(&Status::from(ours)), "an internal error with a reason comes from our server");
    }
}
