//! The objective as a loss for the model: from a micro-batch's scores to the coefficients of its backward pass.

use std::sync::{Mutex, PoisonError};

use evenkeel_model::{BoxError, Coefficients, Packed, Scores, TokenLoss};
use evenkeel_objective::{KlStats, PolicyStats, ResponseTokens, Settings, response_kl, response_loss};

use super::group_weights::{Place, PlannedResponse};
use crate::micro_batch::MicroBatches;
use crate::settings::OldLogp;

/// Sums over one response, without the mini-batch normalizer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ResponseStats {
    /// Index of its group in the step, and of the response in the group.
    pub(super) place: Place,
    /// Sums over trainable tokens of logp, and of the ratio exp(logp - old_logp).
    pub(super) logp_sum: f64,
    pub(super) ratio_sum: f64,
    pub(super) policy: PolicyStats,
    pub(super) kl: KlStats,
    pub(super) entropy_sum: f64,
    pub(super) entropy_loss: f64,
    /// The largest ratio exp(logp - old_logp) of the response's trainable tokens.
    pub(super) largest_ratio: f64,
    /// Sum over trainable tokens of abs(logp - rollout_logp): the mismatch between engine and learner.
    pub(super) rollout_gap: f64,
}

impl ResponseStats {
    /// Whether the response's part of the loss is finite.
    pub(super) fn is_finite(&self) -> bool {
        (self.policy.loss + self.kl.loss + self.entropy_loss).is_finite()
    }
}

/// What a pass gives for each response, in the order of the responses.
struct Results {
    stats: Vec<ResponseStats>,
    /// The log-probabilities of trainable tokens; empty if they are not kept.
    logp: Vec<Vec<f32>>,
}

/// The objective over the responses of one pass.
pub(super) struct PolicyLoss<'a> {
    settings: &'a Settings,
    /// The log-probabilities that the ratio is taken against.
    old_logp: OldLogp,
    /// Factor of regularizer weights: the ratio of their normalizer to the policy's.
    regularizer_factor: f64,
    responses: &'a [&'a PlannedResponse],
    batches: &'a MicroBatches,
    /// Set for each response by the thread that processes it.
    results: Mutex<Results>,
}

impl<'a> PolicyLoss<'a> {
    /// With `keep` the log-probabilities are among the results.
    pub(super) fn new(
        settings: &'a Settings,
        old_logp: OldLogp,
        regularizer_factor: f64,
        responses: &'a [&'a PlannedResponse],
        batches: &'a MicroBatches,
        keep: bool,
    ) -> Self {
        let logp = if keep { vec![Vec::new(); responses.len()] } else { Vec::new() };
        let results = Results { stats: vec![ResponseStats::default(); responses.len()], logp };
        Self { settings, old_logp, regularizer_factor, responses, batches, results: Mutex::new(results) }
    }

    /// The sums of each response and, if they are kept, its log-probabilities, in the order of the responses.
    pub(super) fn into_results(self) -> (Vec<ResponseStats>, Vec<Vec<f32>>) {
        let Results { stats, logp } = self.results.into_inner().unwrap_or_else(PoisonError::into_inner);
        (stats, logp)
    }

    fn regularizer_weight(&self, planned: &PlannedResponse) -> f64 {
        planned.regularizer_weight() * self.regularizer_factor
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
        let kl = match planned.reference_logp() {
            Some(reference) => response_kl(self.settings, weight, &mask, logp, reference, grad)?,
            None => KlStats::default(),
        };
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
            kl,
            entropy_sum,
            entropy_loss: self.settings.entropy_slope(weight) * entropy_sum,
            largest_ratio,
            rollout_gap: logp.iter().zip(rollout_logp).map(gap).sum(),
        })
    }
}

impl TokenLoss for PolicyLoss<'_> {
    fn coefficients(&self, index: usize, _: &Packed, scores: &Scores) -> Result<Coefficients, BoxError> {
        let count = scores.logp.len();
        let mut out = Coefficients { logp: vec![0.0; count], entropy: vec![0.0; count] };
        let members = self.batches.members(index);
        let mut stats = Vec::with_capacity(members.len());
        for (sequence, &response) in members.iter().enumerate() {
            let range = self.batches.scored(index, sequence);
            let planned = self.responses[response];
            let (logp, entropy) = (&scores.logp[range.clone()], &scores.entropy[range.clone()]);
            stats.push((response, self.response(planned, logp, entropy, &mut out.logp[range.clone()])?));
            let slope = self.settings.entropy_slope(self.regularizer_weight(planned));
            out.entropy[range].fill(slope as f32);
        }
        let mut results = self.results.lock().unwrap_or_else(PoisonError::into_inner);
        for (sequence, (response, of_response)) in stats.into_iter().enumerate() {
            results.stats[response] = of_response;
            if let Some(kept) = results.logp.get_mut(response) {
                *kept = scores.logp[self.batches.scored(index, sequence)].to_vec();
            }
        }
        Ok(out)
    }
}
