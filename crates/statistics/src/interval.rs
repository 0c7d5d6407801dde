//! Intervals and the confidence that they are made for.

use evenkeel_errors::FieldError;
use serde::{Deserialize, Serialize};

/// The share of repetitions of an experiment whose interval is to have the true value in it: between 0 and 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Confidence(f64);

impl Confidence {
    /// The usual 95 %.
    pub const P95: Self = Self(0.95);

    /// Any other.
    ///
    /// # Errors
    /// Not strictly between 0 and 1.
    pub fn new(confidence: f64) -> Result<Self, FieldError> {
        let holds = confidence > 0.0 && confidence < 1.0;
        FieldError::ensure(holds, "confidence", confidence, "above 0 and below 1")?;
        Ok(Self(confidence))
    }

    /// The probability below the upper end of a two-sided interval: 0.975 for 95 %.
    pub(crate) fn upper(self) -> f64 {
        0.5 + self.0 / 2.0
    }
}

/// A confidence interval, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Lower end, included in the interval.
    pub low: f64,
    /// Upper end, included in the interval.
    pub high: f64,
}

impl Interval {
    /// Whether a value lies outside.
    pub fn excludes(&self, value: f64) -> bool {
        value < self.low || value > self.high
    }

    /// `centre` with the same distance to either side.
    pub(crate) fn around(centre: f64, half: f64) -> Self {
        Self { low: centre - half, high: centre + half }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_belong_to_the_interval() {
        let interval = Interval::around(1.0, 1.0);
        assert_eq!([-0.1, 0.0, 2.0, 2.1].map(|value| interval.excludes(value)), [true, false, false, true]);
    }

    #[test]
    fn a_confidence_is_a_share() {
        for refused in [0.0, 1.0, 95.0, f64::NAN] {
            let error = Confidence::new(refused).unwrap_err().to_string();
            assert_eq!(error, format!("confidence is {refused}, allowed: above 0 and below 1"));
        }
        assert_eq!(Confidence::new(0.95).unwrap().upper(), Confidence::P95.upper());
    }
}
