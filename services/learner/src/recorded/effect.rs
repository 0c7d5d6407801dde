//! What a rule would have done with the groups of a step.

use evenkeel_objective::Aggregation;
use serde::Serialize;

use crate::step::StepReport;

/// What an aggregation rule makes of the groups of a recorded step, before its first update.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RuleEffect {
    /// The rule.
    pub rule: Aggregation,
    /// The exponent of `sides`; absent for other rules.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub length_exponent: Option<f64>,
    /// What multiplies the positive side under `sides`; absent for other rules.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub side_ratio: Option<f64>,
    /// Whether the run trained with it.
    pub recorded: bool,
    /// The whole loss over the batch.
    pub loss: f64,
    /// Norm of its gradient before clipping.
    pub gradient_norm: f64,
    /// Cosine to the gradient of the recorded rule; absent where either is 0.
    pub cosine: Option<f64>,
    /// Mass of the positive side: the sum of w abs(A) T over responses with A > 0.
    pub positive: Option<f64>,
    /// Mass of the negative side.
    pub negative: Option<f64>,
    /// Norm of the policy term's gradient over the positive side alone, before clipping.
    pub positive_gradient_norm: f64,
    /// Norm of the policy term's gradient over the negative side alone, before clipping.
    pub negative_gradient_norm: f64,
    /// Cosine between the gradients of the two sides; absent where either is 0.
    pub side_cosine: Option<f64>,
    /// Share of that mass in each quarter of the responses, from the shortest to the longest.
    pub share_by_length: Option<[f64; 4]>,
    /// Mean weight of a token in each quarter, relative to the rule's mean token.
    pub weight_by_length: Option<[f64; 4]>,
}

impl RuleEffect {
    /// The rules of a step that measured their gradients and those of their sides.
    pub(super) fn of_step(report: &StepReport) -> Vec<Self> {
        let Some(probe) = &report.probe else { return Vec::new() };
        // Further dials of the same rule come after the rules of the run.
        let recorded = probe.rules.iter().position(|rule| rule.aggregation == report.aggregation);
        let pairs = probe.rules.iter().zip(&probe.details).enumerate();
        let effect = pairs.map(|(index, (gradient, detail))| Self {
            rule: gradient.aggregation,
            length_exponent: detail.dial.map(|dial| dial.length_exponent),
            side_ratio: detail.dial.map(|dial| dial.ratio),
            recorded: recorded == Some(index),
            loss: gradient.loss,
            gradient_norm: gradient.norm,
            cosine: recorded.and_then(|at| gradient.cosines.get(at).copied().flatten()),
            positive: detail.pull.map(|pull| pull.positive),
            negative: detail.pull.map(|pull| pull.negative),
            positive_gradient_norm: detail.positive_norm,
            negative_gradient_norm: detail.negative_norm,
            side_cosine: detail.cosine,
            share_by_length: detail.by_length.map(|by_length| by_length.share),
            weight_by_length: detail.by_length.map(|by_length| by_length.weight),
        });
        effect.collect()
    }
}
