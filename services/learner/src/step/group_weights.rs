//! Advantages and weights of a group's responses, computed as soon as the group is complete.

use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel_objective::{GroupCounts, GroupTerms, GroupView, LagRun, RewardComponent, Settings};

use crate::error::Result;
use crate::group::{Comparison, Response, ResponseGroup, RewardPart};
use crate::sequence::Sequence;
use crate::settings::TrainingSettings;

/// The index of a response's group in the step, and of the response in the group.
pub(super) type Place = (usize, usize);

/// A response that will go through the model. Token values are those of trainable tokens only.
#[derive(Clone, Debug)]
pub(super) struct PlannedResponse {
    group: usize,
    /// Index in its group.
    index: usize,
    prompt: Arc<[u32]>,
    /// The prompt with a hint, where it has one.
    hinted: Option<Arc<[u32]>>,
    tokens: Vec<u32>,
    mask: Vec<bool>,
    /// Sequences that begin with a prompt of their own: the first token of each, and the prompt.
    contexts: Vec<(usize, Vec<u32>)>,
    rollout_logp: Vec<f32>,
    comparisons: Vec<Comparison>,
    lags: Vec<LagRun>,
    old_logp: Option<Vec<f32>>,
    other_logp: Vec<Vec<f32>>,
    advantage: f64,
    weight: f64,
    regularizer_weight: f64,
}

impl PlannedResponse {
    /// Index of the group in the step.
    pub(super) fn group(&self) -> usize {
        self.group
    }

    /// Index of the response in its group.
    pub(super) fn index(&self) -> usize {
        self.index
    }

    /// Index of the group, and of the response in it.
    pub(super) fn place(&self) -> Place {
        (self.group, self.index)
    }

    /// The engine's log-probabilities of the trainable tokens.
    pub(super) fn rollout_logp(&self) -> &[f32] {
        &self.rollout_logp
    }

    /// How these are compared with the learner's; empty where none is.
    pub(super) fn comparisons(&self) -> &[Comparison] {
        &self.comparisons
    }

    /// How far the versions that sampled the trainable tokens are behind the step's; empty where none is.
    pub(super) fn lags(&self) -> &[LagRun] {
        &self.lags
    }

    /// What the ratio is taken against, unless that is the engine's; absent until a pass has computed it.
    pub(super) fn old_logp(&self) -> Option<&[f32]> {
        self.old_logp.as_deref()
    }

    /// Keeps the log-probabilities under the weights before the first update on the batch.
    pub(super) fn set_old_logp(&mut self, logp: Vec<f32>) {
        self.old_logp = Some(logp);
    }

    /// Under the frozen network of each further term of the loss; empty until a pass has computed them.
    pub(super) fn other_logp(&self) -> &[Vec<f32>] {
        &self.other_logp
    }

    /// Keeps the log-probabilities under these networks.
    pub(super) fn set_other_logp(&mut self, of_terms: Vec<Vec<f32>>) {
        self.other_logp = of_terms;
    }

    pub(super) fn advantage(&self) -> f64 {
        self.advantage
    }

    /// The group's part of the policy weight, without the mini-batch normalizer.
    pub(super) fn weight(&self) -> f64 {
        self.weight
    }

    /// The group's part of the weight of other terms of the loss.
    pub(super) fn regularizer_weight(&self) -> f64 {
        self.regularizer_weight
    }

    /// Takes the policy weight of another rule.
    pub(super) fn reweigh(&mut self, weight: f64) {
        self.weight = weight;
    }

    /// Tokens of prompts and response.
    pub(super) fn length(&self) -> usize {
        let own_prompts = self.contexts.iter().map(|(_, prompt)| prompt.len()).sum::<usize>();
        let follows_group = self.contexts.first().is_none_or(|(first, _)| *first > 0);
        let of_group = if follows_group { self.prompt.len() } else { 0 };
        of_group + own_prompts + self.tokens.len()
    }

    /// Prompt and response, with the trainable tokens scored; all sequences of the response, where it has several.
    pub(super) fn sequence(&self) -> Sequence {
        self.sequence_after(&self.prompt)
    }

    /// A sequence with the prompt that has a hint; without a hint [`sequence`](Self::sequence).
    pub(super) fn hinted_sequence(&self) -> Sequence {
        self.sequence_after(self.hinted.as_ref().unwrap_or(&self.prompt))
    }

    fn sequence_after(&self, prompt: &[u32]) -> Sequence {
        let end = |index: usize| self.contexts.get(index).map_or(self.tokens.len(), |(next, _)| *next);
        let (ids, scored) = self.part(prompt, 0..end(0));
        let first = Sequence::new(ids, prompt.len(), scored);
        let others = self.contexts.iter().enumerate();
        first.with_others(others.map(|(index, (first, prompt))| self.part(prompt, *first..end(index + 1))))
    }

    /// Some of its tokens after a prompt, and the positions of the trainable ones.
    fn part(&self, prompt: &[u32], tokens: std::ops::Range<usize>) -> (Vec<u32>, Vec<usize>) {
        let trainable = self.mask[tokens.clone()].iter().enumerate().filter(|(_, trainable)| **trainable);
        let scored = trainable.map(|(position, _)| prompt.len() + position).collect();
        ([prompt, &self.tokens[tokens]].concat(), scored)
    }
}

/// A group's advantages, and what else it contributes to the counts and statistics of the step.
#[derive(Clone, Debug)]
pub(super) struct GroupWeights {
    pub(super) counts: GroupCounts,
    pub(super) advantages: Vec<f64>,
    /// The group's part of each policy weight, without the mini-batch normalizer.
    pub(super) weights: Vec<f64>,
    trainable_tokens: Vec<usize>,
    correct: Vec<Option<bool>>,
    /// Lengths of valid responses, whatever their mask.
    pub(super) lengths: Vec<usize>,
    /// Rewards of valid responses before shaping.
    pub(super) raw_rewards: Vec<f64>,
    /// Rewards of valid responses.
    pub(super) rewards: Vec<f64>,
    pub(super) invalid: usize,
    /// Whether any weighted advantage is not 0, or a teacher scores its tokens.
    pub(super) has_signal: bool,
}

impl GroupWeights {
    pub(super) fn view(&self) -> GroupView<'_> {
        GroupView { advantages: &self.advantages, trainable_tokens: &self.trainable_tokens, correct: &self.correct }
    }
}

/// Computes advantages and weights of a group by the objective of the step, and selects the responses with a gradient:
/// others skip the model, unless `regularized` says that another term of the loss includes them. `for_probe` selects
/// those as well that have a gradient under another rule.
pub(super) fn weigh(
    objective: &Settings,
    settings: &TrainingSettings,
    (regularized, for_probe): (bool, bool),
    index: usize,
    group: ResponseGroup,
) -> Result<(GroupWeights, Vec<PlannedResponse>)> {
    let rewards: Vec<f64> = group.responses.iter().map(|r| r.reward).collect();
    let valid: Vec<bool> = group.responses.iter().map(|r| r.valid).collect();
    let trainable_tokens: Vec<usize> = group.responses.iter().map(Response::trainable).collect();
    let components = components(&group.responses);
    let terms = GroupTerms::with_components(objective, &rewards, &components, &valid, &trainable_tokens)
        .map_err(|error| error.at(index, None))?;
    let GroupTerms { advantages, weights: mut weight, regularizer_weights, counts } = terms;
    let reward_weight = settings.reward_weight();
    weight.iter_mut().for_each(|weight| *weight *= reward_weight);
    let has_teacher = settings.distillation.is_some() && counts.tokens > 0;

    let of_valid = |value: fn(&Response) -> f64| group.responses.iter().filter(|r| r.valid).map(value).collect();
    let weights = GroupWeights {
        counts,
        correct: group.responses.iter().map(|r| r.correct).collect(),
        lengths: group.responses.iter().filter(|r| r.valid).map(|r| r.tokens.len()).collect(),
        raw_rewards: of_valid(|r| r.raw_reward),
        rewards: of_valid(|r| r.reward),
        invalid: valid.iter().filter(|valid| !**valid).count(),
        has_signal: has_teacher || advantages.iter().zip(&weight).any(|(a, w)| a * w != 0.0),
        advantages,
        weights: weight,
        trainable_tokens,
    };
    let prompt: Arc<[u32]> = group.prompt.into();
    let hinted: Option<Arc<[u32]>> = group.hinted_prompt.map(Arc::from);
    let mut planned = Vec::new();
    for (i, response) in group.responses.into_iter().enumerate() {
        let (advantage, weight) = (weights.advantages[i], weights.weights[i]);
        let has_gradient = advantage * weight != 0.0 || regularized || (for_probe && advantage != 0.0);
        if weights.trainable_tokens[i] > 0 && has_gradient {
            planned.push(PlannedResponse {
                group: index,
                index: i,
                prompt: prompt.clone(),
                hinted: hinted.clone(),
                rollout_logp: trainable(&response.mask, &response.rollout_logp),
                comparisons: trainable(&response.mask, &response.comparisons),
                lags: response.lags,
                tokens: response.tokens,
                mask: response.mask,
                contexts: response.contexts,
                old_logp: None,
                other_logp: Vec::new(),
                advantage: weights.advantages[i],
                weight: weights.weights[i],
                regularizer_weight: regularizer_weights[i],
            });
        }
    }
    Ok((weights, planned))
}

/// The values of trainable tokens.
fn trainable<T: Copy>(mask: &[bool], values: &[T]) -> Vec<T> {
    mask.iter().zip(values).filter(|(trainable, _)| **trainable).map(|(_, value)| *value).collect()
}

/// The components of the group's rewards, in the order of names.
fn components(responses: &[Response]) -> Vec<RewardComponent> {
    let mut by_name: BTreeMap<&str, RewardComponent> = BTreeMap::new();
    for (index, response) in responses.iter().enumerate().filter(|(_, response)| response.valid) {
        for (name, RewardPart { weight, value }) in &response.components {
            let none = || RewardComponent { weight: *weight, values: vec![f64::NAN; responses.len()] };
            by_name.entry(name).or_insert_with(none).values[index] = *value;
        }
    }
    by_name.into_values().collect()
}
