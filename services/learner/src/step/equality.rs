//! Whether engines have the learner's log-probabilities, where both compute with the same arithmetic.

use super::group_weights::PlannedResponse;
use crate::error::{LearnerError, Result};

/// Compares what engines reported with what the learner has computed under the weights before the first update, bit by
/// bit. `logp`: of each response's trainable tokens.
///
/// # Errors
/// [`LearnerError::SampledOtherwise`] for the first response that differs.
pub(super) fn compare<'a>(
    responses: impl Iterator<Item = &'a PlannedResponse>,
    logp: impl Iterator<Item = &'a [f32]>,
) -> Result<()> {
    for (response, logp) in responses.zip(logp).filter(|(response, _)| response.is_exact()) {
        let reported = response.rollout_logp();
        let differs = |(reported, computed): (&f32, &f32)| reported.to_bits() != computed.to_bits();
        let pairs = || reported.iter().zip(logp);
        let Some(token) = pairs().position(differs) else { continue };
        let (group, index) = response.place();
        return Err(LearnerError::SampledOtherwise {
            group,
            index,
            token,
            reported: reported[token],
            computed: logp[token],
            differing: pairs().filter(|pair| differs(*pair)).count(),
            tokens: logp.len(),
        });
    }
    Ok(())
}

/// Trainable tokens that went through the model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ComparedTokens {
    /// Of responses whose log-probabilities must be the learner's, and are.
    pub equal: usize,
    /// Of others, and of those that were not scored before the first update.
    pub uncompared: usize,
}

impl ComparedTokens {
    /// Adds a group's responses, which are scored before the first update or not.
    pub(super) fn add(&mut self, planned: &[PlannedResponse], is_scored: bool) {
        for response in planned {
            let tokens = response.rollout_logp().len();
            *(if is_scored && response.is_exact() { &mut self.equal } else { &mut self.uncompared }) += tokens;
        }
    }
}
