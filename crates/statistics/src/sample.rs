//! A few independent values, such as one for each seed, and what their mean tells.

use evenkeel_errors::FieldError;

use crate::distribution::{student_quantile, student_two_sided};
use crate::{Confidence, Estimate, Interval};

/// What is smaller than this share of the values themselves is rounding and not spread.
const ROUNDING: f64 = 1e-12;

/// Independent values of one quantity, or differences of two quantities that come in pairs.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    values: Vec<f64>,
    /// The largest magnitude that entered.
    scale: f64,
}

impl Sample {
    /// One value for each unit; `field` names them in errors.
    ///
    /// # Errors
    /// No value, or one that is not finite.
    pub fn new(field: &str, values: Vec<f64>) -> Result<Self, FieldError> {
        FieldError::ensure(!values.is_empty(), field, "empty", "one value or more")?;
        ensure_finite(field, &values)?;
        let scale = largest(&values);
        Ok(Self { values, scale })
    }

    /// `first - second` of each pair.
    ///
    /// # Errors
    /// No pair, as many firsts as seconds are not there, or a value that is not finite.
    pub fn differences(first: &[f64], second: &[f64]) -> Result<Self, FieldError> {
        let allowed = || format!("as many as the first ({})", first.len());
        FieldError::ensure(first.len() == second.len(), "second", format!("{} values", second.len()), allowed())?;
        FieldError::ensure(!first.is_empty(), "first", "empty", "one value or more")?;
        ensure_finite("first", first)?;
        ensure_finite("second", second)?;
        let scale = largest(first).max(largest(second));
        let values = first.iter().zip(second).map(|(first, second)| first - second).collect();
        Ok(Self { values, scale })
    }

    /// The values, in the order in which they were given.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// The mean, with a standard error where there are two values that differ by more than rounding.
    pub fn mean(&self) -> Estimate {
        let mut mean = Estimate::of_mean(self.values.iter().copied()).expect("a sample has a value");
        mean.standard_error = mean.standard_error.filter(|error| self.is_spread(*error));
        mean
    }

    /// Student's interval of the mean: `mean ± t(n - 1) · standard error`. Exact for normal values. `None` where the
    /// standard error is unknown or zero.
    pub fn t_interval(&self, confidence: Confidence) -> Option<Interval> {
        let Estimate { value, standard_error, .. } = self.mean();
        Some(Interval::around(value, standard_error? * student_quantile(confidence.upper(), self.freedom())))
    }

    /// The two-sided p-value of the t test of the mean against 0: of the paired t test, where the values are
    /// differences.
    pub fn t_test(&self) -> Option<f64> {
        let Estimate { value, standard_error, .. } = self.mean();
        Some(student_two_sided(value / standard_error?, self.freedom()))
    }

    /// Whether a spread of the values, or of a resample of them, is more than rounding.
    pub(crate) fn is_spread(&self, spread: f64) -> bool {
        spread > ROUNDING * self.scale
    }

    /// By how much two sums of the values may differ and count as equal.
    pub(crate) fn tolerance(&self) -> f64 {
        ROUNDING * self.scale * self.values.len() as f64
    }

    fn freedom(&self) -> f64 {
        (self.values.len() - 1) as f64
    }
}

pub(crate) fn ensure_finite(field: &str, values: &[f64]) -> Result<(), FieldError> {
    match values.iter().position(|value| !value.is_finite()) {
        Some(at) => Err(FieldError::new(format!("{field}[{at}]"), values[at], "a finite number")),
        None => Ok(()),
    }
}

fn largest(values: &[f64]) -> f64 {
    values.iter().fold(0.0, |largest, value| value.abs().max(largest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::references::{numbers, section};

    #[test]
    fn intervals_and_p_values_are_those_of_scipy() {
        for case in section("paired") {
            let sample = Sample::differences(&numbers(&case["first"]), &numbers(&case["second"])).unwrap();
            let interval = sample.t_interval(Confidence::P95).unwrap();
            let found = [sample.mean().value, sample.mean().standard_error.unwrap(), interval.low, interval.high];
            let mut known = vec![case["mean"].as_f64().unwrap(), case["standard_error"].as_f64().unwrap()];
            known.extend(numbers(&case["interval"]));
            for (found, known) in found.iter().zip(&known) {
                assert!(
                    (found - known).abs() < 1e-9 * known.abs().max(1.0),
                    "{}: {found} and not {known}",
                    case["name"]
                );
            }
            let found = sample.t_test().unwrap();
            let known = case["p"].as_f64().unwrap();
            assert!((found / known - 1.0).abs() < 1e-7, "{}: {found} and not {known}", case["name"]);
        }
    }

    #[test]
    fn values_that_differ_by_rounding_alone_have_no_interval() {
        let differences = Sample::differences(&[0.3, 0.7, 0.4], &[0.1, 0.5, 0.2]).unwrap();
        assert!((differences.mean().value - 0.2).abs() < 1e-15);
        assert_eq!(differences.mean().standard_error, None);
        assert_eq!((differences.t_interval(Confidence::P95), differences.t_test()), (None, None));
        assert_eq!(Sample::new("accuracies", vec![0.5]).unwrap().t_interval(Confidence::P95), None);
    }

    #[test]
    fn what_is_no_number_or_no_pair_is_named() {
        let refused = [
            Sample::new("rewards", vec![]),
            Sample::new("rewards", vec![0.5, f64::NAN]),
            Sample::differences(&[0.5, 0.5], &[0.5]),
            Sample::differences(&[], &[]),
            Sample::differences(&[0.5], &[f64::INFINITY]),
        ];
        let texts = refused.map(|refused| refused.unwrap_err().to_string());
        assert_eq!(
            texts,
            [
                "rewards is empty, allowed: one value or more",
                "rewards[1] is NaN, allowed: a finite number",
                "second is 1 values, allowed: as many as the first (2)",
                "first is empty, allowed: one value or more",
                "second[0] is inf, allowed: a finite number",
            ]
        );
    }
}
