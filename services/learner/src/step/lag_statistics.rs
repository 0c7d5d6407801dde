//! How far the weights that a step begins with are from those that sampled its responses, by lag.

use evenkeel_objective::{MismatchByLag, ResponseTokens, Settings};

use super::group_weights::PlannedResponse;
use crate::error::Result;

/// Statistics of responses that have been through a pass, added in the order of the passes, so that sums have the same
/// bits in every run.
#[derive(Default)]
pub(super) struct LagStatistics {
    by_lag: MismatchByLag,
}

impl LagStatistics {
    /// Adds a response with the log-probabilities of its trainable tokens under the learner's weights.
    pub(super) fn add(&mut self, objective: &Settings, response: &PlannedResponse, logp: &[f32]) -> Result<()> {
        let mask = vec![true; logp.len()];
        let tokens = ResponseTokens { mask: &mask, logp, old_logp: logp, rollout_logp: Some(response.rollout_logp()) };
        Ok(self.by_lag.add(objective, &tokens, response.lags())?)
    }

    pub(super) fn finish(self) -> MismatchByLag {
        self.by_lag
    }
}
