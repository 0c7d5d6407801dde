//! GDPO, arXiv 2601.05242: several rewards, each normalised within its group before they are added. Added first,
//! rewards that differ may cancel to equal sums, and one of a larger scale drowns the others.
//!
//! A = sum over rewards k of w_k (r_k - mean_k) / (deviation_k + 1e-6), mean and sample deviation over the valid
//! responses of the group that have that reward, then over the deviation of A in the mini-batch (+ 1e-6). Each sum over
//! a group is 0, and so is the mean of the mini-batch, so that this last step is one factor for all: see
//! [`MiniBatchCounts::policy_scale`](crate::MiniBatchCounts::policy_scale).

use crate::error::{Error, validate_length};
use crate::{Advantage, advantages};

/// Added to the deviation of a mini-batch.
const EPSILON: f64 = 1e-6;

/// One of several rewards of a group.
#[derive(Debug, Clone, PartialEq)]
pub struct RewardComponent {
    /// Weight of the component in the sum, w_k.
    pub weight: f64,
    /// One for each response, NaN where the response has none.
    pub values: Vec<f64>,
}

/// Writes the advantage of each response of one group, before the factor of the mini-batch. An invalid response gets 0;
/// its rewards are not read.
///
/// # Errors
/// Slices of different lengths; a weight that is not finite; a valid reward that is infinite or out of range.
pub fn component_advantages(components: &[RewardComponent], valid: &[bool], out: &mut [f64]) -> Result<(), Error> {
    validate_length("advantages", out.len(), "valid", valid.len())?;
    out.fill(0.0);
    let mut normalised = vec![0.0; out.len()];
    for RewardComponent { weight, values } in components {
        validate_length("reward component", values.len(), "valid", valid.len())?;
        if !weight.is_finite() {
            return Err(Error::refused("weight of a reward component", weight, "a finite number"));
        }
        let has: Vec<bool> = values.iter().zip(valid).map(|(value, valid)| *valid && !value.is_nan()).collect();
        if has.iter().filter(|has| **has).count() < 2 {
            // Nothing to compare one with.
            continue;
        }
        advantages(Advantage::GrpoSample, values, &has, &mut normalised)?;
        out.iter_mut().zip(&normalised).for_each(|(sum, part)| *sum += weight * part);
    }
    Ok(())
}

/// The factor of a mini-batch: 1 over the sample deviation of its advantages, whose mean is 0; 1 where there are none.
pub(crate) fn scale(responses: usize, squares: f64) -> f64 {
    if responses > 1 && squares > 0.0 { 1.0 / ((squares / (responses - 1) as f64).sqrt() + EPSILON) } else { 1.0 }
}
