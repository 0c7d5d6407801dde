//! A mean over seeds.

use evenkeel_statistics::{Confidence, Estimate, Interval, Sample};
use serde::{Deserialize, Serialize};

/// A mean over seeds with Student's interval of 95 %.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Mean {
    pub value: f64,
    /// Standard error of the mean; absent with one seed, and where the seeds do not differ.
    pub standard_error: Option<f64>,
    /// Student's interval; absent where the standard error is.
    pub interval: Option<Interval>,
    /// How many seeds it is over.
    pub seeds: usize,
}

impl Mean {
    pub(crate) fn of(sample: &Sample) -> Self {
        let Estimate { value, standard_error, units } = sample.mean();
        Self { value, standard_error, interval: sample.t_interval(Confidence::P95), seeds: units }
    }

    /// The mean of finite values. `None` without values.
    pub fn of_values(values: &[f64]) -> Option<Self> {
        Sample::new("values", values.to_vec()).ok().map(|sample| Self::of(&sample))
    }
}
