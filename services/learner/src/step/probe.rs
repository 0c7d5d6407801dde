//! The gradient of every aggregation rule on one batch, before any update.
//!
//! A rule gives each response another weight, and with it the gradient another length and direction. The passes are
//! those of an update of the whole batch, one rule after the other; their gradients are measured and discarded, so that
//! weights, moments and the updates that follow have the bits that they would have had.

use std::collections::BTreeMap;
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

/// Weights of 0 for the other terms of the loss.
const POLICY_ALONE: TokenShares = TokenShares { of_group: 0.0, of_batch: 0.0 };

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

/// Passes the responses that all weighings give equal weights, with a weight of 1. `take` gets the gradient of their
/// policy term, in the host's memory, and their weight under each weighing without the mini-batch normalizer. The
/// gradient of a weighing is the sum of weight times gradient.
pub(super) fn gradients_by_weight(
    trainer: &mut Trainer,
    weighings: &[Weighing],
    groups: &HeldGroups,
    responses: &mut [PlannedResponse],
    mut take: impl FnMut(Vec<Tensor>, &[f64]) -> candle_core::Result<()>,
) -> Result<()> {
    let mut weights = vec![Vec::with_capacity(weighings.len()); responses.len()];
    for weighing in weighings {
        weigh(weighing, trainer.settings().reward_weight(), groups, responses)?;
        weights.iter_mut().zip(&*responses).for_each(|(weights, response)| weights.push(response.weight()));
    }
    let mut by_weight: BTreeMap<Vec<u64>, (Vec<f64>, Vec<PlannedResponse>)> = BTreeMap::new();
    for (response, weights) in responses.iter_mut().zip(weights).filter(|(response, _)| response.advantage() != 0.0) {
        response.reweigh(1.0);
        let bits = weights.iter().map(|weight| weight.to_bits()).collect();
        by_weight.entry(bits).or_insert_with(|| (weights, Vec::new())).1.push(response.clone());
    }
    let blocks = trainer.blocks(groups.len());
    for (weights, alike) in by_weight.values() {
        let (gradient, _) = gradient_of(trainer, alike, |group| blocks.of(group), POLICY_ALONE)?;
        take(in_host_memory(&gradient)?, weights)?;
    }
    Ok(())
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
        let (gradient, stats) = gradient_of(trainer, &of_side, |group| blocks.of(group), POLICY_ALONE)?;
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
            response.reweigh(weights[response.index()]);
        }
        all.extend(weights);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use evenkeel_objective::SideDial;

    use super::super::group_weights::weigh as weigh_group;
    use super::*;
    use crate::test_model::{config, groups, parameters};
    use crate::{Learner, Response, TrainingSettings};

    /// A group of six responses, two of which have the length and the side of another.
    fn held(settings: &TrainingSettings) -> Vec<(GroupWeights, Vec<PlannedResponse>)> {
        let mut group = groups().remove(0);
        let response = |&(tokens, reward): &(usize, f64)| Response {
            tokens: (0..tokens as u32).map(|token| 2 + (token * token + tokens as u32) % 9).collect(),
            mask: vec![true; tokens],
            rollout_logp: vec![-2.0; tokens],
            reward,
            ..group.responses[0].clone()
        };
        group.responses = [(1, 1.0), (7, 1.0), (4, 0.0), (4, 0.0), (7, 0.6), (9, 0.0)].iter().map(response).collect();
        vec![weigh_group(&settings.objective, settings, (false, true), 0, group).unwrap()]
    }

    #[test]
    fn the_gradient_of_a_rule_is_the_sum_of_weight_times_gradient() {
        let settings = TrainingSettings::default();
        let groups = held(&settings);
        let mut learner = Learner::new(config(), parameters(), settings).unwrap();
        let trainer = learner.trainer_mut();
        let constants = |sides| Constants { max_tokens: 1, vl_norm_alpha: 0.0, sides };
        let dial = |length_exponent| Some(SideDial { length_exponent, ratio: 1.0 });
        let mut rules = [0.0, 0.5, 1.0]
            .map(|exponent| Weighing { aggregation: Aggregation::Sides, constants: constants(dial(exponent)) })
            .to_vec();
        rules.push(Weighing { aggregation: Aggregation::SequenceSum, constants: constants(None) });
        let flat = |gradient: &[Tensor]| -> Vec<f64> {
            let values = gradient.iter().flat_map(|tensor| tensor.flatten_all().unwrap().to_vec1::<f32>().unwrap());
            values.map(f64::from).collect()
        };
        let mut responses = scored(trainer, &groups).unwrap();
        let mut sums: Vec<Vec<f64>> = vec![Vec::new(); rules.len()];
        let mut passes = 0;
        gradients_by_weight(trainer, &rules, &groups, &mut responses, |gradient, weights| {
            passes += 1;
            let gradient = flat(&gradient);
            for (sum, weight) in sums.iter_mut().zip(weights) {
                sum.resize(gradient.len(), 0.0);
                sum.iter_mut().zip(&gradient).for_each(|(sum, value)| *sum += weight * value);
            }
            Ok(())
        })
        .unwrap();
        assert_eq!(passes, 4, "a side has one for each of its lengths");
        let norm = |values: &[f64]| values.iter().map(|value| value * value).sum::<f64>().sqrt();
        for (rule, sum) in rules.iter().zip(sums) {
            let direct = flat(&gradient(trainer, rule, &groups, &mut responses).unwrap().0);
            let difference: Vec<f64> = direct.iter().zip(&sum).map(|(direct, sum)| direct - sum).collect();
            assert!(norm(&difference) < 1e-6 * norm(&direct) && direct.len() == sum.len(), "{rule:?}");
        }
    }
}
