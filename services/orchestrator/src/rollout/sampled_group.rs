//! A group whose samples are over: what it teaches, and its message for the learner.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use evenkeel_data::Task;
use evenkeel_environment::EnvironmentOrigin;
use evenkeel_proto::v1::{FinishReason, RewardComponent, Segment, TrainGroup, TrainSample};
use evenkeel_proto::{Purpose, SamplingSettings};

use super::group_request::GroupRequest;
use super::sample::{RewardPart, Sample};

/// A group whose last verdict is in.
#[derive(Debug, Clone)]
pub(crate) struct SampledGroup {
    request: Arc<GroupRequest>,
    /// From when to when.
    sampled: (SystemTime, SystemTime),
    last_rollout: Instant,
    /// The versions that sampled its tokens, which outlive them here.
    versions: Option<RangeInclusive<u64>>,
    /// Digests of their tokens for the receipt, likewise; empty in an evaluation.
    token_digests: Vec<Option<String>>,
    /// By number, whichever finished first.
    samples: Vec<Sample>,
}

impl SampledGroup {
    /// A group that is complete now.
    pub(super) fn new(
        request: Arc<GroupRequest>,
        began: SystemTime,
        last_rollout: Instant,
        samples: Vec<Sample>,
    ) -> Self {
        let segments = samples.iter().flat_map(|sample| &sample.segments);
        let versions = segments.filter_map(|segment| segment.policy_version).map(|version| version..=version);
        let versions = versions.reduce(|all, one| *all.start().min(one.start())..=*all.end().max(one.end()));
        let is_trained = request.id.purpose == Purpose::Train;
        let token_digests = if is_trained { samples.iter().map(Sample::tokens_digest).collect() } else { Vec::new() };
        Self { request, sampled: (began, SystemTime::now()), last_rollout, versions, token_digests, samples }
    }

    pub(crate) fn number(&self) -> u64 {
        self.request.number()
    }

    pub(super) fn request(&self) -> &GroupRequest {
        &self.request
    }

    /// How its samples are drawn; the seed is each sample's own.
    pub(crate) fn sampling(&self) -> &SamplingSettings {
        &self.request.sampling.settings
    }

    /// The step that its id names.
    pub(crate) fn seeded_by(&self) -> u64 {
        self.request.id.step
    }

    /// When its last response ended.
    pub(crate) fn last_rollout(&self) -> Instant {
        self.last_rollout
    }

    /// When it was added, and when its last verdict was in.
    pub(super) fn sampled(&self) -> (SystemTime, SystemTime) {
        self.sampled
    }

    /// The oldest and the newest version that sampled tokens of it. `None` where no sample has a token.
    pub(crate) fn versions(&self) -> Option<&RangeInclusive<u64>> {
        self.versions.as_ref()
    }

    /// What answers are judged against.
    pub(crate) fn task(&self) -> &Task {
        &self.request.task
    }

    /// The environment that plays it, where that is a program of the user's own.
    pub(crate) fn own_environment(&self) -> Option<&str> {
        let name = &*self.request.environment.as_ref()?.environment;
        let origin = EnvironmentOrigin::of("data.environment", name).ok()?;
        let is_own = match origin {
            EnvironmentOrigin::File(_) | EnvironmentOrigin::Agent(_) | EnvironmentOrigin::Verifiers(_) => true,
            EnvironmentOrigin::BuiltIn(_) | EnvironmentOrigin::Sandbox | EnvironmentOrigin::OpenEnv(_) => false,
        };
        is_own.then_some(name)
    }

    /// Name of its problem, and the problem's place in its set, from 0.
    pub(crate) fn problem(&self) -> (&str, u64) {
        let (name, index) = &self.request.problem;
        (name, *index)
    }

    pub(crate) fn prompt_token_ids(&self) -> &[u32] {
        &self.request.prompt_token_ids
    }

    /// What the model reads as its own teacher, where the row has a hint.
    pub(crate) fn hinted_prompt_token_ids(&self) -> Option<&[u32]> {
        self.request.hinted.as_deref()
    }

    pub(crate) fn samples(&self) -> &[Sample] {
        &self.samples
    }

    pub(crate) fn data_source(&self) -> &str {
        &self.request.data_source
    }

    /// The digest of the tokens of each of its samples; `None` for one without an answer.
    pub(crate) fn token_digests(&self) -> &[Option<String>] {
        &self.token_digests
    }

    pub(crate) fn prompt_tokens(&self) -> usize {
        self.request.prompt_token_ids.len()
    }

    /// The raw reward that all valid samples share. `None` where rewards differ or no sample is valid.
    pub(crate) fn shared_reward(&self) -> Option<f64> {
        let mut rewards = self.samples.iter().filter_map(Sample::rewards).map(|rewards| rewards.raw);
        let first = rewards.next()?;
        rewards.all(|reward| reward == first).then_some(first)
    }

    /// Whether all samples with a verdict are correct, or all of them are not.
    pub(crate) fn all_are(&self, correct: bool) -> bool {
        let mut valid = self.samples.iter().filter(|sample| sample.rewards().is_some()).peekable();
        valid.peek().is_some() && valid.all(|sample| sample.correct() == Some(correct))
    }

    /// Whether all advantages of raw rewards are 0, so that dynamic sampling replaces the group. Shaped rewards do not
    /// count there: a length penalty makes even groups of wrong answers differ.
    pub(crate) fn is_zero_advantage(&self) -> bool {
        self.shared_reward().is_some() || self.samples.iter().all(|sample| sample.rewards().is_none())
    }

    /// Whether the shaped rewards of all valid samples are equal in each of their parts, so that the group teaches
    /// nothing where it is trained on.
    pub(crate) fn teaches_nothing(&self) -> bool {
        let mut all = self.samples.iter().filter_map(|sample| Some((sample.rewards()?.shaped, sample)));
        let Some((first, sample)) = all.next() else { return true };
        let parts: Vec<_> = sample.weighted_components().collect();
        all.all(|(shaped, sample)| shaped == first && sample.weighted_components().eq(parts.iter().copied()))
    }

    /// The message for the learner; `index` is the group's place in the step. The tokens of its samples are in the
    /// message then, and no longer here, unless the run keeps them: many groups may wait for their step.
    pub(crate) fn take_train(&mut self, index: u32, mask_truncated: bool, keeps_tokens: bool) -> TrainGroup {
        let placeholder = self.placeholder();
        // Of one part a reward is the whole.
        let parts: BTreeSet<&str> =
            self.samples.iter().flat_map(Sample::weighted_components).map(|(name, _)| name).collect();
        let has_parts = parts.len() > 1;
        let sample = |sample: &mut Sample| {
            let rewards = sample.rewards();
            let segments = if keeps_tokens {
                Some(sample.segments.clone()).filter(|segments| !segments.is_empty())
            } else {
                sample.take_segments()
            };
            TrainSample {
                sample_id: sample.id.clone(),
                segments: segments.unwrap_or_else(|| placeholder.clone()),
                raw_reward: rewards.map(|rewards| rewards.raw),
                shaped_reward: rewards.map(|rewards| rewards.shaped),
                valid: rewards.is_some(),
                correct: sample.correct(),
                finish_reason: sample.finish_reason.into(),
                exclude_from_loss: mask_truncated && sample.finish_reason == FinishReason::Length,
                components: if has_parts { sample.weighted_components().map(component).collect() } else { Vec::new() },
                contexts: if keeps_tokens { sample.contexts.clone() } else { std::mem::take(&mut sample.contexts) },
            }
        };
        TrainGroup {
            group_id: self.request.id.to_string(),
            index,
            prompt_token_ids: self.request.prompt_token_ids.to_vec(),
            hinted_prompt_token_ids: self.hinted_prompt_token_ids().unwrap_or_default().to_vec(),
            samples: self.samples.iter_mut().map(sample).collect(),
        }
    }

    /// Drops the tokens of its samples, which nobody needs any more.
    pub(crate) fn forget_tokens(&mut self) {
        self.samples.iter_mut().for_each(|sample| {
            sample.contexts = Vec::new();
            drop(sample.take_segments());
        });
    }

    /// Drops the text of its samples, where rollouts are not kept.
    pub(crate) fn forget_text(&mut self) {
        self.samples.iter_mut().for_each(Sample::forget_text);
    }

    /// The response of a sample that failed. The sample stays in its group but enters no statistic and no loss, so the
    /// content does not matter; the protocol wants at least one token.
    fn placeholder(&self) -> Vec<Segment> {
        vec![Segment::injected(self.request.prompt_token_ids.iter().rev().take(1).copied().collect())]
    }
}

fn component((name, RewardPart { weight, value }): (&str, RewardPart)) -> RewardComponent {
    RewardComponent { name: name.to_owned(), weight, value }
}

#[cfg(test)]
pub(super) mod tests {
    use evenkeel_proto::v1::Outcome;
    use evenkeel_proto::{GroupId, SamplingSettings};
    use tracing::Span;

    use super::*;
    use crate::rollout::group_request::GroupSampling;
    use crate::rollout::in_flight_group::InFlightGroup;
    use crate::rollout::sample::{Rewards, SampleStatus, VerdictDetail};

    /// A group with these raw rewards; `None` is a sample that failed.
    pub(in crate::rollout) fn group(number: u64, raw: &[Option<f64>]) -> SampledGroup {
        let id = GroupId { purpose: Purpose::Train, step: 1, prompt: number };
        let sampling = GroupSampling { settings: SamplingSettings::plain(4, 0), samples: raw.len() as u32 };
        let request = GroupRequest {
            id,
            prompt_token_ids: vec![5, 6].into(),
            hinted: None,
            task: Task::math(["1".to_owned()]).unwrap(),
            environment: None,
            asked: None,
            named: None,
            data_source: "sums".into(),
            problem: ("sums#2".into(), 2),
            sampling: sampling.into(),
        };
        let mut group = InFlightGroup::new(request, Span::none());
        let size = raw.len();
        for (number, raw) in (0..).zip(raw) {
            let sample = Sample {
                id: id.sample(number).to_string(),
                engines: ["a".to_owned()].into(),
                segments: raw.map_or(vec![], |_| vec![Segment::sampled(vec![7], vec![-0.5], 3)]),
                contexts: vec![],
                finish_reason: FinishReason::Length,
                text: "7".to_owned(),
                is_marked: false,
                parts: vec![],
                mean_log_probability: Some(-0.5),
                tokens: 1,
                status: match *raw {
                    Some(raw) => {
                        let rewards = Rewards { raw, shaped: raw - 0.1 };
                        SampleStatus::Valid { outcome: Outcome::Correct, rewards, components: Default::default() }
                    }
                    None => SampleStatus::Failed { message: "engine lost".into(), late: false, unscored: None },
                },
                verdict_detail: VerdictDetail::default(),
                verify_retries: 0,
                rollout_retries: 0,
                episode: None,
            };
            assert_eq!(group.add(number, sample), number as usize + 1 == size);
        }
        group.finish()
    }

    #[test]
    fn a_group_has_an_advantage_where_raw_rewards_of_valid_samples_differ() {
        assert!(!group(2, &[Some(1.0), Some(0.0)]).is_zero_advantage());
        assert!(group(2, &[Some(1.0), Some(1.0), None]).is_zero_advantage());
        assert!(group(2, &[None, None]).is_zero_advantage());
        assert_eq!(group(2, &[Some(0.0), None]).shared_reward(), Some(0.0));
    }

    #[test]
    fn a_group_of_wrong_answers_teaches_where_its_shaped_rewards_differ() {
        let mut group = group(3, &[Some(0.0), Some(0.0), None]);
        assert!(group.is_zero_advantage() && group.teaches_nothing());
        let SampleStatus::Valid { rewards, .. } = &mut group.samples[1].status else { panic!("it is valid") };
        rewards.shaped = -0.5;
        assert!(group.is_zero_advantage() && !group.teaches_nothing());
    }

    #[test]
    fn a_group_is_sent_whole_and_a_failed_sample_keeps_its_place() {
        let mut group = group(2, &[Some(1.0), None]);
        let message = group.take_train(4, true, false);
        assert_eq!(group.versions(), Some(&(3..=3)), "they are known when the tokens have gone");
        assert_eq!((message.group_id.as_str(), message.index), ("train/1/2", 4));
        assert!(message.responses().is_ok());
        assert!(message.samples[0].valid && message.samples[0].exclude_from_loss);
        assert_eq!((message.samples[0].raw_reward, message.samples[0].shaped_reward), (Some(1.0), Some(0.9)));
        assert_eq!((message.samples[1].valid, message.samples[1].raw_reward), (false, None));
        assert_eq!((message.samples[0].correct, message.samples[1].correct), (Some(true), None));
        assert!(!message.responses().unwrap()[1].trainable.contains(&true));
        let tokens: Vec<_> = group.samples().iter().map(|sample| (sample.segments.len(), sample.tokens)).collect();
        assert_eq!(tokens, [(0, 1), (0, 1)], "its tokens are in the message alone, its lengths stay");
    }

    #[test]
    fn a_reward_of_several_parts_is_sent_with_them_and_one_of_one_part_alone() {
        let with = |parts: &[(&str, f64)]| {
            let mut group = group(2, &[Some(1.0), None]);
            if let SampleStatus::Valid { components, .. } = &mut group.samples[0].status {
                *components = parts
                    .iter()
                    .map(|(name, weight)| ((*name).to_owned(), RewardPart { weight: *weight, value: 0.5 }))
                    .collect();
            }
            let message = group.take_train(0, false, false);
            assert!(message.samples[1].components.is_empty(), "it has no verdict");
            message.samples[0]
                .components
                .iter()
                .map(|part| (part.name.clone(), part.weight, part.value))
                .collect::<Vec<_>>()
        };
        assert_eq!(with(&[("correctness", 1.0), ("format", 0.0)]), []);
        let both = with(&[("correctness", 1.0), ("format", 0.0), ("style", 0.25)]);
        assert_eq!(both, [("correctness".to_owned(), 1.0, 0.5), ("style".to_owned(), 0.25, 0.5)]);
    }

    #[test]
    fn a_sample_that_arrives_twice_counts_once() {
        let finished = group(2, &[Some(1.0), Some(0.0)]);
        let mut open = InFlightGroup::new(GroupRequest::clone(&finished.request), Span::none());
        assert!(!open.add(0, finished.samples[0].clone()));
        assert!(!open.add(0, finished.samples[0].clone()));
        assert!(open.add(1, finished.samples[1].clone()));
        assert_eq!(open.finish().samples(), finished.samples());
    }
}
