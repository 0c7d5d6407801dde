//! Deadlines: the earlier of an item's `deadline_ms` and its call's `grpc-timeout`.
//!
//! The transport enforces a deadline only until the response headers; this module enforces it to the end of a call.

use std::future::Future;
use std::time::Duration;

use tokio::time::Instant;
use tonic::metadata::MetadataMap;

use crate::error::ServiceError;

/// The header of a call's deadline.
const GRPC_TIMEOUT: &str = "grpc-timeout";

/// When a result is no longer needed, if ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Deadline {
    at: Option<Instant>,
}

impl Deadline {
    pub const NEVER: Self = Self { at: None };

    /// The deadline after this much time from now.
    pub fn after(budget: Duration) -> Self {
        // A time beyond the range of `Instant` counts as never.
        Self { at: Instant::now().checked_add(budget) }
    }

    /// The deadline of a call, from its `grpc-timeout`. A malformed one is ignored here; the transport handles it.
    pub fn of_call(metadata: &MetadataMap) -> Self {
        let timeout = metadata.get(GRPC_TIMEOUT).and_then(|value| value.to_str().ok()).and_then(parse_timeout);
        timeout.map_or(Self::NEVER, Self::after)
    }

    /// The earlier of this and an item's `deadline_ms` that begins now.
    #[must_use]
    pub fn and_item(self, deadline_ms: Option<u64>) -> Self {
        deadline_ms.map_or(self, |ms| self.min(Self::after(Duration::from_millis(ms))))
    }

    /// The earlier of two.
    #[must_use]
    pub fn min(self, other: Self) -> Self {
        match (self.at, other.at) {
            (Some(a), Some(b)) => Self { at: Some(a.min(b)) },
            (at, None) | (None, at) => Self { at },
        }
    }

    /// The moment. `None` for never.
    pub fn at(self) -> Option<Instant> {
        self.at
    }

    /// Time left; zero once it has passed, `None` for never.
    pub fn remaining(self) -> Option<Duration> {
        self.at.map(|at| at.saturating_duration_since(Instant::now()))
    }

    /// Completes at the deadline, or never.
    pub async fn passed(self) {
        match self.at {
            Some(at) => tokio::time::sleep_until(at).await,
            None => std::future::pending().await,
        }
    }

    /// Runs a future until the deadline, then drops it.
    pub async fn run<F: Future>(self, future: F) -> Result<F::Output, ServiceError> {
        let started = Instant::now();
        tokio::select! {
            biased;
            output = future => Ok(output),
            () = self.passed() => Err(ServiceError::Deadline(started.elapsed())),
        }
    }
}

/// `grpc-timeout`: at most eight digits and a unit.
fn parse_timeout(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number: u64 = digits.parse().ok()?;
    match unit {
        "H" => Some(Duration::from_secs(number * 3600)),
        "M" => Some(Duration::from_secs(number * 60)),
        "S" => Some(Duration::from_secs(number)),
        "m" => Some(Duration::from_millis(number)),
        "u" => Some(Duration::from_micros(number)),
        "n" => Some(Duration::from_nanos(number)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use tonic::Request;

    use super::*;

    #[test]
    fn the_calls_timeout_is_read() {
        assert_eq!(parse_timeout("5S"), Some(Duration::from_secs(5)));
        assert_eq!(parse_timeout("250m"), Some(Duration::from_millis(250)));
        assert_eq!(parse_timeout("99999999H"), Some(Duration::from_secs(99_999_999 * 3600)));
        for text in ["", "S", "5", "5s", "-5S", "123456789S", "5ä"] {
            assert_eq!(parse_timeout(text), None, "{text}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_earlier_deadline_decides() {
        let call = Deadline::after(Duration::from_secs(10));
        assert_eq!(call.and_item(Some(3_000)).remaining(), Some(Duration::from_secs(3)));
        assert_eq!(call.and_item(Some(30_000)).remaining(), Some(Duration::from_secs(10)));
        assert_eq!(call.and_item(None), call);
        assert_eq!(Deadline::NEVER.and_item(None).remaining(), None);
        assert_eq!(Deadline::NEVER.and_item(Some(0)).remaining(), Some(Duration::ZERO));
    }

    #[tokio::test(start_paused = true)]
    async fn a_future_that_takes_too_long_is_dropped() {
        let deadline = Deadline::after(Duration::from_millis(20));
        let error = deadline.run(std::future::pending::<()>()).await.unwrap_err();
        assert_eq!(error.to_string(), "the deadline passed after 20 ms");
        assert_eq!(Deadline::after(Duration::ZERO).run(async { 7 }).await, Ok(7));
    }

    #[tokio::test(start_paused = true)]
    async fn the_timeout_of_a_call_is_its_deadline() {
        let mut request = Request::new(());
        request.set_timeout(Duration::from_secs(6));
        assert_eq!(Deadline::of_call(request.metadata()).remaining(), Some(Duration::from_secs(6)));
    }

    #[test]
    fn a_deadline_beyond_the_range_of_instants_is_none() {
        assert_eq!(Deadline::after(Duration::MAX), Deadline::NEVER);
    }
}
