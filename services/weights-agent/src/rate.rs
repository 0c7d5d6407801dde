//! A bound on bandwidth.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Bytes a second, over all who take some.
pub(crate) struct Rate {
    per_second: Option<f64>,
    /// When what has been taken so far is paid for.
    paid: Mutex<Option<Instant>>,
}

impl Rate {
    /// `per_second`: bytes a second; absent for no limit.
    pub(crate) fn new(per_second: Option<u64>) -> Self {
        Self { per_second: per_second.map(|bytes| bytes as f64), paid: Mutex::new(None) }
    }

    /// Takes bytes that have come, and waits until more may. Whoever reads no further than this holds up the sender by
    /// the transport's own window.
    pub(crate) async fn take(&self, bytes: usize) {
        let Some(per_second) = self.per_second else { return };
        let until = {
            let mut paid = self.paid.lock().unwrap_or_else(PoisonError::into_inner);
            let now = Instant::now();
            let begin = paid.filter(|&paid| paid > now).unwrap_or(now);
            let until = begin + Duration::from_secs_f64(bytes as f64 / per_second);
            *paid = Some(until);
            until
        };
        tokio::time::sleep_until(until).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn all_takers_together_stay_below_the_rate_and_without_one_nobody_waits() {
        let began = Instant::now();
        let rate = Rate::new(Some(1000));
        tokio::join!(rate.take(500), rate.take(1000), rate.take(500));
        assert_eq!(began.elapsed().as_millis(), 2000);
        // Nothing is saved up while nobody takes.
        tokio::time::sleep(Duration::from_secs(10)).await;
        let began = Instant::now();
        rate.take(1000).await;
        assert_eq!(began.elapsed().as_millis(), 1000);
        let began = Instant::now();
        Rate::new(None).take(usize::MAX).await;
        assert_eq!(began.elapsed(), Duration::ZERO);
    }
}
