//! The studentised bootstrap: Student's interval without the normal distribution.
//!
//! Each resample gives `t* = (mean* - mean) / error*`, with the resample's own standard error. The quantiles
//! of t* take the place of those of Student's t: the interval is `mean - t*(0.975) · error` to `mean - t*(0.025) ·
//! error` (Efron and Tibshirani 1993, chapter 12.5). It follows the skewness of the values, which Student's interval
//! does not, and has right coverage to second order.

use evenkeel_errors::FieldError;

use crate::resampling::{Resampling, quantile};
use crate::{Confidence, Estimate, Interval, Sample};

/// Among fewer values a resample that has one value alone, and so no standard error, is not rare: of 3 every ninth, of
/// 4 every 64th.
const FEWEST: usize = 5;

impl Sample {
    /// The studentised interval of the mean. `None` where the values have no spread, or where enough resamples have
    /// none to make a limit infinite.
    ///
    /// # Errors
    /// Fewer than 5 values.
    pub fn studentised_interval(
        &self,
        confidence: Confidence,
        resampling: Resampling,
    ) -> Result<Option<Interval>, FieldError> {
        let count = self.values().len();
        FieldError::ensure(count >= FEWEST, "values", format!("{count} values"), format!("{FEWEST} or more"))?;
        let Estimate { value: mean, standard_error: Some(error), .. } = self.mean() else { return Ok(None) };
        let mut resample = vec![0.0; count];
        let ratios = resampling.sorted(|draws| {
            draws.fill(self.values(), &mut resample);
            self.ratio(&resample, mean)
        });
        let upper = confidence.upper();
        let low = mean - quantile(&ratios, upper) * error;
        let high = mean - quantile(&ratios, 1.0 - upper) * error;
        Ok((low.is_finite() && high.is_finite()).then_some(Interval { low, high }))
    }

    fn ratio(&self, resample: &[f64], mean: f64) -> f64 {
        let count = resample.len() as f64;
        let own = resample.iter().sum::<f64>() / count;
        let squares: f64 = resample.iter().map(|value| (value - own) * (value - own)).sum();
        let error = (squares / (count - 1.0) / count).sqrt();
        if self.is_spread(error) {
            (own - mean) / error
        } else if self.is_spread((own - mean).abs()) {
            f64::INFINITY.copysign(own - mean)
        } else {
            0.0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::references::{numbers, section};

    /// Limits for 5 values are compared with those of all 3,125 resamples, limits for more values with arch's. The
    /// limits are quantiles of random draws: they differ by hundredths of the interval.
    #[test]
    fn limits_are_those_of_all_resamples_and_of_arch() {
        let mut checked = 0;
        let resampling = Resampling::new(100_000, 3).unwrap();
        for case in section("paired").iter().filter(|case| case.get("studentised").is_some()) {
            let sample = Sample::differences(&numbers(&case["first"]), &numbers(&case["second"])).unwrap();
            let found = sample.studentised_interval(Confidence::P95, resampling).unwrap().unwrap();
            let known = numbers(&case["studentised"]);
            let width = known[1] - known[0];
            let off = ((found.low - known[0]) / width, (found.high - known[1]) / width);
            assert!(off.0.abs() < 0.03 && off.1.abs() < 0.03, "{}: {found:?} and not {known:?}", case["name"]);
            checked += 1;
        }
        assert_eq!(checked, 9);
    }

    #[test]
    fn few_values_are_refused_and_equal_ones_have_none() {
        let resampling = Resampling::new(999, 0).unwrap();
        let interval = |values: &[f64]| {
            Sample::new("x", values.to_vec()).unwrap().studentised_interval(Confidence::P95, resampling)
        };
        let error = interval(&[1.0, 2.0, 3.0, 4.0]).unwrap_err().to_string();
        assert_eq!(error, "values is 4 values, allowed: 5 or more");
        assert_eq!(interval(&[0.1; 8]), Ok(None));
    }

    #[test]
    fn mostly_equal_values_have_no_finite_interval() {
        // A resample without the one that differs has no spread: 0.875^8 of them, a third.
        let mut values = vec![0.0; 8];
        values[3] = 1.0;
        let sample = Sample::new("x", values).unwrap();
        let resampling = Resampling::new(999, 0).unwrap();
        assert_eq!(sample.studentised_interval(Confidence::P95, resampling), Ok(None));
    }
}
