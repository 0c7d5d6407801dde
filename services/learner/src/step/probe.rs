//! The gradient of every aggregation rule on one batch, before any update.
//!
//! A rule gives each response another weight, and with it the gradient another length and direction. The passes are
//! those of an update of the whole batch, one rule after the other; their gradients are measured and discarded, so that
//! weights, moments and the updates that follow have the bits that they would have had.

use std::time::Instant;

use candle_core::{Device, Tensor};
use evenkeel_model::kernels::portable::{products_of, squares_of};
use evenkeel_objective::{Aggregation, Constants, MiniBatchCounts, Quantities, group_weights};

use super::batch::{StepPhase, StepProgress};
use super::group_weights::{GroupWeights, PlannedResponse};
use super::loss::ResponseStats;
use super::passes::{factors_for, gradient_of, score_frozen};
use super::rule_gradients::{GradientProbe, RuleDetail, RuleGradient};
use crate::error::Result;
use crate::terms::TokenShares;
use crate::trainer::Trainer;

/// A rule with its numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Weighing {
    pub(super) aggregation: Aggregation,
    pub(super) constants: Constants,
}

/// The groups of a step that wait for their passes.
pub(super) type HeldGroups = [(GroupWeights, Vec<PlannedResponse>)];

/// Computes the gradient of each weighing over groups with their responses; with `by_side` also that of each side.
/// `observe` is called before each.
pub(super) fn probe(
    trainer: &mut Trainer,
    weighings: &[Weighing],
    by_side: bool,
    groups: &HeldGroups,
    observe: &mut dyn FnMut(StepPhase, StepProgress),
) -> Result<GradientProbe> {
    let began = Instant::now();
    let advantage = trainer.settings().objective.advantage;
    let counts: MiniBatchCounts = groups.iter().map(|(group, _)| group.counts).collect();
    let mut responses = scored(trainer, groups)?;
    let mut gradients = Vec::with_capacity(weighings.len());
    let mut details = Vec::new();
    for weighing in weighings {
        observe(StepPhase::Accumulating, StepProgress::default());
        let sides = if by_side { Some(sides(trainer, weighing, groups, &mut responses)?) } else { None };
        let whole = match &sides {
            // What has no advantage adds nothing then.
            Some(sides) if !trainer.is_regularized() => sides.sum()?,
            _ => gradient(trainer, weighing, groups, &mut responses)?,
        };
        gradients.push(whole);
        details.extend(sides.map(|sides| sides.detail));
    }
    // Of several ranks each has a part of the parameters.
    let norms = gradients.iter().map(|(gradient, _)| norm(trainer, gradient)).collect::<Result<Vec<f64>>>()?;
    let limit = trainer.settings().optimizer.max_grad_norm;
    let mut rules = Vec::with_capacity(weighings.len());
    for (index, Weighing { aggregation, .. }) in weighings.iter().enumerate() {
        let scale = counts.policy_scale(*aggregation, advantage);
        let (loss, norm) = (scale * gradients[index].1, scale * norms[index]);
        let to_other = |other: usize| {
            let norms = (norms[index], norms[other]);
            cosine(trainer, (&gradients[index].0, &gradients[other].0), norms)
        };
        let cosines = (0..weighings.len()).map(to_other).collect::<Result<_>>()?;
        let clipped = limit.map_or(norm, |limit| norm.min(limit));
        rules.push(RuleGradient { aggregation: *aggregation, loss, norm, clipped, cosines });
    }
    Ok(GradientProbe { rules, details, took: began.elapsed() })
}

/// The responses of these groups, with what further terms of the loss compare with.
pub(super) fn scored(trainer: &mut Trainer, groups: &HeldGroups) -> Result<Vec<PlannedResponse>> {
    let mut responses: Vec<PlannedResponse> = groups.iter().flat_map(|(_, planned)| planned).cloned().collect();
    let blocks = trainer.blocks(groups.len());
    score_frozen(trainer, &mut responses, |group| blocks.of(group))?;
    Ok(responses)
}

/// The gradient of each weighing: see [`gradient`].
pub(super) fn gradients(
    trainer: &mut Trainer,
    weighings: &[Weighing],
    groups: &HeldGroups,
    responses: &mut [PlannedResponse],
) -> Result<Vec<(Vec<Tensor>, f64)>> {
    weighings.iter().map(|weighing| gradient(trainer, weighing, groups, responses)).collect()
}

/// The gradient of a weighing, without the mini-batch normalizer, in the host's memory; and the loss.
fn gradient(
    trainer: &mut Trainer,
    weighing: &Weighing,
    groups: &HeldGroups,
    responses: &mut [PlannedResponse],
) -> Result<(Vec<Tensor>, f64)> {
    let advantage = trainer.settings().objective.advantage;
    let counts: MiniBatchCounts = groups.iter().map(|(group, _)| group.counts).collect();
    let blocks = trainer.blocks(groups.len());
    weigh(weighing, trainer.settings().reward_weight(), groups, responses)?;
    let factors = factors_for(counts, counts.policy_scale(weighing.aggregation, advantage));
    let (gradient, stats) = gradient_of(trainer, responses, |group| blocks.of(group), factors)?;
    Ok((in_host_memory(&gradient)?, ResponseStats::sum_of(&stats, trainer.terms().len()).loss()))
}

/// The policy term of a weighing, which other terms of the loss do not belong to, by the sides of its groups.
struct Sides {
    /// The gradients of the positive and the negative side, in the host's memory.
    gradients: [Vec<Tensor>; 2],
    loss: f64,
    detail: RuleDetail,
}

impl Sides {
    /// The gradient of both sides, and their loss.
    fn sum(&self) -> Result<(Vec<Tensor>, f64)> {
        let [positive, negative] = &self.gradients;
        let pairs = positive.iter().zip(negative);
        Ok((pairs.map(|(positive, negative)| positive + negative).collect::<Result<_, _>>()?, self.loss))
    }
}

fn sides(
    trainer: &mut Trainer,
    weighing: &Weighing,
    groups: &HeldGroups,
    responses: &mut [PlannedResponse],
) -> Result<Sides> {
    let advantage = trainer.settings().objective.advantage;
    let counts: MiniBatchCounts = groups.iter().map(|(group, _)| group.counts).collect();
    let views: Vec<_> = groups.iter().map(|(group, _)| group.view()).collect();
    let quantities = Quantities::of(&views, weighing.constants)?;
    let weights = weigh(weighing, trainer.settings().reward_weight(), groups, responses)?;
    let blocks = trainer.blocks(groups.len());
    let mut loss = 0.0;
    let mut side = |sign: f64| -> Result<(Vec<Tensor>, f64)> {
        let of_side: Vec<_> = responses.iter().filter(|response| response.advantage() * sign > 0.0).cloned().collect();
        // The other terms of the loss have a weight of 0.
        let none = TokenShares { of_group: 0.0, of_batch: 0.0 };
        let (gradient, stats) = gradient_of(trainer, &of_side, |group| blocks.of(group), none)?;
        loss += ResponseStats::sum_of(&stats, trainer.terms().len()).loss();
        let norm = norm(trainer, &gradient)?;
        Ok((in_host_memory(&gradient)?, norm))
    };
    let (positive, positive_norm) = side(1.0)?;
    let (negative, negative_norm) = side(-1.0)?;
    let scale = counts.policy_scale(weighing.aggregation, advantage);
    let aggregation = weighing.aggregation;
    let detail = RuleDetail {
        dial: weighing.constants.sides.filter(|_| aggregation == Aggregation::Sides),
        pull: quantities.pulls.get(&aggregation).copied(),
        by_length: quantities.by_length.get(&aggregation).copied(),
        positive_norm: scale * positive_norm,
        negative_norm: scale * negative_norm,
        cosine: cosine(trainer, (&positive, &negative), (positive_norm, negative_norm))?,
        weights: weights.into_iter().map(|weight| scale * weight).collect(),
    };
    Ok(Sides { gradients: [positive, negative], loss, detail })
}

/// Elsewhere there is seldom room for the gradients of several rules.
fn in_host_memory(gradient: &[Tensor]) -> Result<Vec<Tensor>> {
    Ok(gradient.iter().map(|tensor| tensor.to_device(&Device::Cpu)).collect::<Result<_, _>>()?)
}

fn norm(trainer: &Trainer, gradient: &[Tensor]) -> Result<f64> {
    Ok(trainer.sum_over_parameters(&squares_of(gradient)?)?.sqrt())
}

fn cosine(trainer: &Trainer, (one, other): (&[Tensor], &[Tensor]), norms: (f64, f64)) -> Result<Option<f64>> {
    let cosine = trainer.sum_over_parameters(&products_of(one, other)?)? / (norms.0 * norms.1);
    Ok(Some(cosine).filter(|cosine| cosine.is_finite()).map(|cosine| cosine.clamp(-1.0, 1.0)))
}

/// Gives each response the group's part of its weight. Returns those of all responses, in the order of the groups.
fn weigh(
    weighing: &Weighing,
    reward_weight: f64,
    groups: &HeldGroups,
    responses: &mut [PlannedResponse],
) -> Result<Vec<f64>> {
    let mut all = Vec::new();
    let mut responses = responses.iter_mut();
    for (group, planned) in groups {
        let view = group.view();
        let Weighing { aggregation, constants } = *weighing;
        let mut weights = vec![0.0; view.advantages.len()];
        group_weights(aggregation, view.advantages, view.trainable_tokens, constants, &mut weights)?;
        weights.iter_mut().for_each(|weight| *weight *= reward_weight);
        for (_, response) in planned.iter().zip(responses.by_ref()) {
            response.reweigh(&weights);
        }
        all.extend(weights);
    }
    Ok(all)
}
