//! How a bootstrap draws.

use evenkeel_errors::FieldError;
use evenkeel_seeds::{ChaCha12Rng, RngCore, Stream};

/// The fewest resamples of an interval.
const FEWEST: usize = 199;
/// The most: far more than change a digit.
const MOST: usize = 10_000_000;

/// The number of resamples, and the seed that they are drawn from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resampling {
    resamples: usize,
    seed: u64,
}

impl Resampling {
    /// This many resamples.
    ///
    /// # Errors
    /// Too few for an interval of 95 %, or more than anybody needs.
    pub fn new(resamples: usize, seed: u64) -> Result<Self, FieldError> {
        let allowed = format!("{FEWEST} to {MOST}");
        FieldError::ensure((FEWEST..=MOST).contains(&resamples), "resamples", resamples, allowed)?;
        Ok(Self { resamples, seed })
    }

    /// The statistic of each resample, ascending. The function draws the resample itself.
    pub(crate) fn sorted(self, mut statistic: impl FnMut(&mut Draws) -> f64) -> Vec<f64> {
        let mut draws = Draws(evenkeel_seeds::rng(self.seed, Stream::Bootstrap));
        let mut statistics: Vec<f64> = (0..self.resamples).map(|_| statistic(&mut draws)).collect();
        statistics.sort_unstable_by(f64::total_cmp);
        statistics
    }
}

/// The random numbers of a bootstrap.
pub(crate) struct Draws(ChaCha12Rng);

impl Draws {
    /// Fills `resample` with values drawn with replacement.
    pub(crate) fn fill(&mut self, values: &[f64], resample: &mut [f64]) {
        for drawn in resample {
            // A choice among 2^32 equally likely numbers; the share of one index is off by less than a billionth.
            *drawn = values[((u64::from(self.0.next_u32()) * values.len() as u64) >> 32) as usize];
        }
    }
}

/// The quantile of ascending values at position `probability · (count + 1)`, between neighbours by linear
/// interpolation.
pub(crate) fn quantile(ascending: &[f64], probability: f64) -> f64 {
    let position = (probability * (ascending.len() + 1) as f64 - 1.0).clamp(0.0, (ascending.len() - 1) as f64);
    let below = ascending[position.floor() as usize];
    let above = ascending[position.ceil() as usize];
    // Two infinities have no difference.
    if below == above { below } else { below + position.fract() * (above - below) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_at_the_order_statistics() {
        let values: Vec<f64> = (1..=99).map(f64::from).collect();
        assert!((quantile(&values, 0.025) - 2.5).abs() < 1e-12);
        assert!((quantile(&values, 0.5) - 50.0).abs() < 1e-12);
        assert_eq!((quantile(&values, 0.001), quantile(&values, 0.999)), (1.0, 99.0));
        assert_eq!(quantile(&[f64::NEG_INFINITY, f64::NEG_INFINITY, 0.0], 0.4), f64::NEG_INFINITY);
    }

    #[test]
    fn every_value_is_drawn_as_often() {
        let values = [0.0, 1.0, 2.0, 3.0, 4.0];
        let mut counts = [0_f64; 5];
        let mut resample = [0.0; 5];
        let resampling = Resampling::new(20_000, 1).unwrap();
        resampling.sorted(|draws| {
            draws.fill(&values, &mut resample);
            resample.iter().for_each(|value| counts[*value as usize] += 1.0);
            0.0
        });
        // Chi-squared with 4 degrees of freedom: above 23.5 once in 10,000 streams, and this one is fixed.
        let chi: f64 = counts.iter().map(|count| (count - 20_000.0).powi(2) / 20_000.0).sum();
        assert!(chi < 23.5, "{counts:?}");
    }

    #[test]
    fn too_few_resamples_are_refused() {
        let error = Resampling::new(100, 0).unwrap_err().to_string();
        assert_eq!(error, "resamples is 100, allowed: 199 to 10000000");
    }
}
