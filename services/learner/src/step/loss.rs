//! From a micro-batch's scores to the coefficients that the model's backward takes.

use std::sync::Mutex;

use evenkeel_model::{Coefficients, Packed, Scores, TokenLoss};
use evenkeel_objective::{KlStats, PolicyStats, ResponseTokens, Settings, response_kl, response_loss};

use super::plan::Planned;

/// Sums over one response, without the step's scalar.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ResponseStats {
    pub(super) policy: PolicyStats,
    pub(super) kl: KlStats,
    pub(super) entropy_sum: f64,
    pub(super) entropy_loss: f64,
    /// The largest ratio exp(logp - old_logp) of the response's trainable tokens.
    pub(super) largest_ratio: f64,
    /// Sum over trainable tokens of abs(logp - rollout_logp): how far engine and learner are apart.
    pub(super) rollout_gap: f64,
}

/// The objective as a loss of the model.
pub(super) struct PolicyLoss<'a> {
    pub(super) settings: &'a Settings,
    /// Regularizer weights are multiplied by this: the quotient of their scalar and the policy's.
    pub(super) regularizer_factor: f64,
    pub(super) responses: &'a [Planned],
    /// The responses of each micro-batch, in its order.
    pub(super) cuts: &'a [Vec<usize>],
    /// One entry for each response, filled by whichever thread has it.
    pub(super) stats: &'a Mutex<Vec<ResponseStats>>,
}

impl TokenLoss for PolicyLoss<'_> {
    fn coefficients(&self, index: usize, batch: &Packed, scores: &Scores) -> Result<Coefficients, String> {
        let count = scores.logp.len();
        let mut out = Coefficients { logp: vec![0.0; count], entropy: vec![0.0; count] };
        let mut stats = Vec::with_capacity(self.cuts[index].len());
        for (sequence, &response) in self.cuts[index].iter().enumerate() {
            let range = batch.scored(sequence);
            let (logp, entropy) = (&scores.logp[range.clone()], &scores.entropy[range.clone()]);
            let grad = &mut out.logp[range.clone()];
            let of_one = self.response(&self.responses[response], logp, entropy, grad).map_err(|e| e.to_string())?;
            let slope = self.settings.entropy_slope(self.regularizer_weight(&self.responses[response]));
            out.entropy[range].fill(slope as f32);
            stats.push((response, of_one));
        }
        let mut all = self.stats.lock().map_err(|_| "a thread of this step panicked".to_owned())?;
        for (response, of_one) in stats {
            all[response] = of_one;
        }
        Ok(out)
    }
}

impl PolicyLoss<'_> {
    fn regularizer_weight(&self, planned: &Planned) -> f64 {
        planned.regularizer_weight * self.regularizer_factor
    }

    /// Only trainable tokens are scored, so every mask here is all true.
    fn response(
        &self,
        planned: &Planned,
        logp: &[f32],
        entropy: &[f32],
        grad: &mut [f32],
    ) -> Result<ResponseStats, evenkeel_objective::Error> {
        let mask = vec![true; logp.len()];
        let rollout = planned.at_scored(&planned.rollout_logp);
        let old = planned.old_logp.as_deref().unwrap_or(logp);
        let tokens = ResponseTokens { mask: &mask, logp, old_logp: old, rollout_logp: Some(&rollout) };
        let policy = response_loss(self.settings, planned.advantage, planned.weight, &tokens, grad)?;
        let kl = match &planned.reference_logp {
            Some(reference) => {
                let weight = self.regularizer_weight(planned);
                response_kl(self.settings, weight, &mask, logp, reference, grad)?
            }
            None => KlStats::default(),
        };
        let entropy_sum: f64 = entropy.iter().map(|&h| f64::from(h)).sum();
        let ratio = |(new, old): (&f32, &f32)| libm::exp(f64::from(*new) - f64::from(*old));
        let gap = |(new, old): (&f32, &f32)| (f64::from(*new) - f64::from(*old)).abs();
        Ok(ResponseStats {
            policy,
            kl,
            entropy_sum,
            entropy_loss: self.settings.entropy_slope(self.regularizer_weight(planned)) * entropy_sum,
            largest_ratio: logp.iter().zip(old).map(ratio).fold(0.0, f64::max),
            rollout_gap: logp.iter().zip(&rollout).map(gap).sum(),
        })
    }
}
