//! Intervals, and the settings with which they are computed.

use evenkeel_errors::FieldError;

/// A confidence interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Its lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

impl Interval {
    /// Whether a value lies in it, ends included.
    pub fn contains(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }
}

/// How intervals and tests are computed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// Share of repetitions of the whole experiment in which an interval contains what it estimates, between 0.5 and 1. A family of tests
    /// errs at most as often as one interval: with probability 1 - `confidence`.
    pub confidence: f64,
    /// How often a bootstrap draws. One less than a multiple of 1000 makes the usual percentiles draws (Davison and Hinkley 1997, Bootstrap Methods and their Application).
    pub resamples: usize,
    /// Signs that are drawn where a sign-flip test has too many pairs to try all.
    pub sign_draws: usize,
    /// Seed of all draws: the same seed gives the same bits.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { confidence: 0.95, resamples: 9_999, sign_draws: 99_999, seed: 0 }
    }
}

impl Settings {
    /// The probability outside of an interval on either side.
    pub(crate) fn tail(&self) -> f64 {
        self.significance() / 2.0
    }

    /// The probability outside of an interval.
    pub(crate) fn significance(&self) -> f64 {
        1.0 - self.confidence
    }

    /// # Errors
    /// The first setting out of range.
    pub(crate) fn validate(&self) -> Result<(), FieldError> {
        let is_share = self.confidence >= 0.5 && self.confidence < 1.0;
        FieldError::ensure(is_share, "confidence", self.confidence, "at least 0.5, less than 1")?;
        let counts = 99..=10_000_000;
        let allowed = "99 to 10000000";
        FieldError::ensure(counts.contains(&self.resamples), "resamples", self.resamples, allowed)?;
        FieldError::ensure(counts.contains(&self.sign_draws), "sign_draws", self.sign_draws, allowed)
    }
}

/// Every value must be a number that can be computed with.
///
/// # Errors
/// The first that is not, as `field[index]`.
pub(crate) fn ensure_finite(field: &str, values: &[f64]) -> Result<(), FieldError> {
    match values.iter().enumerate().find(|(_, value)| !value.is_finite()) {
        None => Ok(()),
        Some((index, value)) => Err(FieldError::new(format!("{field}[{index}]"), value, "a finite number")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_out_of_range_are_refused_by_name() {
        let refused = |settings: Settings| settings.validate().unwrap_err().to_string();
        let defaults = Settings::default();
        assert_eq!(
            refused(Settings { confidence: 1.0, ..defaults }),
            "confidence is 1, allowed: at least 0.5, less than 1"
        );
        assert_eq!(refused(Settings { resamples: 10, ..defaults }), "resamples is 10, allowed: 99 to 10000000");
        assert_eq!(refused(Settings { sign_draws: 0, ..defaults }), "sign_draws is 0, allowed: 99 to 10000000");
        assert!(refused(Settings { confidence: f64::NAN, ..defaults }).starts_with("confidence is NaN"));
        assert_eq!(defaults.validate(), Ok(()));
    }
}
