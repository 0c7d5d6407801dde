//! A group: all samples of one prompt in one step, and how it travels to the learner.

use std::sync::Arc;

use evenkeel_proto::GroupId;
use evenkeel_proto::v1::{FinishReason, Outcome, Segment, TrainGroup, TrainSample};

use evenkeel_tasks::Task;

use crate::settings::{SamplingSettings, ShapingSettings};

/// A group that is to be sampled.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) id: GroupId,
    pub(crate) prompt_token_ids: Arc<[u32]>,
    /// What answers are judged against.
    pub(crate) task: Task,
}

/// What became of a sample.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Judgement {
    /// A verdict stands.
    Valid { outcome: Outcome, rewards: Rewards },
    /// It was sampled, and no verdict could be had for a reason that is not its own; `late` where time was the reason.
    Invalid { reason: String, late: bool },
    /// It could not even be sampled; `late` where time was the reason.
    Failed { message: String, late: bool },
}

/// The reward before and after shaping.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Rewards {
    pub(crate) raw: f64,
    pub(crate) shaped: f64,
}

/// One sample with its judgement.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sample {
    pub(crate) id: String,
    pub(crate) segments: Vec<Segment>,
    pub(crate) finish_reason: FinishReason,
    /// Tokens of the response; 0 where it failed.
    pub(crate) tokens: usize,
    pub(crate) judgement: Judgement,
    /// Verifications beyond the first.
    pub(crate) verified_again: u32,
    /// Beginnings beyond the first that this side knows of.
    pub(crate) begun_again: u32,
}

impl Sample {
    pub(crate) fn rewards(&self) -> Option<Rewards> {
        match self.judgement {
            Judgement::Valid { rewards, .. } => Some(rewards),
            _ => None,
        }
    }

    /// As the learner counts it: more than half of the raw reward.
    pub(crate) fn is_correct(&self) -> bool {
        self.rewards().is_some_and(|rewards| rewards.raw > 0.5)
    }

    /// Whether it is left out because it, or its verdict, took too long.
    pub(crate) fn is_late(&self) -> bool {
        matches!(self.judgement, Judgement::Invalid { late: true, .. } | Judgement::Failed { late: true, .. })
    }

    pub(crate) fn is_sampled(&self) -> bool {
        !matches!(self.judgement, Judgement::Failed { .. })
    }
}

/// A group whose last verdict is in.
#[derive(Debug, Clone)]
pub(crate) struct SampledGroup {
    pub(crate) plan: Plan,
    /// In the order of their numbers, never in that of their ends.
    pub(crate) samples: Vec<Sample>,
}

impl SampledGroup {
    pub(crate) fn prompt_tokens(&self) -> usize {
        self.plan.prompt_token_ids.len()
    }

    /// The raw reward that all valid samples share. `None` where they differ or none is valid.
    pub(crate) fn all_equal(&self) -> Option<f64> {
        let mut rewards = self.samples.iter().filter_map(Sample::rewards).map(|rewards| rewards.raw);
        let first = rewards.next()?;
        rewards.all(|reward| reward == first).then_some(first)
    }

    /// Whether raw rewards differ. It looks at raw ones, since a length penalty makes groups of wrong answers differ, too.
    pub(crate) fn has_signal(&self) -> bool {
        self.all_equal().is_none() && self.samples.iter().any(|sample| sample.rewards().is_some())
    }

    /// The message for the learner; `index` is the group's place in the step.
    pub(crate) fn to_train(&self, index: u32, mask_truncated: bool) -> TrainGroup {
        let sample = |sample: &Sample| {
            let rewards = sample.rewards();
            TrainSample {
                sample_id: sample.id.clone(),
                segments: if sample.segments.is_empty() { placeholder(&self.plan) } else { sample.segments.clone() },
                raw_reward: rewards.map(|rewards| rewards.raw),
                shaped_reward: rewards.map(|rewards| rewards.shaped),
                valid: rewards.is_some(),
                finish_reason: sample.finish_reason.into(),
                exclude_from_loss: mask_truncated && sample.finish_reason == FinishReason::Length,
            }
        };
        TrainGroup {
            group_id: self.plan.id.to_string(),
            index,
            prompt_token_ids: self.plan.prompt_token_ids.to_vec(),
            samples: self.samples.iter().map(sample).collect(),
        }
    }
}

/// What stands for the response of a sample that could not be had: it was asked for, so that it stays in its group, and it is in no
/// statistic and no loss, so that what it holds does not matter.
fn placeholder(plan: &Plan) -> Vec<Segment> {
    vec![Segment::injected(plan.prompt_token_ids.iter().rev().take(1).copied().collect())]
}

/// From raw to shaped rewards: DAPO's overlong penalty.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shaping {
    buffer: f64,
    penalty: f64,
    max_tokens: f64,
}

impl Shaping {
    pub(crate) fn new(shaping: &ShapingSettings, sampling: &SamplingSettings) -> Self {
        Self {
            buffer: shaping.overlong_buffer_tokens.into(),
            penalty: shaping.overlong_penalty,
            max_tokens: sampling.max_tokens.into(),
        }
    }

    /// The rewards of an answer of so many tokens: 0 penalty up to the buffer, all of it at `max_tokens`, never more.
    pub(crate) fn rewards(&self, raw: f64, tokens: usize) -> Rewards {
        if self.buffer == 0.0 {
            return Rewards { raw, shaped: raw };
        }
        let over = tokens as f64 - (self.max_tokens - self.buffer);
        Rewards { raw, shaped: raw - self.penalty * (over / self.buffer).clamp(0.0, 1.0) }
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_proto::Purpose;

    use super::*;

    fn group(raw: &[Option<f64>]) -> SampledGroup {
        let id = GroupId { purpose: Purpose::Train, step: 1, prompt: 2 };
        let plan = Plan { id, prompt_token_ids: vec![5, 6].into(), task: Task::math(["1".to_owned()]).unwrap() };
        let sample = |(number, raw): (usize, &Option<f64>)| Sample {
            id: id.sample(number as u32).to_string(),
            segments: raw.map_or(vec![], |_| vec![Segment::sampled(vec![7], vec![-0.5], 3)]),
            finish_reason: FinishReason::Length,
            tokens: 1,
            judgement: match *raw {
                Some(raw) => {
                    Judgement::Valid { outcome: Outcome::Correct, rewards: Rewards { raw, shaped: raw - 0.1 } }
                }
                None => Judgement::Failed { message: "engine lost".into(), late: false },
            },
            verified_again: 0,
            begun_again: 0,
        };
        SampledGroup { plan, samples: raw.iter().enumerate().map(sample).collect() }
    }

    #[test]
    fn signal_is_a_difference_of_raw_rewards_among_valid_samples() {
        assert!(group(&[Some(1.0), Some(0.0)]).has_signal());
        assert!(!group(&[Some(1.0), Some(1.0), None]).has_signal());
        assert!(!group(&[None, None]).has_signal());
        assert_eq!(group(&[Some(0.0), None]).all_equal(), Some(0.0));
    }

    #[test]
    fn a_group_travels_whole_and_a_failed_sample_keeps_its_place() {
        let message = group(&[Some(1.0), None]).to_train(4, true);
        assert_eq!((message.group_id.as_str(), message.index), ("train/1/2", 4));
        assert!(message.responses().is_ok());
        assert!(message.samples[0].valid && message.samples[0].exclude_from_loss);
        assert_eq!((message.samples[0].raw_reward, message.samples[0].shaped_reward), (Some(1.0), Some(0.9)));
        assert_eq!((message.samples[1].valid, message.samples[1].raw_reward), (false, None));
        assert_eq!(message.responses().unwrap()[1].trainable_count(), 0);
    }

    #[test]
    fn the_overlong_penalty_grows_over_its_buffer_and_stops() {
        let sampling = SamplingSettings { max_tokens: 100, ..SamplingSettings::default() };
        let settings =
            ShapingSettings { overlong_buffer_tokens: 20, overlong_penalty: 0.5, ..ShapingSettings::default() };
        let shaping = Shaping::new(&settings, &sampling);
        let penalties = [1, 80, 90, 100, 120].map(|tokens| 1.0 - shaping.rewards(1.0, tokens).shaped);
        assert_eq!(penalties, [0.0, 0.0, 0.25, 0.5, 0.5]);
    }
}
