//! What a rule would have done with the groups of a step.

use evenkeel_objective::Aggregation;
use evenkeel_run::Rollout;
use serde::Serialize;

use crate::step::{ResponseReport, StepReport};

/// What an aggregation rule makes of the groups of a recorded step, before its first update.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RuleEffect {
    /// The aggregation rule whose effect this is.
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
    /// The samples that the learner got, in the order of the rollouts.
    pub samples: Vec<SampleEffect>,
}

/// What an aggregation rule makes of a sample.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SampleEffect {
    /// Number of its group's prompt in the data order.
    pub group: u64,
    /// Number of the sample in its group.
    pub sample: u32,
    /// Advantage, which is the same under every rule.
    pub advantage: f64,
    /// What each of its trainable tokens counts in the loss over the whole batch, normalizer included.
    pub weight: f64,
}

impl RuleEffect {
    /// The rules of a step that measured their gradients and those of their sides. `rollouts` begin with the samples of
    /// the step's groups.
    pub(super) fn of_step(report: &StepReport, rollouts: &[Rollout]) -> Vec<Self> {
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
            samples: SampleEffect::all(rollouts, report, &detail.weights),
        });
        effect.collect()
    }
}

impl SampleEffect {
    fn all(rollouts: &[Rollout], report: &StepReport, weights: &[f64]) -> Vec<Self> {
        let responses = report.response_reports.iter().zip(weights);
        let sample = |(rollout, (response, weight)): (&Rollout, (&ResponseReport, &f64))| Self {
            group: rollout.group,
            sample: rollout.sample,
            advantage: response.advantage,
            weight: *weight,
        };
        rollouts.iter().zip(responses).map(sample).collect()
    }
}
