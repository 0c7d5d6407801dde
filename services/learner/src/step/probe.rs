//! The gradient of every aggregation rule on one batch, before any update.
//!
//! A rule gives each response another weight, and with it the gradient another length and direction. The passes are
//! those of an update of the whole batch, one rule after the other; their gradients are measured and discarded, so that
//! weights, moments and the updates that follow have the bits that they would have had.

use std::time::Instant;

use candle_core::{Device, Tensor};
use evenkeel_model::kernels::portable::{products_of, squares_of};
use evenkeel_objective::{Aggregation, MiniBatchCounts, Settings, group_weights};

use super::batch::{StepPhase, StepProgress};
use super::group_weights::{GroupWeights, PlannedResponse};
use super::passes::{factor_of, gradient_of, score_frozen};
use super::rule_gradients::{GradientProbe, RuleGradient};
use crate::error::Result;
use crate::trainer::Trainer;

/// Computes the gradients of these rules over groups with their responses. `observe` is called before each.
pub(super) fn probe(
    trainer: &mut Trainer,
    rules: &[Aggregation],
    groups: &[(GroupWeights, Vec<PlannedResponse>)],
    observe: &mut dyn FnMut(StepPhase, StepProgress),
) -> Result<GradientProbe> {
    let began = Instant::now();
    let objective = trainer.settings().objective.clone();
    let counts: MiniBatchCounts = groups.iter().map(|(group, _)| group.counts).collect();
    let mut responses: Vec<PlannedResponse> = groups.iter().flat_map(|(_, planned)| planned).cloned().collect();
    let mut gradients: Vec<Vec<Tensor>> = Vec::with_capacity(rules.len());
    let blocks = trainer.blocks(groups.len());
    score_frozen(trainer, &mut responses, |group| blocks.of(group))?;
    for rule in rules {
        observe(StepPhase::Accumulating, StepProgress::default());
        weigh(&objective, *rule, groups, &mut responses)?;
        let gradient =
            gradient_of(trainer, &responses, |group| blocks.of(group), factor_of(*rule, objective.advantage, counts))?;
        // Elsewhere there is seldom room for so many.
        gradients.push(gradient.iter().map(|tensor| tensor.to_device(&Device::Cpu)).collect::<Result<_, _>>()?);
    }
    // Of several ranks each has a part of the parameters.
    let norm = |gradient: &Vec<Tensor>| Ok(trainer.sum_over_parameters(&squares_of(gradient)?)?.sqrt());
    let norms = gradients.iter().map(norm).collect::<Result<Vec<f64>>>()?;
    let limit = trainer.settings().optimizer.max_grad_norm;
    let mut of_rules = Vec::with_capacity(rules.len());
    for (index, aggregation) in rules.iter().enumerate() {
        let norm = counts.policy_scale(*aggregation, objective.advantage) * norms[index];
        let cosine = |other: usize| -> Result<Option<f64>> {
            let of_both = norms[index] * norms[other];
            let products = products_of(&gradients[index], &gradients[other])?;
            let cosine = trainer.sum_over_parameters(&products)? / of_both;
            Ok(Some(cosine).filter(|cosine| cosine.is_finite()).map(|cosine| cosine.clamp(-1.0, 1.0)))
        };
        let cosines = (0..rules.len()).map(cosine).collect::<Result<_>>()?;
        let clipped = limit.map_or(norm, |limit| norm.min(limit));
        of_rules.push(RuleGradient { aggregation: *aggregation, norm, clipped, cosines });
    }
    Ok(GradientProbe { rules: of_rules, took: began.elapsed() })
}

/// Gives each response the group's part of its weight under a rule.
fn weigh(
    objective: &Settings,
    rule: Aggregation,
    groups: &[(GroupWeights, Vec<PlannedResponse>)],
    responses: &mut [PlannedResponse],
) -> Result<()> {
    let mut responses = responses.iter_mut();
    for (group, planned) in groups {
        let view = group.view();
        let mut weights = vec![0.0; view.advantages.len()];
        group_weights(rule, view.advantages, view.trainable_tokens, objective.constants(), &mut weights)?;
        for (_, response) in planned.iter().zip(responses.by_ref()) {
            response.reweigh(&weights);
        }
    }
    Ok(())
}
