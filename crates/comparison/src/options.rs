//! What a comparison is asked for.

use std::collections::BTreeSet;

use evenkeel_errors::FieldError;
use evenkeel_statistics::Resampling;
use serde::{Deserialize, Serialize};

use crate::measure::Measure;

/// What a comparison is asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Options {
    /// The measure that conclusions are about, chosen before the runs. The last accuracy where it is absent, the last
    /// reward of runs without evaluations.
    pub primary: Option<Measure>,
    /// The reward to which [`Measure::StepsToReward`] counts.
    pub reward: Option<f64>,
    /// How far below another arm one may be and still count as no worse, in the units of the measure (accuracies and
    /// rewards: 0.01 is one point).
    pub margin: f64,
    /// The benchmarks that are held out of training data: they count in the average only where there is no other.
    pub held_out: BTreeSet<String>,
    /// Resamples of a bootstrap.
    pub resamples: usize,
    /// Seed of bootstraps and of random sign flips.
    pub seed: u64,
}

/// One point of accuracy: about the noise of the difference of two six-benchmark means of the paper's evaluations.
const MARGIN: f64 = 0.01;

impl Default for Options {
    fn default() -> Self {
        Self { primary: None, reward: None, margin: MARGIN, held_out: BTreeSet::new(), resamples: 9_999, seed: 0 }
    }
}

impl Options {
    /// How bootstraps draw.
    ///
    /// # Errors
    /// A reward that is not finite, or too few or too many resamples.
    pub(crate) fn validate(&self) -> Result<Resampling, FieldError> {
        let holds = self.reward.is_none_or(f64::is_finite);
        FieldError::ensure(holds, "options.reward", self.reward.unwrap_or_default(), "a finite number")?;
        let holds = self.margin.is_finite() && self.margin > 0.0;
        FieldError::ensure(holds, "options.margin", self.margin, "a finite number above 0")?;
        Resampling::new(self.resamples, self.seed).map_err(|error| error.within("options"))
    }
}
