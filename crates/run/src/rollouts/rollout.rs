//! One sample of a training step, as it is kept.

use std::collections::BTreeMap;

use evenkeel_proto::v1::FinishReason;
use serde::{Deserialize, Serialize};

use super::NotTrained;
use crate::answers::AnswerVerdict;
use crate::error::RunFilesError;
use crate::labelled::Labelled;
use crate::lines::PromptOutcome;
use crate::reward_parts::telling_parts;
use crate::turn::RolloutTurn;

/// Fast compared with a step, and a quarter of the size.
const LEVEL: i32 = 3;

/// A sample of a training step: a line of the step's file. All samples of a group stand together: first the groups that
/// the learner got, in the order in which it got them, then those that were filtered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rollout {
    /// The step, from 1.
    pub step: u64,
    /// Number of its group's prompt in the data order, from 0: a problem that comes again has another one.
    pub group: u64,
    /// Number of the sample in its group, from 0.
    pub sample: u32,
    /// Name of the problem, by its row.
    pub problem: String,
    /// Place of the problem in the training data, from 0.
    pub index: u64,
    /// Name of its data source in metrics.
    pub data_source: String,
    /// What the model saw, with its special tokens.
    pub prompt: String,
    /// Gold answers; none where programs are judged by tests.
    #[serde(default)]
    pub gold: Vec<String>,
    /// What the model answered, as the verifier got it: without special tokens. Empty where there is no answer.
    pub text: String,
    /// Tokens of the answer.
    pub tokens: u32,
    /// Why the answer ended: `stop`, `length` (cut off), `repetition`; `failed` where there is none.
    pub finish_reason: Labelled<FinishReason>,
    /// The verifier's outcome; `invalid` without a verdict, `failed` without an answer.
    pub verdict: AnswerVerdict,
    /// Finer than the verdict, such as `equal_rational`; why there is no verdict or no answer where there is none.
    pub reason: String,
    /// Details of the verdict for people; may be empty.
    #[serde(default)]
    pub detail: String,
    /// The final answer or program as it was written.
    #[serde(default)]
    pub extracted: Option<String>,
    /// The raw reward, 0 to 1; null without a verdict.
    pub reward: Option<f64>,
    /// The reward after shaping, from which the advantage is computed; null without a verdict.
    pub shaped_reward: Option<f64>,
    /// The parts of the shaped reward by name, before their weights.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub components: BTreeMap<String, f64>,
    /// Advantage as the learner computed it; null where it did not get the sample.
    pub advantage: Option<f64>,
    /// What each token counts in the loss under the run's rule, normalizer of the mini-batch included; null likewise.
    pub weight: Option<f64>,
    /// Why the learner did not train on it; null where it did.
    pub not_trained: Option<Labelled<NotTrained>>,
    /// Outcome of the sample's group.
    pub group_outcome: Labelled<PromptOutcome>,
    /// Mean log-probability of its tokens by the engine that sampled them, in nats; null where there is no token.
    pub rollout_log_probability: Option<f64>,
    /// Mean log-probability by the learner, in the last update that took it; null where it did not go through the
    /// model.
    pub log_probability: Option<f64>,
    /// Mean over its tokens of the ratio that the objective clips, in the same update; null likewise.
    pub ratio: Option<f64>,
    /// Which weights sampled which part of it.
    pub segments: Vec<RolloutSegment>,
    /// All turns of an episode with several, in order; `text` is the last turn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub turns: Vec<RolloutTurn>,
    /// The budget that ended such an episode: `turns`, `turn_tokens`, `tokens`, `context`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_up: Option<String>,
    /// Token ids of the prompt, with `run.rollout_tokens`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_token_ids: Option<Vec<u32>>,
    /// Token ids of the prompt with the hint of its row, with `run.rollout_tokens`; absent without a hint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hinted_prompt_token_ids: Option<Vec<u32>>,
    /// Token ids of the answer, with `run.rollout_tokens`; absent where there is no answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_ids: Option<Vec<u32>>,
    /// The engine's log-probability of each, with `run.rollout_tokens`; null for a token that was not sampled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_log_probabilities: Option<Vec<Option<f32>>>,
    /// The prompts of turns that have their own, with `run.rollout_tokens`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub turn_prompts: Vec<TurnPrompt>,
}

/// What the model saw before a turn, where that is not the prompt and the tokens before it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnPrompt {
    /// Index in `token_ids` of the first token that was sampled after it.
    pub first: u32,
    /// All of what it saw.
    pub token_ids: Vec<u32>,
}

/// A part of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RolloutSegment {
    /// Version of the weights that sampled it; null for tokens that were put there.
    pub version: Option<u64>,
    /// Number of tokens in the segment.
    pub tokens: u32,
}

impl Rollout {
    /// Whether the answer was cut off.
    pub fn is_truncated(&self) -> bool {
        self.finish_reason.known() == Some(FinishReason::Length)
    }

    /// The parts of the shaped reward that say more than the raw reward, by name; none where there is only one.
    pub fn telling_parts(&self) -> impl Iterator<Item = (&str, f64)> {
        telling_parts(&self.components, self.reward)
    }

    /// Why the sample was not trained on, in words; `None` if it was.
    pub fn why_not_trained(&self) -> Option<&str> {
        let reason = self.not_trained.as_ref()?;
        Some(match reason.known() {
            Some(known) => known.words(),
            None => reason.label(),
        })
    }
}

/// The file of a step: its samples as lines, compressed in one zstd frame, which every reader of zstd takes.
///
/// # Errors
/// A defect of this program.
pub fn encode_rollouts(rollouts: &[Rollout]) -> Result<Vec<u8>, RunFilesError> {
    let defect = |error: &dyn std::error::Error| RunFilesError::Defect(error.to_string());
    let mut lines = Vec::new();
    for rollout in rollouts {
        serde_json::to_writer(&mut lines, rollout).map_err(|error| defect(&error))?;
        lines.push(b'\n');
    }
    zstd::bulk::compress(&lines, LEVEL).map_err(|error| defect(&error))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A sample of a step, with the group as its problem.
    pub(crate) fn rollout(step: u64, group: u64, sample: u32) -> Rollout {
        let seed = step * 1000 + group * 10 + u64::from(sample);
        let right = sample == 0;
        Rollout {
            step,
            group,
            sample,
            problem: format!("train.jsonl#{group}"),
            index: group,
            data_source: "sums".into(),
            prompt: "1+1=".into(),
            gold: vec!["2".into()],
            text: format!("I think that it is {seed}."),
            tokens: 9,
            finish_reason: FinishReason::Stop.into(),
            verdict: if right { "correct" } else { "incorrect" }.to_owned().into(),
            reason: "equal".into(),
            detail: String::new(),
            extracted: Some("2".into()),
            reward: Some(f64::from(u8::from(right))),
            shaped_reward: Some(0.5),
            components: BTreeMap::new(),
            advantage: Some(if right { 1.5 } else { -0.5 }),
            weight: Some(0.25),
            not_trained: None,
            group_outcome: PromptOutcome::Trained.into(),
            rollout_log_probability: Some(-0.5),
            log_probability: Some(-0.5),
            ratio: Some(1.0),
            segments: vec![RolloutSegment { version: Some(step - 1), tokens: 9 }],
            turns: vec![],
            used_up: None,
            prompt_token_ids: None,
            hinted_prompt_token_ids: None,
            token_ids: None,
            token_log_probabilities: None,
            turn_prompts: vec![],
        }
    }

    #[test]
    fn a_line_is_read_back_and_every_column_is_in_every_line() {
        let trained = rollout(3, 7, 0);
        let failed = Rollout {
            reward: None,
            advantage: None,
            not_trained: Some(NotTrained::Failed.into()),
            segments: vec![],
            ..rollout(3, 7, 1)
        };
        let keys = |rollout: &Rollout| {
            let value = serde_json::to_value(rollout).unwrap();
            assert_eq!(serde_json::from_value::<Rollout>(value.clone()).unwrap(), *rollout);
            value.as_object().unwrap().keys().cloned().collect::<Vec<_>>()
        };
        assert_eq!(keys(&trained), keys(&failed), "tables have the same columns for both");
        assert!(!keys(&trained).contains(&"token_ids".to_owned()));
    }

    #[test]
    fn a_turn_has_the_reward_that_was_given_for_it_and_no_column_for_none() {
        let turn =
            |reward| RolloutTurn { role: "assistant".into(), text: "a".into(), tokens: 1, trained: true, reward };
        for (reward, has_column) in [(None, false), (Some(0.0), true), (Some(-2.5), true)] {
            let value = serde_json::to_value(turn(reward)).unwrap();
            assert_eq!(value.get("reward").is_some(), has_column, "{value}");
            assert_eq!(serde_json::from_value::<RolloutTurn>(value).unwrap(), turn(reward));
        }
    }
}
