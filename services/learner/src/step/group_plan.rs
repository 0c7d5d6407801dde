//! Advantages and weights of a group's responses, computed as soon as the group is complete.

use std::sync::Arc;

use evenkeel_objective::{GroupCounts, GroupView, LagRun, Settings, advantages, group_weights, regularizer_weights};

use crate::error::Result;
use crate::group::{Group, Response};
use crate::micro_batch::Sequence;

/// A response that will go through the model. Token values are those of trainable tokens only.
#[derive(Clone, Debug)]
pub(super) struct PlannedResponse {
    /// Index of the group in the step.
    pub(super) group: usize,
    /// Its own in the group.
    pub(super) index: usize,
    prompt: Arc<[u32]>,
    tokens: Vec<u32>,
    mask: Vec<bool>,
    /// The engine's log-probabilities.
    pub(super) rollout_logp: Vec<f32>,
    /// How far the versions that sampled them are behind the step's; empty where none is.
    pub(super) lags: Vec<LagRun>,
    /// Under the weights before the first update on the batch; absent until a pass has computed them, and if the ratio is
    /// taken against the engine's.
    pub(super) old_logp: Option<Vec<f32>>,
    /// Under the reference, if there is one.
    pub(super) reference_logp: Option<Vec<f32>>,
    pub(super) advantage: f64,
    /// The group's part of the policy weight, without the step's scalar.
    pub(super) weight: f64,
    /// The group's part of the weight of KL and entropy terms.
    pub(super) regularizer_weight: f64,
}

impl PlannedResponse {
    /// Tokens of prompt and response.
    pub(super) fn length(&self) -> usize {
        self.prompt.len() + self.tokens.len()
    }

    /// Prompt and response, with the trainable tokens scored.
    pub(super) fn sequence(&self) -> Sequence {
        let trainable = self.mask.iter().enumerate().filter(|(_, trainable)| **trainable);
        let scored = trainable.map(|(position, _)| self.prompt.len() + position).collect();
        Sequence::new([&*self.prompt, &self.tokens].concat(), scored)
    }
}

/// What a group contributes to the counts and statistics of the step.
#[derive(Clone, Debug)]
pub(super) struct GroupPlan {
    pub(super) counts: GroupCounts,
    pub(super) advantages: Vec<f64>,
    trainable_tokens: Vec<usize>,
    correct: Vec<bool>,
    /// Lengths of valid responses, whatever their mask.
    pub(super) lengths: Vec<usize>,
    /// Of valid responses.
    pub(super) raw_rewards: Vec<f64>,
    /// Of valid responses.
    pub(super) rewards: Vec<f64>,
    pub(super) invalid: usize,
    /// Whether any weighted advantage is not 0.
    pub(super) has_signal: bool,
}

impl GroupPlan {
    pub(super) fn view(&self) -> GroupView<'_> {
        GroupView { advantages: &self.advantages, trainable_tokens: &self.trainable_tokens, correct: &self.correct }
    }
}

/// Computes advantages and weights of a group, and selects the responses with a gradient: zero-advantage ones skip the
/// model, unless a KL or entropy term includes them.
pub(super) fn plan(settings: &Settings, index: usize, group: Group) -> Result<(GroupPlan, Vec<PlannedResponse>)> {
    let rewards: Vec<f64> = group.responses.iter().map(|r| r.reward).collect();
    let valid: Vec<bool> = group.responses.iter().map(|r| r.valid).collect();
    let trainable_tokens: Vec<usize> = group.responses.iter().map(Response::trainable).collect();
    let mut advantage = vec![0.0; rewards.len()];
    advantages(settings.advantage, &rewards, &valid, &mut advantage).map_err(|error| error.at(index, None))?;
    let (mut weight, mut regularizer_weight) = (vec![0.0; rewards.len()], vec![0.0; rewards.len()]);
    let counts = group_weights(settings.aggregation, &advantage, &trainable_tokens, settings.constants(), &mut weight)?;
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
        let has_gradient = plan.advantages[i] * weight[i] != 0.0 || regularized;
        if plan.trainable_tokens[i] > 0 && has_gradient {
            let of_trainable = |values: &[f32]| {
                response.mask.iter().zip(values).filter(|(trainable, _)| **trainable).map(|(_, &value)| value).collect()
            };
            planned.push(PlannedResponse {
                group: index,
                index: i,
                prompt: prompt.clone(),
                rollout_logp: of_trainable(&response.rollout_logp),
                lags: response.lags,
                tokens: response.tokens,
                mask: response.mask,
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

/// Whether a KL or entropy term gives zero-advantage responses a gradient.
pub(super) fn is_regularized(settings: &Settings) -> bool {
    settings.kl_coefficient != 0.0 || settings.entropy_coefficient != 0.0
}
