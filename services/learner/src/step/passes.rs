//! The passes of a step: scoring under the weights before its first update, gradients, updates.

use candle_core::Tensor;
use evenkeel_objective::{Aggregation, MiniBatchCounts};

use super::equality::{Difference, compare};
use super::group_weights::PlannedResponse;
use super::loss::{PolicyLoss, ResponseStats};
use super::report::UpdateStats;
use super::results_of_ranks::gather_stats;
use crate::blocks::Place;
use crate::error::Result;
use crate::gradient_sum::GradientSum;
use crate::optimizer::TrainingPhase;
use crate::terms::{LossTerm, TokenShares};
use crate::timeline::PassKind;
use crate::trainer::{Passed, Trainer, UpdateBy};

/// Scores responses of later updates: their old log-probabilities, which are those under the weights before the first
/// update, and those that terms of the loss compare with. Each of several ranks scores its own groups. Returns the first
/// response whose old log-probabilities are not the engine's, though they must be.
pub(super) fn score(trainer: &mut Trainer, responses: &mut [PlannedResponse]) -> Result<Option<Difference>> {
    let old = trainer.settings().old_logp.is_learners();
    let division = trainer.division();
    score_with(trainer, responses, old, |group| division.scores(group))
}

/// Forward and backward over responses of the first update; gradients stay summed in the trainer. `block`: the block of
/// each group. Each of several ranks takes its own blocks, and returns the sums of the responses in them.
///
/// The pass gives the old log-probabilities as well: no weight has changed, so every ratio is exactly 1. They are
/// compared with those of engines that compute as the learner does, and the first response that differs is returned;
/// with `keep` they are stored in the responses, for later updates.
pub(super) fn first_pass(
    trainer: &mut Trainer,
    responses: &mut [PlannedResponse],
    block: impl Fn(usize) -> usize,
    factors: TokenShares,
    keep: bool,
) -> Result<(Vec<ResponseStats>, Option<Difference>)> {
    score_frozen(trainer, responses, &block)?;
    let own = own_of(trainer, responses.iter(), &block);
    let compares = own.iter().any(|response| !response.comparisons().is_empty());
    let (stats, logp) = run(trainer, &own, &block, factors, keep || compares)?;
    let difference = compare(own.into_iter(), logp.iter().map(Vec::as_slice));
    if keep {
        let is_own = |response: &&mut PlannedResponse| trainer.is_own(block(response.group()));
        for (response, logp) in responses.iter_mut().filter(is_own).zip(logp) {
            response.set_old_logp(logp);
        }
    }
    Ok((stats, difference))
}

/// Applies what was accumulated, times the mini-batch normalizer, by one update. Where nothing was passed nothing was
/// accumulated, and the moments alone move the weights.
pub(super) fn update(trainer: &mut Trainer, stats: &[ResponseStats], counts: MiniBatchCounts) -> Result<UpdateStats> {
    let scale = scale(trainer, counts);
    let loss_is_finite = stats.iter().all(ResponseStats::is_finite);
    let by = UpdateBy { scale, loss_is_finite, ..UpdateBy::settings_of(trainer, TrainingPhase::Policy) };
    let mut sum = GradientSum::default();
    if !stats.is_empty() {
        trainer.close(&mut sum)?;
    }
    let report = trainer.apply(sum, &by)?;
    Ok(UpdateStats::of(stats, trainer.terms().len(), scale, report))
}

/// Scores responses under the networks of the loss's terms, before the first update; of several ranks each those of its
/// blocks.
pub(super) fn score_frozen(
    trainer: &mut Trainer,
    responses: &mut [PlannedResponse],
    block: impl Fn(usize) -> usize,
) -> Result<()> {
    let blocks = trainer.division().blocks(trainer.settings().compute.gradient_blocks);
    score_with(trainer, responses, false, |group| blocks.contains(&block(group))).map(drop)
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
/// taken out of the trainer: of several ranks the part of this one's parameters. `block`: of each group. Returns also
/// the sums of all responses.
pub(super) fn gradient_of(
    trainer: &mut Trainer,
    responses: &[PlannedResponse],
    block: impl Fn(usize) -> usize,
    factors: TokenShares,
) -> Result<(Vec<Tensor>, Vec<ResponseStats>)> {
    let own = own_of(trainer, responses.iter(), &block);
    let (stats, _) = run(trainer, &own, block, factors, false)?;
    let mut sum = GradientSum::default();
    if !responses.is_empty() {
        trainer.close(&mut sum)?;
    }
    Ok((trainer.gradient_of(sum)?, gather_stats(trainer, stats)?))
}

/// What everything that was accumulated is multiplied by once a mini-batch is complete: the normalizer of policy
/// weights, or of a teacher's term where nothing is learned from rewards, so that passes need not wait for the last
/// group.
pub(super) fn scale(trainer: &Trainer, counts: MiniBatchCounts) -> f64 {
    let settings = trainer.settings();
    match settings.reward_weight() {
        0.0 => counts.normalizer(Aggregation::BatchToken),
        _ => counts.policy_scale(settings.objective.aggregation, settings.objective.advantage),
    }
}

/// The normalizers of other terms divided by [`scale`].
pub(super) fn term_factors(trainer: &Trainer, counts: MiniBatchCounts) -> TokenShares {
    factors_for(counts, scale(trainer, counts))
}

/// The normalizers of other terms divided by what everything is multiplied by.
pub(super) fn factors_for(counts: MiniBatchCounts, scale: f64) -> TokenShares {
    let over = |rule| if scale == 0.0 { 1.0 } else { counts.normalizer(rule) / scale };
    TokenShares { of_group: over(Aggregation::Token), of_batch: over(Aggregation::BatchToken) }
}

/// `own`: which groups this rank scores.
fn score_with(
    trainer: &mut Trainer,
    responses: &mut [PlannedResponse],
    old: bool,
    own: impl Fn(usize) -> bool,
) -> Result<Option<Difference>> {
    let mut responses: Vec<_> = responses.iter_mut().filter(|response| own(response.group())).collect();
    if responses.is_empty() || (!old && trainer.terms().is_empty()) {
        return Ok(None);
    }
    let mut difference = None;
    let sequences: Vec<_> = responses.iter().map(|response| response.sequence()).collect();
    let batches = trainer.pack(&sequences)?;
    if old {
        let scores = trainer.score_old(&batches)?;
        let logp = scores.iter().map(|scores| scores.logp.as_slice());
        difference = compare(responses.iter().map(|response| &**response), logp);
        for (response, scores) in responses.iter_mut().zip(scores) {
            response.set_old_logp(scores.logp);
        }
    }
    let hinted = if trainer.terms().iter().any(LossTerm::reads_hints) {
        let sequences: Vec<_> = responses.iter().map(|response| response.hinted_sequence()).collect();
        Some(trainer.pack(&sequences)?)
    } else {
        None
    };
    let of_terms = trainer.score_frozen(&batches, hinted.as_ref())?.into_iter().map(Vec::into_iter);
    let mut of_terms: Vec<_> = of_terms.collect();
    for response in &mut responses {
        response.set_other_logp(of_terms.iter_mut().filter_map(Iterator::next).map(|scores| scores.logp).collect());
    }
    trainer.pass_was_of(PassKind::Scoring, responses.iter().map(|response| response.group()));
    Ok(difference)
}

/// Forward and backward over responses in the order of their groups, which for later updates have been scored. `block`:
/// of each group. Returns the sums of each response and, with `keep`, its log-probabilities.
pub(super) fn run(
    trainer: &mut Trainer,
    responses: &[&PlannedResponse],
    block: impl Fn(usize) -> usize,
    factors: TokenShares,
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
    let loss = PolicyLoss { settings: &objective, old_logp, terms: &terms, factors, responses };
    let Passed { stats, logp, .. } = trainer.accumulate(&sequences, &places, temperature, &loss, keep)?;
    trainer.pass_was_of(PassKind::Gradient, responses.iter().map(|response| response.group()));
    Ok((stats, logp))
}
