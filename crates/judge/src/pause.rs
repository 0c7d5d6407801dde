//! Pauses that an endpoint asks for, and those between attempts.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use chrono::{DateTime, Utc};
use reqwest::header::{HeaderMap, RETRY_AFTER};
use tokio::time::{Instant, sleep_until};

/// Pause before the second attempt; it doubles with each further one.
const FIRST: Duration = Duration::from_millis(500);
/// Longest pause between attempts that nobody asked for.
const LONGEST: Duration = Duration::from_secs(30);
/// Longest pause that an endpoint may ask for; a longer one is cut, and the attempt after it asks again.
const LONGEST_ASKED: Duration = Duration::from_secs(3600);

/// Until when an endpoint takes no calls. All calls share it.
#[derive(Debug, Default)]
pub(crate) struct Pauses(Mutex<Option<Instant>>);

impl Pauses {
    /// No call begins for that long. An earlier pause that ends later stays.
    pub(crate) fn pause(&self, after: Duration) {
        let until = Instant::now() + after;
        let mut current = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *current = Some(current.map_or(until, |earlier| earlier.max(until)));
    }

    /// When calls may begin again; `None` where they may at once.
    pub(crate) fn until(&self) -> Option<Instant> {
        let current = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        current.filter(|until| *until > Instant::now())
    }

    /// Waits until calls may begin.
    pub(crate) async fn over(&self) {
        while let Some(until) = self.until() {
            sleep_until(until).await;
        }
    }
}

/// The pause before an attempt, from 1 for the second one.
pub(crate) fn between_attempts(failures: u32) -> Duration {
    (FIRST * 2_u32.saturating_pow(failures.saturating_sub(1).min(10))).min(LONGEST)
}

/// The pause that a response asks for: `Retry-After` in seconds or as a date (RFC 9110), or `retry-after-ms`.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    if let Some(milliseconds) = text("retry-after-ms").and_then(|text| text.parse().ok()) {
        return Some(Duration::from_millis(milliseconds).min(LONGEST_ASKED));
    }
    asked(text(RETRY_AFTER.as_str())?, Utc::now())
}

fn asked(text: &str, now: DateTime<Utc>) -> Option<Duration> {
    // Some endpoints send fractions of a second.
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok().map(|pause| pause.min(LONGEST_ASKED));
    }
    let date = DateTime::parse_from_rfc2822(text).ok()?.with_timezone(&Utc);
    Some((date - now).to_std().unwrap_or_default().min(LONGEST_ASKED))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_in_seconds_or_until_a_date() {
        let now = DateTime::parse_from_rfc2822("Wed, 21 Oct 2026 07:28:00 GMT").unwrap().with_timezone(&Utc);
        let seconds = |text: &str| asked(text, now).map(|pause| pause.as_secs_f64());
        assert_eq!((seconds("3"), seconds("0.25"), seconds("0")), (Some(3.0), Some(0.25), Some(0.0)));
        assert_eq!(seconds("Wed, 21 Oct 2026 07:28:05 GMT"), Some(5.0));
        assert_eq!(seconds("Wed, 21 Oct 2026 07:27:00 GMT"), Some(0.0), "in the past");
        assert_eq!(seconds("99999999"), Some(3600.0));
        assert_eq!((seconds("-1"), seconds("soon"), seconds("NaN"), seconds("inf")), (None, None, None, None));
        let headers = HeaderMap::from_iter([
            (RETRY_AFTER, "1".parse().unwrap()),
            ("retry-after-ms".parse().unwrap(), "250".parse().unwrap()),
        ]);
        assert_eq!(retry_after(&headers), Some(Duration::from_millis(250)));
    }

    #[test]
    fn pauses_between_attempts_double_up_to_a_limit() {
        assert_eq!([1, 2, 3, 99].map(between_attempts).map(|pause| pause.as_millis()), [500, 1000, 2000, 30_000]);
    }

    #[tokio::test]
    async fn the_longest_pause_holds() {
        let pauses = Pauses::default();
        assert_eq!(pauses.until(), None);
        pauses.pause(Duration::from_millis(80));
        let first = pauses.until();
        pauses.pause(Duration::from_millis(1));
        assert_eq!(pauses.until(), first);
        pauses.over().await;
        assert_eq!(pauses.until(), None);
    }
}
