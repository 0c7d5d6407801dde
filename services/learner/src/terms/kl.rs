//! The KL term: keeps the policy near the weights that training began with.

use std::sync::Arc;

use evenkeel_model::{ModelError, TrainableModel};
use evenkeel_objective::{Error, Settings, TermStats, response_kl};
use evenkeel_run::metric::{MetricName, table as metric};

use super::{InitialPolicy, LossTerm, TermTokens};

struct KlTerm(Settings);

/// The term, if its coefficient is set.
pub(crate) fn term(objective: &Settings) -> Option<Arc<dyn LossTerm>> {
    (objective.kl_coefficient != 0.0).then(|| Arc::new(KlTerm(objective.clone())) as Arc<dyn LossTerm>)
}

impl LossTerm for KlTerm {
    fn setting(&self) -> &'static str {
        "objective.kl_coefficient"
    }

    fn refers_to_initial_weights(&self) -> bool {
        true
    }

    fn network_bytes(&self, trained: u64) -> Result<u64, ModelError> {
        Ok(4 * trained)
    }

    fn open_network(&self, policy: &InitialPolicy<'_>) -> Result<Option<Box<dyn TrainableModel>>, ModelError> {
        policy.network(policy.config.clone(), policy.parameters.deep_copy()?).map(Some)
    }

    fn response(&self, weight: f64, tokens: TermTokens<'_>, gradient: &mut [f32]) -> Result<TermStats, Error> {
        let TermTokens { logp, other_logp, .. } = tokens;
        response_kl(&self.0, weight, &vec![true; logp.len()], logp, other_logp, gradient)
    }

    fn metrics(&self, updates: &[TermStats]) -> Vec<(MetricName, f64)> {
        let has_tokens = updates.iter().any(|update| update.tokens > 0);
        let loss = has_tokens.then(|| super::mean_loss(updates));
        loss.map(|loss| (metric::KL_LOSS.into(), loss)).into_iter().collect()
    }
}
