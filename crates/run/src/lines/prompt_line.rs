//! What a run writes of the prompts of a step: a line of `prompts.jsonl`.

use evenkeel_proto::Label;
use serde::{Deserialize, Serialize};

use crate::labelled::Labelled;

/// The outcome of a prompt's group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PromptOutcome {
    /// The learner got it.
    Trained,
    /// The learner got it, and all its advantages are 0: it counts in means over groups and has no gradient.
    TrainedZeroAdvantage,
    /// Dropped by dynamic sampling, since all its advantages are 0.
    DroppedZeroAdvantage,
    /// The learner got it, and no sample has a verdict: it is in no statistic and no loss.
    Invalid,
    /// Dropped by dynamic sampling, since no sample has a verdict.
    DroppedInvalid,
}

impl Label for PromptOutcome {
    const ALL: &'static [Self] =
        &[Self::Trained, Self::TrainedZeroAdvantage, Self::DroppedZeroAdvantage, Self::Invalid, Self::DroppedInvalid];

    /// The name in `prompts.jsonl`.
    fn label(self) -> &'static str {
        match self {
            Self::Trained => "trained",
            Self::TrainedZeroAdvantage => "trained_zero_advantage",
            Self::DroppedZeroAdvantage => "dropped_zero_advantage",
            Self::Invalid => "invalid",
            Self::DroppedInvalid => "dropped_invalid",
        }
    }
}

impl PromptOutcome {
    /// Whether the learner got the group.
    pub const fn is_sent(self) -> bool {
        matches!(self, Self::Trained | Self::TrainedZeroAdvantage | Self::Invalid)
    }
}

/// A line: the prompts of a GRPO step.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PromptLine {
    /// Number of the step, from 1.
    pub step: u64,
    /// Version of the weights that it started from.
    pub base_version: u64,
    /// Number of the prompt with which the data order continues: all before it are in this line or an earlier one.
    pub next: u64,
    /// Numbers before `next` that are still being sampled, for a later step.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<u64>,
    /// What the learner says that it got.
    pub learner: Received,
    /// The groups that were trained on in their order, then the filtered ones.
    pub groups: Vec<GroupRecord>,
}

/// What the learner received in a step, by its own count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Received {
    /// Samples with a verdict.
    pub samples: u64,
    /// Tokens of all responses.
    pub tokens: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupRecord {
    /// Number of its prompt in the data order.
    pub prompt: u64,
    /// Outcome of the prompt's group.
    pub outcome: Labelled<PromptOutcome>,
    /// The oldest version that sampled a token of it; absent where no sample was generated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// The newest, if it is another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub newest: Option<u64>,
    /// Response tokens of each sample that has a verdict.
    pub lengths: Vec<u32>,
    /// Response tokens of each sample without a verdict; 0 for one that was not generated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub invalid: Vec<u32>,
}

impl GroupRecord {
    /// Whether the learner got it, as far as its outcome is known.
    pub fn is_sent(&self) -> bool {
        self.outcome.known().is_some_and(PromptOutcome::is_sent)
    }

    /// Response tokens of each sample that was generated.
    pub fn answers(&self) -> impl Iterator<Item = u32> {
        self.lengths.iter().chain(self.invalid.iter().filter(|length| **length > 0)).copied()
    }
}

impl PromptLine {
    /// The line without its line break.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("numbers and texts can be serialized")
    }

    /// Reads a line; `None` for any other text.
    pub fn from_json(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_back_and_is_short() {
        let groups = vec![
            GroupRecord {
                prompt: 7,
                outcome: PromptOutcome::Trained.into(),
                version: Some(3),
                newest: None,
                lengths: vec![12, 4],
                invalid: Vec::new(),
            },
            GroupRecord {
                prompt: 8,
                outcome: PromptOutcome::Invalid.into(),
                version: None,
                newest: None,
                lengths: Vec::new(),
                invalid: vec![0, 9],
            },
        ];
        let line = PromptLine {
            step: 2,
            base_version: 4,
            next: 9,
            waiting: vec![],
            learner: Received { samples: 2, tokens: 26 },
            groups,
        };
        let text = line.to_json();
        assert_eq!(
            text,
            "{\"step\":2,\"base_version\":4,\"next\":9,\"learner\":{\"samples\":2,\"tokens\":26},\"groups\":[\
             {\"prompt\":7,\"outcome\":\"trained\",\"version\":3,\"lengths\":[12,4]},\
             {\"prompt\":8,\"outcome\":\"invalid\",\"lengths\":[],\"invalid\":[0,9]}]}"
        );
        assert_eq!(PromptLine::from_json(&text), Some(line));
        assert_eq!(PromptLine::from_json("{\"step\":2}"), None);
    }

    #[test]
    fn outcomes_have_names_of_their_own() {
        for &outcome in PromptOutcome::ALL {
            assert_eq!(PromptOutcome::from_label(outcome.label()), Some(outcome));
        }
        assert_eq!(PromptOutcome::from_label("lost"), None);
    }
}
