//! The policy-gradient loss late in a run: where it lies, and how far it swings.
//!
//! Before the first update of a batch it follows from the advantages and the rule alone; with several updates a batch
//! it is a finding. Rules differ in scale: signs can be compared, and the swing with the mean.

use serde::{Deserialize, Serialize};

use crate::mean::Mean;
use crate::outcome::RunValues;
use crate::training::Training;

/// The heading of its tables.
pub(crate) const LATE_LOSS: &str = "Policy-gradient loss over the second half of the steps";

/// The loss of an arm over the second half of its steps.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LateLoss {
    /// Mean of the loss over the second half of the steps, then over seeds.
    pub mean: Mean,
    /// Deviation of the loss over the second half of the steps, as a mean over seeds.
    pub deviation: Mean,
}

impl LateLoss {
    /// The late loss of an arm's runs; `None` where one has no loss.
    pub(crate) fn of(outcomes: &[RunValues]) -> Option<Self> {
        let losses = |outcome: &RunValues| -> Option<Vec<f64>> {
            Some(outcome.training.get(&Training::Loss)?.points().iter().map(|(_, loss)| *loss).collect())
        };
        let late: Vec<(f64, f64)> = outcomes.iter().map(|outcome| late(&losses(outcome)?)).collect::<Option<_>>()?;
        let (means, deviations): (Vec<f64>, Vec<f64>) = late.into_iter().unzip();
        Some(Self { mean: Mean::of_values(&means)?, deviation: Mean::of_values(&deviations)? })
    }

    /// Mean and deviation as tables show them.
    pub(crate) fn cells(&self) -> [String; 2] {
        [shown(&self.mean), shown(&self.deviation)]
    }
}

/// Mean and deviation over the second half.
fn late(losses: &[f64]) -> Option<(f64, f64)> {
    let half = &losses[losses.len() / 2..];
    let count = half.len() as f64;
    let mean = half.iter().sum::<f64>() / count;
    let variance = half.iter().map(|loss| (loss - mean).powi(2)).sum::<f64>() / count;
    (!half.is_empty()).then(|| (mean, variance.sqrt()))
}

fn shown(mean: &Mean) -> String {
    let half = mean.interval.map(|interval| format!(" ± {:.4}", (interval.high - interval.low) / 2.0));
    // No "-0.0000".
    let value = (mean.value * 1e4).round() / 1e4 + 0.0;
    format!("{value:.4}{}", half.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loss_of_a_run_is_that_of_its_second_half() {
        assert_eq!(late(&[9.0, 9.0, 1.0, 3.0]), Some((2.0, 1.0)));
        assert_eq!(late(&[5.0]), Some((5.0, 0.0)));
        assert_eq!(late(&[]), None);
    }

    #[test]
    fn a_mean_over_seeds_has_its_interval() {
        let cell = |values: &[f64]| shown(&Mean::of_values(values).unwrap());
        assert_eq!([cell(&[1.0]), cell(&[-0.00001])], ["1.0000", "0.0000"]);
        // Student's quantile for one degree of freedom is 12.7062.
        assert_eq!(cell(&[1.0, 3.0]), "2.0000 ± 12.7062");
    }
}
