//! A lock-free histogram.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts by upper bound, and the sum of all values.
pub(super) struct Histogram {
    bounds: &'static [f64],
    /// One for each bound, and one for values above the last.
    counts: Vec<AtomicU64>,
    /// Bits of an f64.
    sum: AtomicU64,
}

impl Histogram {
    pub(super) fn new(bounds: &'static [f64]) -> Self {
        Self { bounds, counts: (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect(), sum: AtomicU64::new(0) }
    }

    pub(super) fn record(&self, value: f64) {
        let at = self.bounds.partition_point(|&bound| bound < value);
        self.counts[at].fetch_add(1, Ordering::Relaxed);
        let add = |bits: u64| Some((f64::from_bits(bits) + value).to_bits());
        // The closure never returns `None`, so that this always succeeds.
        let _ = self.sum.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }

    /// In Prometheus's text format; `labels` are those of the engine.
    pub(super) fn render(&self, name: &str, labels: &str, out: &mut String) {
        let mut below = 0;
        for (at, count) in self.counts.iter().enumerate() {
            below += count.load(Ordering::Relaxed);
            let bound = self.bounds.get(at).map_or("+Inf".to_owned(), |bound| format!("{bound:?}"));
            // Writing to a string cannot fail.
            let _ = writeln!(out, "{name}_bucket{{{labels},le=\"{bound}\"}} {below}.0");
        }
        let sum = f64::from_bits(self.sum.load(Ordering::Relaxed));
        let _ = writeln!(out, "{name}_count{{{labels}}} {below}.0");
        let _ = writeln!(out, "{name}_sum{{{labels}}} {sum:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_counts_in_every_bucket_that_holds_it() {
        let histogram = Histogram::new(&[1.0, 2.5]);
        for value in [0.5, 1.0, 2.0, 9.0] {
            histogram.record(value);
        }
        let mut text = String::new();
        histogram.render("x", "a=\"b\"", &mut text);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "x_bucket{a=\"b\",le=\"1.0\"} 2.0",
                "x_bucket{a=\"b\",le=\"2.5\"} 3.0",
                "x_bucket{a=\"b\",le=\"+Inf\"} 4.0",
                "x_count{a=\"b\"} 4.0",
                "x_sum{a=\"b\"} 12.5",
            ]
        );
    }
}
