//! The gradients of several aggregation rules on one batch.

use std::time::Duration;

use evenkeel_objective::{Aggregation, ByLength, Pull, SideDial};

/// The gradients of several rules on the same batch.
#[derive(Clone, Debug, PartialEq)]
pub struct GradientProbe {
    /// Each rule, in the order of [`Aggregation::ALL`]; then `sides` with each further dial that was asked for.
    pub rules: Vec<RuleGradient>,
    /// The sides of each rule, in the same order; empty unless they were asked for.
    pub details: Vec<RuleDetail>,
    /// How long the measurement took.
    pub took: Duration,
}

/// The gradient of one rule over the whole batch.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleGradient {
    /// Aggregation rule that the gradient is of.
    pub aggregation: Aggregation,
    /// The whole loss, KL and entropy terms included.
    pub loss: f64,
    /// Global norm before clipping, KL and entropy terms included.
    pub norm: f64,
    /// Global norm after clipping.
    pub clipped: f64,
    /// Cosine to the gradient of every rule, in their order; absent where either is 0 or not finite.
    pub cosines: Vec<Option<f64>>,
}

/// What a rule makes of the two sides of its groups.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleDetail {
    /// The numbers of `sides`; absent for other rules.
    pub dial: Option<SideDial>,
    /// Pull of each side.
    pub pull: Option<Pull>,
    /// Shares and weights of short and long responses.
    pub by_length: Option<ByLength>,
    /// Global norm of the policy term's gradient over responses with A > 0, before clipping.
    pub positive_norm: f64,
    /// Global norm of the policy term's gradient over responses with A < 0, before clipping.
    pub negative_norm: f64,
    /// Cosine between these two gradients; absent where either is 0 or not finite.
    pub cosine: Option<f64>,
    /// What each trainable token of a response counts in the loss over the whole batch, normalizer included, for all
    /// responses in the order of the groups.
    pub weights: Vec<f64>,
}

impl GradientProbe {
    /// The gradient of a rule.
    pub fn of(&self, aggregation: Aggregation) -> Option<&RuleGradient> {
        self.rules.iter().find(|rule| rule.aggregation == aggregation)
    }

    /// The learning rate at which a step of `rule` is as long as one of `used` at `learning_rate`, for steps in
    /// proportion to the clipped gradient. Absent where a gradient is 0 or not finite.
    pub fn learning_rate(&self, rule: Aggregation, used: Aggregation, learning_rate: f64) -> Option<f64> {
        let rule = self.of(rule)?.clipped;
        let used = self.of(used)?.clipped;
        Some(learning_rate * used / rule).filter(|rate| rate.is_finite() && *rate > 0.0)
    }
}
