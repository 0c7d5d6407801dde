//! The terms of a loss over sequences with targets.

use evenkeel_objective::{BalancedResponse, SummedLoss, SummedStats, SummedTokens, balance, summed_loss};

use super::{TargetLoss, TargetSequence};
use crate::error::{LearnerError, Result};
use crate::trainer::{SequenceLoss, TokenGradient, TokenScores};

/// The loss of one sequence, whose factors are multiplied by `factor`; its gradient is written to `grad`.
pub(super) fn term(
    loss: TargetLoss,
    sequence: &TargetSequence,
    factor: f64,
    logp: &[f32],
    grad: &mut [f32],
) -> Result<SummedStats, evenkeel_objective::Error> {
    let scaled: Vec<f32>;
    let factors = if factor == 1.0 {
        &sequence.factors
    } else {
        scaled = sequence.factors.iter().map(|&x| (f64::from(x) * factor) as f32).collect();
        &scaled
    };
    summed_loss(loss.loss, loss.bounds, &SummedTokens { logp, sampler_logp: &sequence.sampler_logp, factors }, grad)
}

/// The factor of each sequence under `balanced`.
///
/// # Errors
/// A sequence without a group, or with several advantages.
pub(super) fn balanced(data: &[TargetSequence]) -> Result<Vec<f64>> {
    let responses = data.iter().enumerate().map(|(number, sequence)| {
        let group = sequence.group.ok_or_else(|| {
            let allowed = format!("a number with {}", SummedLoss::Balanced);
            LearnerError::input(format!("data[{number}].group"), "absent", allowed)
        })?;
        let mut trained = sequence.factors.iter().filter(|&&advantage| advantage != 0.0);
        let advantage = trained.next().copied().unwrap_or_default();
        if let Some(other) = trained.find(|&&other| other != advantage) {
            let allowed = format!("0 or {advantage}, the advantage of the response: a group balances responses");
            return Err(LearnerError::input(format!("data[{number}].advantages"), other, allowed));
        }
        let tokens = sequence.factors.iter().filter(|&&advantage| advantage != 0.0).count();
        Ok(BalancedResponse { group, advantage: advantage.into(), tokens })
    });
    let responses = responses.collect::<Result<Vec<_>>>()?;
    balance(&responses).map_err(LearnerError::Objective)
}

/// A loss over sequences with targets.
pub(super) struct LossOfTargets<'a> {
    pub(super) loss: TargetLoss,
    pub(super) data: &'a [TargetSequence],
    /// What the factors of each are multiplied by.
    pub(super) factors: &'a [f64],
}

impl SequenceLoss for LossOfTargets<'_> {
    type Stats = SummedStats;

    fn sequence(
        &self,
        index: usize,
        scores: TokenScores<'_>,
        gradient: TokenGradient<'_>,
    ) -> Result<SummedStats, evenkeel_objective::Error> {
        term(self.loss, &self.data[index], self.factors[index], scores.logp, gradient.logp)
    }
}
