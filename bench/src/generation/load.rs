//! The samples of a measurement, the same with and without the service.

use std::time::Duration;

use serde_json::{Value, json};

/// Samples of one prompt.
const GROUP: u64 = 16;
/// Ids in every vocabulary.
const IDS: u64 = 90;
const PROMPT_TOKENS: u64 = 8;

#[derive(Clone, Copy)]
pub(crate) struct Load {
    pub(crate) samples: u64,
    pub(crate) tokens: u32,
    pub(crate) in_flight: usize,
    /// Time that the engine takes for a sample, if known; it is subtracted from latencies.
    pub(crate) delay_ms: u64,
}

impl Load {
    /// Time that an engine with this delay takes for a sample: between 80 % and 120 % of it, so that samples do not all
    /// end at once.
    pub(crate) fn delay(delay_ms: u64, seed: u64) -> Duration {
        let part = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54;
        Duration::from_micros(delay_ms * 800 + delay_ms * 400 * part / 1024)
    }

    /// The latency of a sample without the engine's own time. `None` for the first ones, which wait for connections.
    pub(crate) fn latency(&self, sample: u64, took: Duration) -> Option<Duration> {
        (sample >= self.in_flight as u64).then(|| took.saturating_sub(Self::delay(self.delay_ms, sample)))
    }

    /// The group of a sample.
    pub(crate) fn group(sample: u64) -> u64 {
        sample / GROUP
    }

    /// The prompt of a group.
    pub(crate) fn prompt(group: u64) -> Vec<u32> {
        let id = |place| 4 + (group * 31 + place * 7 + group * place) % IDS;
        (0..PROMPT_TOKENS).map(|place| id(place) as u32).collect()
    }
}

/// The result of a measurement.
pub(crate) fn line(load: Load, took: Duration, tokens: u64, mut latencies: Vec<Duration>) -> Value {
    latencies.sort();
    let quantile_ms = |part: f64| {
        let index = ((latencies.len() as f64 - 1.0) * part) as usize;
        latencies.get(index).map_or(0.0, Duration::as_secs_f64) * 1e3
    };
    json!({
        "seconds": took.as_secs_f64(),
        "samples_per_second": load.samples as f64 / took.as_secs_f64(),
        "tokens": tokens,
        "p50_ms": quantile_ms(0.5),
        "p99_ms": quantile_ms(0.99),
    })
}
