//! The objective as a loss over responses: from the scores of each to the coefficients of its backward pass.

use evenkeel_objective::{PolicyStats, ResponseTokens, Settings, TermStats, response_loss};

use super::group_weights::{Place, PlannedResponse};
use crate::settings::OldLogp;
use crate::terms::{LossTerms, TermTokens, TokenShares};
use crate::trainer::{SequenceLoss, TokenGradient, TokenScores};

/// Sums over one response, without the mini-batch normalizer.
#[derive(Clone, Debug, Default)]
pub(super) struct ResponseStats {
    /// Index of its group in the step, and of the response in the group.
    pub(super) place: Place,
    /// Sums over trainable tokens of logp, and of the ratio exp(logp - old_logp).
    pub(super) logp_sum: f64,
    pub(super) ratio_sum: f64,
    pub(super) policy: PolicyStats,
    /// Statistics of each further term of the loss.
    pub(super) terms: Vec<TermStats>,
    pub(super) entropy_sum: f64,
    pub(super) entropy_loss: f64,
    /// The largest ratio exp(logp - old_logp) of the response's trainable tokens.
    pub(super) largest_ratio: f64,
    /// Sum over trainable tokens of abs(logp - rollout_logp): the mismatch between engine and learner.
    pub(super) rollout_gap: f64,
}

impl ResponseStats {
    /// The sums over several responses, of a loss with this many further terms.
    pub(super) fn sum_of(responses: &[Self], terms: usize) -> Self {
        let mut sum = Self { terms: vec![TermStats::default(); terms], ..Self::default() };
        for response in responses {
            sum.policy.add(&response.policy);
            sum.terms.iter_mut().zip(&response.terms).for_each(|(sum, term)| sum.add(term));
            sum.entropy_sum += response.entropy_sum;
            sum.entropy_loss += response.entropy_loss;
            sum.largest_ratio = sum.largest_ratio.max(response.largest_ratio);
            sum.rollout_gap += response.rollout_gap;
        }
        sum
    }

    /// Whether the response's part of the loss is finite.
    pub(super) fn is_finite(&self) -> bool {
        self.loss().is_finite()
    }

    /// The whole loss: of the policy, of further terms and of the entropy.
    pub(super) fn loss(&self) -> f64 {
        let of_terms = self.terms.iter().fold(0.0, |sum, term| sum + term.loss);
        self.policy.loss + of_terms + self.entropy_loss
    }
}

/// The objective over the responses of one pass.
pub(super) struct PolicyLoss<'a> {
    pub(super) settings: &'a Settings,
    /// The log-probabilities that the ratio is taken against.
    pub(super) old_logp: OldLogp,
    /// Further terms of the loss.
    pub(super) terms: &'a LossTerms,
    /// What the shares of tokens in other terms are multiplied by.
    pub(super) factors: TokenShares,
    pub(super) responses: &'a [&'a PlannedResponse],
}

impl PolicyLoss<'_> {
    fn regularizer_weight(&self, planned: &PlannedResponse) -> f64 {
        planned.regularizer_weight() * self.factors.of_group
    }

    /// The loss of one response. Only trainable tokens are scored, so the mask is all true.
    fn response(
        &self,
        planned: &PlannedResponse,
        logp: &[f32],
        entropy: &[f32],
        grad: &mut [f32],
    ) -> Result<ResponseStats, evenkeel_objective::Error> {
        let mask = vec![true; logp.len()];
        let rollout_logp = planned.rollout_logp();
        let old_logp = match self.old_logp {
            OldLogp::Recompute | OldLogp::Proximal => planned.old_logp().unwrap_or(logp),
            OldLogp::Rollout => rollout_logp,
        };
        let tokens = ResponseTokens { mask: &mask, logp, old_logp, rollout_logp: Some(rollout_logp) };
        let policy = response_loss(self.settings, planned.advantage(), planned.weight(), &tokens, grad)?;
        let weight = self.regularizer_weight(planned);
        let shares = TokenShares { of_group: weight, ..self.factors };
        let of_policy = TermTokens { logp, old_logp, rollout_logp, other_logp: &[] };
        let terms = self.terms.response(shares, of_policy, planned.other_logp(), grad)?;
        let entropy_sum: f64 = entropy.iter().map(|&h| f64::from(h)).sum();
        let ratio = |(new, old): (&f32, &f32)| libm::exp(f64::from(*new) - f64::from(*old));
        let gap = |(new, old): (&f32, &f32)| (f64::from(*new) - f64::from(*old)).abs();
        let ratios = logp.iter().zip(old_logp).map(ratio);
        let (largest_ratio, ratio_sum) =
            ratios.fold((0.0, 0.0), |(largest, sum), ratio| (f64::max(largest, ratio), sum + ratio));
        Ok(ResponseStats {
            place: (planned.group(), planned.index()),
            logp_sum: logp.iter().map(|&logp| f64::from(logp)).sum(),
            ratio_sum,
            policy,
            terms,
            entropy_sum,
            entropy_loss: self.settings.entropy_slope(weight) * entropy_sum,
            largest_ratio,
            rollout_gap: logp.iter().zip(rollout_logp).map(gap).sum(),
        })
    }
}

impl SequenceLoss for PolicyLoss<'_> {
    type Stats = ResponseStats;

    fn sequence(
        &self,
        index: usize,
        scores: TokenScores<'_>,
        gradient: TokenGradient<'_>,
    ) -> Result<ResponseStats, evenkeel_objective::Error> {
        let planned = self.responses[index];
        let stats = self.response(planned, scores.logp, scores.entropy, gradient.logp)?;
        gradient.entropy.fill(self.settings.entropy_slope(self.regularizer_weight(planned)) as f32);
        Ok(stats)
    }
}
