//! Latencies, as they are reported.

use std::time::Duration;

use serde_json::{Value, json};

/// Latencies of one kind of item.
#[derive(Debug, Default)]
pub(crate) struct Latencies(Vec<Duration>);

impl Latencies {
    pub(crate) fn add(&mut self, took: Duration) {
        self.0.push(took);
    }

    /// Milliseconds at some quantiles.
    pub(crate) fn line(mut self) -> Value {
        self.0.sort();
        let quantile_ms = |part: f64| {
            let index = ((self.0.len() as f64 - 1.0) * part).round() as usize;
            self.0.get(index).map_or(0.0, Duration::as_secs_f64) * 1e3
        };
        json!({
            "count": self.0.len(),
            "p50_ms": quantile_ms(0.5),
            "p90_ms": quantile_ms(0.9),
            "p99_ms": quantile_ms(0.99),
            "max_ms": quantile_ms(1.0),
        })
    }
}
