//! The coefficients of a pass over sequences with targets.

use std::sync::{Mutex, PoisonError};

use evenkeel_model::{BoxError, Coefficients, Packed, Scores, TokenLoss};
use evenkeel_objective::{BalancedResponse, SummedLoss, SummedStats, SummedTokens, balance, summed_loss};

use super::{Accumulated, TargetLoss, TargetSequence};
use crate::error::{LearnerError, Result};
use crate::micro_batch::MicroBatches;

/// The loss of one sequence, whose factors are multiplied by `factor`; its gradient is written to `grad`.
pub(super) fn term(
    loss: TargetLoss,
    sequence: &TargetSequence,
    factor: f64,
    logp: &[f32],
    grad: &mut [f32],
) -> Result<SummedStats, evenkeel_objective::Error> {
    let scaled: Vec<f32>;
    let factors = match factor == 1.0 {
        true => &sequence.factors,
        false => {
            scaled = sequence.factors.iter().map(|&x| (f64::from(x) * factor) as f32).collect();
            &scaled
        }
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

/// A loss over packed sequences, which keeps their log-probabilities.
pub(super) struct TargetLossPass<'a> {
    loss: TargetLoss,
    data: &'a [TargetSequence],
    factors: &'a [f64],
    batches: &'a MicroBatches,
    /// Of each sequence, in their order, so that sums do not depend on threads.
    results: Mutex<Vec<(Vec<f32>, SummedStats)>>,
}

impl<'a> TargetLossPass<'a> {
    pub(super) fn new(
        loss: TargetLoss,
        data: &'a [TargetSequence],
        factors: &'a [f64],
        batches: &'a MicroBatches,
    ) -> Self {
        let results = Mutex::new(vec![(Vec::new(), SummedStats::default()); data.len()]);
        Self { loss, data, factors, batches, results }
    }

    pub(super) fn into_results(self) -> Accumulated {
        let results = self.results.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut stats = SummedStats::default();
        results.iter().for_each(|(_, of_sequence)| stats.add(of_sequence));
        Accumulated { logp: results.into_iter().map(|(logp, _)| logp).collect(), stats }
    }
}

impl TokenLoss for TargetLossPass<'_> {
    fn coefficients(&self, index: usize, batch: &Packed, scores: &Scores) -> Result<Coefficients, BoxError> {
        let count = scores.logp.len();
        let mut out = Coefficients { logp: vec![0.0; count], entropy: vec![0.0; count] };
        let mut done = Vec::new();
        for (number, &sequence) in self.batches.members(index).iter().enumerate() {
            let range = batch.scored(number);
            let logp = &scores.logp[range.clone()];
            let stats = term(self.loss, &self.data[sequence], self.factors[sequence], logp, &mut out.logp[range])?;
            done.push((sequence, logp.to_vec(), stats));
        }
        let mut results = self.results.lock().unwrap_or_else(PoisonError::into_inner);
        for (sequence, logp, stats) in done {
            results[sequence] = (logp, stats);
        }
        Ok(out)
    }
}
