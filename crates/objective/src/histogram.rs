//! Quantiles of a ratio over any number of tokens in bounded memory.

use crate::log_ratio::{MAX_LOG_RATIO, saturate};

/// Bins in one nat: quantiles of a ratio are exact to within half a bin, 1 part in 2048.
const BINS_PER_NAT: f64 = 1024.0;

/// Logarithms of ratios, saturated at [`MAX_LOG_RATIO`], counted by bins of equal width. A ratio of 1 is the middle of
/// a bin, so that equal policies give exactly 1. Counts do not depend on the order of tokens.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct LogHistogram {
    /// Empty until the first token.
    counts: Vec<u64>,
    total: u64,
}

impl LogHistogram {
    /// Counts a ratio by its logarithm, a number.
    pub(crate) fn add(&mut self, log_ratio: f64) {
        if self.counts.is_empty() {
            self.counts = vec![0; 2 * half() + 1];
        }
        let bin = (saturate(log_ratio) * BINS_PER_NAT).round() as i64 + half() as i64;
        self.counts[bin as usize] += 1;
        self.total += 1;
    }

    /// The ratio that a share `q` of the tokens does not exceed, by nearest rank; absent without tokens.
    pub(crate) fn quantile(&self, q: f64) -> Option<f64> {
        let rank = ((q * self.total as f64).ceil() as u64).max(1);
        let mut below = 0;
        let bin = self.counts.iter().position(|count| {
            below += count;
            below >= rank
        })?;
        Some(libm::exp((bin as f64 - half() as f64) / BINS_PER_NAT))
    }
}

/// Bins on either side of the middle.
fn half() -> usize {
    (MAX_LOG_RATIO * BINS_PER_NAT) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_that_of_the_sorted_ratios_but_for_half_a_bin() {
        let mut histogram = LogHistogram::default();
        // Not in order, and none of them the middle of a bin.
        let mut logs: Vec<f64> = (0..1000).map(|i| f64::from(i * 617 % 1000 - 400) * 0.003_17).collect();
        logs.iter().for_each(|&log| histogram.add(log));
        logs.sort_by(f64::total_cmp);
        for (q, index) in [(0.01, 9), (0.5, 499), (0.99, 989), (1.0, 999)] {
            let found = histogram.quantile(q).unwrap();
            let wanted = logs[index].exp();
            assert!((found / wanted - 1.0).abs() < 1.0 / 2048.0 + 1e-6, "{q}: {found} for {wanted}");
        }
    }

    #[test]
    fn equal_policies_give_exactly_1_and_none_gives_nothing() {
        let mut histogram = LogHistogram::default();
        assert_eq!(histogram.quantile(0.5), None);
        [1e-5, -1e-5, 0.0].into_iter().for_each(|log| histogram.add(log));
        assert_eq!([0.01, 0.5, 0.99].map(|q| histogram.quantile(q)), [Some(1.0); 3]);
    }

    #[test]
    fn ratios_beyond_the_saturation_are_at_it() {
        let mut histogram = LogHistogram::default();
        [-900.0, 900.0].into_iter().for_each(|log| histogram.add(log));
        assert_eq!(histogram.quantile(0.01), Some(libm::exp(-MAX_LOG_RATIO)));
        assert_eq!(histogram.quantile(0.99), Some(libm::exp(MAX_LOG_RATIO)));
    }
}
