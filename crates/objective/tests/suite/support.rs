//! Responses that own their tokens, and strategies for whole steps.

use evenkeel_objective::{BatchLoss, Constants, Real, Response, ResponseTokens, Settings, batch_loss};
use proptest::collection::vec;
use proptest::prelude::*;

/// A response that owns its tokens.
#[derive(Debug, Clone)]
pub(crate) struct Owned<T = f64> {
    pub(crate) reward: f64,
    pub(crate) valid: bool,
    pub(crate) mask: Vec<bool>,
    pub(crate) logp: Vec<T>,
    pub(crate) old_logp: Vec<T>,
    pub(crate) rollout_logp: Vec<T>,
    pub(crate) reference_logp: Vec<T>,
}

impl Owned {
    /// A response whose log-probabilities are all -1 under every policy.
    pub(crate) fn on_policy(reward: f64, length: usize) -> Self {
        let logp = vec![-1.0; length];
        Self {
            reward,
            valid: true,
            mask: vec![true; length],
            logp: logp.clone(),
            old_logp: logp.clone(),
            rollout_logp: logp.clone(),
            reference_logp: logp,
        }
    }
}

impl<T: Real> Owned<T> {
    pub(crate) fn trainable(&self) -> usize {
        if self.valid { self.mask.iter().filter(|m| **m).count() } else { 0 }
    }

    pub(crate) fn tokens(&self) -> ResponseTokens<'_, T> {
        ResponseTokens {
            mask: &self.mask,
            logp: &self.logp,
            old_logp: &self.old_logp,
            rollout_logp: Some(&self.rollout_logp),
        }
    }

    pub(crate) fn view(&self) -> Response<'_, T> {
        Response {
            reward: self.reward,
            valid: self.valid,
            tokens: self.tokens(),
            reference_logp: Some(&self.reference_logp),
        }
    }
}

/// The groups of a step.
pub(crate) type Step<T = f64> = Vec<Vec<Owned<T>>>;

pub(crate) fn views<T: Real>(step: &Step<T>) -> Vec<Vec<Response<'_, T>>> {
    step.iter().map(|group| group.iter().map(Owned::view).collect()).collect()
}

pub(crate) fn compute<T: Real>(settings: &Settings, step: &Step<T>) -> BatchLoss<T> {
    batch_loss(settings, &views(step)).unwrap()
}

pub(crate) fn on_policy(mut step: Step) -> Step {
    for response in step.iter_mut().flatten() {
        response.logp.clone_from(&response.old_logp);
    }
    step
}

/// The numbers of weights, alpha as by default.
pub(crate) fn constants(max_tokens: usize) -> Constants {
    Settings { max_tokens, ..Settings::default() }.constants()
}

/// Equal within 1e-9 relative or 1e-12 absolute.
pub(crate) fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-12_f64.max(1e-9 * a.abs().max(b.abs()))
}

pub(crate) fn all_close(a: &[f64], b: &[f64]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(&a, &b)| close(a, b))
}

/// Every gradient of a step in one list.
pub(crate) fn flat<T: Real>(batch: &BatchLoss<T>) -> Vec<f64> {
    batch.gradients.iter().flatten().flatten().map(|g| g.to_f64()).collect()
}

/// How the rewards of a step are drawn.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Rewards {
    /// Each reward is 0 or 1.
    Binary,
    /// Any number between -1 and 2.
    Any,
}

/// What a step may hold besides trainable tokens of valid responses.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Holes {
    /// No mask: every token of every response is trainable.
    None,
    /// Masked tokens, responses without a trainable token, invalid responses.
    Some,
}

fn response(rewards: Rewards, holes: Holes) -> impl Strategy<Value = Owned> {
    let reward = match rewards {
        Rewards::Binary => prop_oneof![Just(0.0), Just(1.0)].boxed(),
        Rewards::Any => (-1.0..2.0).boxed(),
    };
    let (masked, valid) = match holes {
        Holes::None => (Just(0.0).boxed(), Just(true).boxed()),
        Holes::Some => (prop_oneof![3 => Just(0.2), 1 => Just(1.0)].boxed(), prop::bool::weighted(0.8).boxed()),
    };
    let token = (-4.0..-0.01, -0.9..0.9, -0.6..0.6, -0.6..0.6, 0.0..1.0);
    let tokens = prop_oneof![7 => vec(token.clone(), 1..12), 1 => vec(token, 60..140)];
    (reward, valid, masked, tokens).prop_map(|(reward, valid, masked, tokens)| Owned {
        reward,
        valid,
        mask: tokens.iter().map(|t: &(f64, f64, f64, f64, f64)| t.4 >= masked).collect(),
        logp: tokens.iter().map(|t| t.0 + t.1).collect(),
        old_logp: tokens.iter().map(|t| t.0).collect(),
        rollout_logp: tokens.iter().map(|t| t.0 + t.2).collect(),
        reference_logp: tokens.iter().map(|t| t.0 + t.3).collect(),
    })
}

/// Steps of one to four groups of two to six responses; lengths go beyond a block of the implementation.
pub(crate) fn steps(rewards: Rewards, holes: Holes) -> impl Strategy<Value = Step> {
    vec(vec(response(rewards, holes), 2..7), 1..5)
}

/// Settings with any advantage, aggregation, policy and correction, and a KL term. `maxrl` refuses rewards below 0 and
/// has laws of its own; `luspo` goes with one policy term.
pub(crate) fn any_settings() -> impl Strategy<Value = Settings> {
    use evenkeel_objective::{Advantage, Aggregation, Correction, KlEstimator, PolicyTerm, SideRatio};
    let choices = (
        prop::sample::select(Advantage::ALL).prop_filter("rewards below 0", |mode| *mode != Advantage::MaxRl),
        prop::sample::select(Aggregation::ALL),
        prop::sample::select(PolicyTerm::ALL),
        prop::sample::select(Correction::ALL),
        prop::sample::select(KlEstimator::ALL),
    );
    choices.prop_map(|(advantage, aggregation, policy, correction, kl_estimator)| Settings {
        advantage,
        aggregation,
        policy: if aggregation == Aggregation::Luspo { PolicyTerm::Gspo } else { policy },
        correction,
        kl_estimator,
        kl_coefficient: 0.1,
        max_tokens: 128,
        length_exponent: (aggregation == Aggregation::Sides).then_some(0.3),
        side_ratio: (aggregation == Aggregation::Sides).then_some(SideRatio::Constant(0.4)),
        ..Settings::default()
    })
}
