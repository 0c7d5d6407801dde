//! The passes of a step: scoring under the weights before its first update, gradients, updates.

use candle_core::Tensor;
use evenkeel_objective::{Advantage, Aggregation, MiniBatchCounts};

use super::equality::compare;
use super::group_weights::PlannedResponse;
use super::loss::{PolicyLoss, ResponseStats};
use super::report::UpdateStats;
use crate::blocks::Place;
use crate::error::Result;
use crate::gradient_sum::GradientSum;
use crate::optimizer::TrainingPhase;
use crate::timeline::PassKind;
use crate::trainer::{Passed, Trainer, UpdateBy};

/// Scores responses of later updates: their old log-probabilities, which are those under the weights before the first
/// update, and those that terms of the loss compare with. Of several ranks each scores its groups.
pub(super) fn score(trainer: &mut Trainer, responses: &mut [PlannedResponse]) -> Result<()> {
    let old = trainer.settings().old_logp.is_learners();
    let division = trainer.division();
    score_with(trainer, responses, old, |group| division.scores(group))
}

/// Forward and backward over responses of the first update; gradients stay summed in the trainer. `block`: of each
/// group. Of several ranks each takes its blocks, and returns the sums of the responses in them.
///
/// The pass gives the old log-probabilities as well: no weight has changed, so every ratio is exactly 1. They are
/// compared with those of engines that compute as the learner does; with `keep` they are stored in the responses, for
/// later updates.
pub(super) fn first_pass(
    trainer: &mut Trainer,
    responses: &mut [PlannedResponse],
    block: impl Fn(usize) -> usize,
    regularizer_factor: f64,
    keep: bool,
) -> Result<Vec<ResponseStats>> {
    score_frozen(trainer, responses, &block)?;
    let own = own_of(trainer, responses.iter(), &block);
    let compares = own.iter().any(|response| response.is_exact());
    let (stats, logp) = run(trainer, &own, &block, regularizer_factor, keep || compares)?;
    compare(own.into_iter(), logp.iter().map(Vec::as_slice))?;
    if keep {
        let is_own = |response: &&mut PlannedResponse| trainer.is_own(block(response.group()));
        for (response, logp) in responses.iter_mut().filter(is_own).zip(logp) {
            response.set_old_logp(logp);
        }
    }
    Ok(stats)
}

/// Applies what was accumulated, times the mini-batch normalizer, by one update. Where nothing was passed nothing was
/// accumulated, and the moments alone move the weights.
pub(super) fn update(trainer: &mut Trainer, stats: &[ResponseStats], counts: MiniBatchCounts) -> Result<UpdateStats> {
    let objective = &trainer.settings().objective;
    let scale = counts.policy_scale(objective.aggregation, objective.advantage);
    let loss_is_finite = stats.iter().all(ResponseStats::is_finite);
    let by = UpdateBy { scale, loss_is_finite, ..UpdateBy::settings_of(trainer, TrainingPhase::Policy) };
    let mut sum = GradientSum::default();
    if !stats.is_empty() {
        trainer.close(&mut sum)?;
    }
    let report = trainer.apply(sum, &by)?;
    Ok(UpdateStats::of(stats, trainer.terms().len(), scale, report))
}

/// Scores responses under the networks of the loss's terms; of several ranks each those of its blocks.
pub(super) fn score_frozen(
    trainer: &mut Trainer,
    responses: &mut [PlannedResponse],
    block: impl Fn(usize) -> usize,
) -> Result<()> {
    let blocks = trainer.division().blocks(trainer.settings().compute.gradient_blocks);
    score_with(trainer, responses, false, |group| blocks.contains(&block(group)))
}

/// The responses that are in blocks of this rank.
pub(super) fn own_of<'a>(
    trainer: &Trainer,
    responses: impl Iterator<Item = &'a PlannedResponse>,
    block: impl Fn(usize) -> usize,
) -> Vec<&'a PlannedResponse> {
    responses.filter(|response| trainer.is_own(block(response.group()))).collect()
}

/// Forward and backward over the responses of a whole batch under the weights before the first update. The gradient is
/// taken out of the trainer: of several ranks the part of this one's parameters. `block`: of each group.
pub(super) fn gradient_of(
    trainer: &mut Trainer,
    responses: &[PlannedResponse],
    block: impl Fn(usize) -> usize,
    regularizer_factor: f64,
) -> Result<Vec<Tensor>> {
    let own = own_of(trainer, responses.iter(), &block);
    run(trainer, &own, block, regularizer_factor, false)?;
    let mut sum = GradientSum::default();
    if !responses.is_empty() {
        trainer.close(&mut sum)?;
    }
    trainer.gradient_of(sum)
}

/// The regularizer's mini-batch normalizer divided by the policy's.
pub(super) fn regularizer_factor(trainer: &Trainer, counts: MiniBatchCounts) -> f64 {
    let objective = &trainer.settings().objective;
    factor_of(objective.aggregation, objective.advantage, counts)
}

/// The regularizer's mini-batch normalizer divided by that of any rule.
pub(super) fn factor_of(aggregation: Aggregation, advantage: Advantage, counts: MiniBatchCounts) -> f64 {
    let policy = counts.policy_scale(aggregation, advantage);
    if policy == 0.0 { 1.0 } else { counts.normalizer(Aggregation::Token) / policy }
}

/// `own`: which groups this rank scores.
fn score_with(
    trainer: &mut Trainer,
    responses: &mut [PlannedResponse],
    old: bool,
    own: impl Fn(usize) -> bool,
) -> Result<()> {
    let mut responses: Vec<_> = responses.iter_mut().filter(|response| own(response.group())).collect();
    if responses.is_empty() || (!old && trainer.terms().is_empty()) {
        return Ok(());
    }
    let sequences: Vec<_> = responses.iter().map(|response| response.sequence()).collect();
    let batches = trainer.pack(&sequences)?;
    if old {
        let scores = trainer.score_old(&batches)?;
        compare(responses.iter().map(|response| &**response), scores.iter().map(|scores| scores.logp.as_slice()))?;
        for (response, scores) in responses.iter_mut().zip(scores) {
            response.set_old_logp(scores.logp);
        }
    }
    let of_terms = trainer.score_frozen(&batches)?.into_iter().map(Vec::into_iter);
    let mut of_terms: Vec<_> = of_terms.collect();
    for response in &mut responses {
        response.set_other_logp(of_terms.iter_mut().filter_map(Iterator::next).map(|scores| scores.logp).collect());
    }
    trainer.pass_was_of(PassKind::Scoring, responses.iter().map(|response| response.group()));
    Ok(())
}

/// Forward and backward over responses in the order of their groups, which for later updates have been scored. `block`:
/// of each group. Returns the sums of each response and, with `keep`, its log-probabilities.
pub(super) fn run(
    trainer: &mut Trainer,
    responses: &[&PlannedResponse],
    block: impl Fn(usize) -> usize,
    regularizer_factor: f64,
    keep: bool,
) -> Result<(Vec<ResponseStats>, Vec<Vec<f32>>)> {
    if responses.is_empty() {
        return Ok((Vec::new(), Vec::new()));
    }
    let sequences: Vec<_> = responses.iter().map(|response| response.sequence()).collect();
    let place = |group| Place { block: block(group), group };
    let places: Vec<_> = responses.iter().map(|response| place(response.group())).collect();
    let settings = trainer.settings();
    let objective = settings.objective.clone();
    let old_logp = settings.old_logp;
    let temperature = settings.temperature;
    let terms = trainer.terms().clone();
    let loss = PolicyLoss { settings: &objective, old_logp, terms: &terms, regularizer_factor, responses };
    let Passed { stats, logp, .. } = trainer.accumulate(&sequences, &places, temperature, &loss, keep)?;
    trainer.pass_was_of(PassKind::Gradient, responses.iter().map(|response| response.group()));
    Ok((stats, logp))
}
