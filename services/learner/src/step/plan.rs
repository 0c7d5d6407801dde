//! What a group's responses weigh, as soon as the group is complete.

use std::sync::Arc;

use evenkeel_objective::{GroupCounts, GroupView, Settings, advantages, group_weights, regularizer_weights};

use crate::error::Result;
use crate::group::{Group, Response};

/// A response that will go through the model.
#[derive(Clone, Debug)]
pub(crate) struct Planned {
    /// Index of the group in the step.
    pub(crate) group: usize,
    pub(crate) prompt: Arc<[u32]>,
    pub(crate) tokens: Vec<u32>,
    pub(crate) mask: Vec<bool>,
    pub(crate) rollout_logp: Vec<f32>,
    /// Under the weights before the first update on the batch; none where the update's own forward pass gives them.
    pub(crate) old_logp: Option<Vec<f32>>,
    pub(crate) reference_logp: Option<Vec<f32>>,
    pub(crate) advantage: f64,
    /// The group's part of the policy weight, without the step's scalar.
    pub(crate) weight: f64,
    /// The group's part of the weight of KL and entropy terms.
    pub(crate) regularizer_weight: f64,
}

impl Planned {
    /// Prompt and response.
    pub(crate) fn ids(&self) -> Vec<u32> {
        [&*self.prompt, &self.tokens].concat()
    }

    /// The places of the trainable tokens in [`Planned::ids`].
    pub(crate) fn scored(&self) -> impl Iterator<Item = usize> {
        let prompt = self.prompt.len();
        self.mask.iter().enumerate().filter(|(_, trainable)| **trainable).map(move |(i, _)| prompt + i)
    }

    /// Values at trainable tokens alone, as the model scores them.
    pub(crate) fn at_scored(&self, values: &[f32]) -> Vec<f32> {
        self.mask.iter().zip(values).filter(|(trainable, _)| **trainable).map(|(_, &value)| value).collect()
    }
}

/// What a group contributes, kept for the step's statistics.
#[derive(Clone, Debug)]
pub(super) struct GroupPlan {
    pub(crate) counts: GroupCounts,
    pub(crate) advantages: Vec<f64>,
    pub(crate) trainable_tokens: Vec<usize>,
    pub(crate) correct: Vec<bool>,
    pub(crate) lengths: Vec<usize>,
    pub(crate) raw_rewards: Vec<f64>,
    pub(crate) rewards: Vec<f64>,
    pub(crate) invalid: usize,
    /// Whether any advantage differs from 0.
    pub(crate) has_signal: bool,
}

impl GroupPlan {
    pub(crate) fn view(&self) -> GroupView<'_> {
        GroupView { advantages: &self.advantages, trainable_tokens: &self.trainable_tokens, correct: &self.correct }
    }
}

/// Normalises and weighs a group, and takes it apart: responses that pull nothing stay out of the model.
pub(super) fn plan(settings: &Settings, index: usize, group: Group) -> Result<(GroupPlan, Vec<Planned>)> {
    let rewards: Vec<f64> = group.responses.iter().map(|r| r.reward).collect();
    let valid: Vec<bool> = group.responses.iter().map(|r| r.valid).collect();
    let trainable_tokens: Vec<usize> = group.responses.iter().map(Response::trainable).collect();
    let mut advantage = vec![0.0; rewards.len()];
    advantages(settings.advantage, &rewards, &valid, &mut advantage).map_err(|error| error.at(index, None))?;
    let (mut weight, mut regularizer_weight) = (vec![0.0; rewards.len()], vec![0.0; rewards.len()]);
    let counts = group_weights(settings.aggregation, &advantage, &trainable_tokens, settings.max_tokens, &mut weight)?;
    regularizer_weights(&trainable_tokens, &mut regularizer_weight)?;

    let of_valid = |value: fn(&Response) -> f64| group.responses.iter().filter(|r| r.valid).map(value).collect();
    let plan = GroupPlan {
        counts,
        correct: group.responses.iter().map(Response::is_correct).collect(),
        lengths: group.responses.iter().filter(|r| r.valid).map(|r| r.tokens.len()).collect(),
        raw_rewards: of_valid(|r| r.raw_reward),
        rewards: of_valid(|r| r.reward),
        invalid: valid.iter().filter(|valid| !**valid).count(),
        has_signal: advantage.iter().zip(&weight).any(|(a, w)| a * w != 0.0),
        advantages: advantage,
        trainable_tokens,
    };
    let regularized = is_regularized(settings);
    let prompt: Arc<[u32]> = group.prompt.into();
    let mut planned = Vec::new();
    for (i, response) in group.responses.into_iter().enumerate() {
        let pulls = plan.advantages[i] * weight[i] != 0.0 || regularized;
        if plan.trainable_tokens[i] > 0 && pulls {
            planned.push(Planned {
                group: index,
                prompt: prompt.clone(),
                tokens: response.tokens,
                mask: response.mask,
                rollout_logp: response.rollout_logp,
                old_logp: None,
                reference_logp: None,
                advantage: plan.advantages[i],
                weight: weight[i],
                regularizer_weight: regularizer_weight[i],
            });
        }
    }
    Ok((plan, planned))
}

/// Whether responses without an advantage have a gradient as well.
pub(super) fn is_regularized(settings: &Settings) -> bool {
    settings.kl_coefficient != 0.0 || settings.entropy_coefficient != 0.0
}
