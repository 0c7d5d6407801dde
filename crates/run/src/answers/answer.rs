//! One answer to a problem, as it is kept.

use std::collections::BTreeMap;

use evenkeel_proto::Label;
use evenkeel_proto::v1::{FinishReason, Outcome};
use serde::{Deserialize, Serialize};

use crate::labelled::Labelled;
use crate::reward_parts::telling_parts;
use crate::turn::RolloutTurn;

/// One sample of an evaluation: a line of its file. All samples of a problem stand together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EvaluationAnswer {
    /// Name of the benchmark.
    pub benchmark: String,
    /// Name of the problem, by its row.
    pub problem: String,
    /// Place of the problem in the benchmark, from 0.
    pub index: u64,
    /// Number of the sample, from 0.
    pub sample: u32,
    /// Gold answers; none where programs are judged by tests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gold: Vec<String>,
    /// What the model saw, with its special tokens.
    pub prompt: String,
    /// The model's answer as the verifier got it: without special tokens.
    pub text: String,
    /// The tokens of the answer.
    pub token_ids: Vec<u32>,
    /// Why the answer ended: `stop`, `length` (cut off), `repetition`; `failed` where there is none.
    pub finish_reason: Labelled<FinishReason>,
    /// Outcome of the answer.
    pub verdict: AnswerVerdict,
    /// Finer than the verdict, such as `equal_rational`; why there is no verdict where there is none.
    pub reason: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// The raw reward; absent without a verdict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
    /// The parts of the shaped reward by name, before their weights; none where there is only one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub components: BTreeMap<String, f64>,
    /// The final answer in canonical form, by which votes are counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// The final answer or program as it was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extracted: Option<String>,
    /// All turns of an episode with several, in order; `text` is the last turn of the model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub turns: Vec<RolloutTurn>,
    /// The budget that ended such an episode: `turns`, `turn_tokens`, `tokens`, `context`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_up: Option<String>,
}

/// The outcome of an answer: the verifier's, or why there is none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum AnswerVerdict {
    /// The verifier's outcome; [`Outcome::Invalid`] for an answer without a verdict.
    Outcome(Outcome),
    /// No answer was generated.
    Failed,
    /// An outcome that this program does not know.
    Unknown(String),
}

impl AnswerVerdict {
    const FAILED: &str = "failed";

    /// The name of the outcome, `invalid` for an answer without a verdict, `failed` for a sample without an answer.
    pub fn label(&self) -> &str {
        match self {
            Self::Outcome(outcome) => outcome.label(),
            Self::Failed => Self::FAILED,
            Self::Unknown(label) => label,
        }
    }

    /// Whether the answer has a verdict, so that it counts.
    pub fn is_valid(&self) -> bool {
        !matches!(self, Self::Outcome(Outcome::Invalid) | Self::Failed)
    }

    /// Whether the answer is *correct*; `None` without a verdict, and where nobody says so.
    pub fn correct(&self) -> Option<bool> {
        match self {
            Self::Outcome(outcome) => outcome.correct(),
            Self::Failed | Self::Unknown(_) => None,
        }
    }
}

impl From<String> for AnswerVerdict {
    fn from(label: String) -> Self {
        match Outcome::from_label(&label) {
            Some(outcome) => Self::Outcome(outcome),
            None if label == Self::FAILED => Self::Failed,
            None => Self::Unknown(label),
        }
    }
}

impl From<AnswerVerdict> for String {
    fn from(verdict: AnswerVerdict) -> Self {
        verdict.label().to_owned()
    }
}

impl EvaluationAnswer {
    /// Whether the answer was cut off.
    pub fn is_truncated(&self) -> bool {
        self.finish_reason.known() == Some(FinishReason::Length)
    }

    /// The parts of the shaped reward that say more than the raw reward, by name; none where there is only one.
    pub fn telling_parts(&self) -> impl Iterator<Item = (&str, f64)> {
        telling_parts(&self.components, self.score)
    }
}
