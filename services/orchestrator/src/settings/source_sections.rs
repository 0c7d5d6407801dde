//! Sections about where samples come from: the data and the engines.

use std::path::PathBuf;

use evenkeel_proto::v1::{CodeMode, CodeReward};
use evenkeel_tasks::{CodeRules, Fields, Rules};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::section::section;

/// Where problems come from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DataKind {
    /// Two-digit addition, made from the seed.
    #[default]
    Arithmetic,
    /// Files with a JSON object on each line.
    Jsonl,
}

/// The rules that programs run under.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ProgramMode {
    /// The reward service's setting.
    #[default]
    Service,
    /// As a process of its own would run.
    Strict,
    /// As LiveCodeBench's grader judges, oddities included and holes closed.
    Livecodebench,
}

/// What passed tests are worth.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ProgramReward {
    /// 1 where every test passed, otherwise 0.
    #[default]
    AllOrNothing,
    /// The share of tests that passed; not with `livecodebench`.
    PassedFraction,
}

/// What becomes of a prompt that leaves no room for an answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Overlong {
    /// The run is refused, naming the prompt.
    #[default]
    Refuse,
    /// It is left out, and counted in the log.
    Skip,
}

/// What engines do while the learner trains.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Engines {
    /// They keep their memory.
    #[default]
    Awake,
    /// They sleep, with their weights in the host's memory.
    Offload,
    /// They sleep, without weights.
    Discard,
}

section! {
    /// Section `data`. What a row asks and how it is judged follows from its columns: see docs/recipes.md.
    pub struct DataSettings {
        /// Where problems come from.
        kind: DataKind = DataKind::Arithmetic,
        /// With `jsonl`: the file with the problems that are trained on.
        path: Option<PathBuf> = None,
        /// With `jsonl`: the file with problems for evaluation. Absent: they are taken out of `path`, by the seed.
        held_out_path: Option<PathBuf> = None,
        /// With `jsonl`: field with the prompt, a text. Empty: the first of `prompt`, `problem`, `question`, `question_content`.
        prompt_field: String = String::new(),
        /// With `jsonl`: field with the gold answer, a text, a number or a list of them, as `reward_model.ground_truth`. Empty: the first of
        /// `gold`, `reward_model.ground_truth`, `final_answer`, `answer`, `label`, `solution`; rows with tests need none.
        answer_field: String = String::new(),
        /// With `jsonl`: field with an answer to imitate in the warm start; only needed with `warm_start.steps` above 0. Empty:
        /// `demonstration`.
        demonstration_field: String = String::new(),
        /// With `jsonl`: field with a name for messages. Empty: the first of `id`, `question_id`. Rows without it are named by their line.
        id_field: String = String::new(),
        /// Name of the data in metrics (`val-core/NAME/acc/mean@1`). Empty: `arithmetic`, or the file's name without extension.
        source: String = String::new(),
        /// Another order in each epoch, by the seed. Off: the order of the file, again and again.
        shuffle: bool = true,
        /// Prompts that leave no room for an answer: `refuse` or `skip`.
        overlong: Overlong = Overlong::Refuse,
        /// Profile of the verifier for mathematics, where a row names none; empty is the reward service's default.
        math_profile: String = String::new(),
        /// The rules that programs run under.
        program_mode: ProgramMode = ProgramMode::Service,
        /// What passed tests are worth.
        program_reward: ProgramReward = ProgramReward::AllOrNothing,
    }
}

impl DataSettings {
    /// Which columns are read.
    pub(crate) fn fields(&self) -> Fields {
        Fields::named(&self.prompt_field, &self.answer_field, &self.demonstration_field, &self.id_field)
    }

    /// How answers are judged where a row does not say.
    pub(crate) fn rules(&self) -> Rules {
        let mode = match self.program_mode {
            ProgramMode::Service => CodeMode::Unspecified,
            ProgramMode::Strict => CodeMode::Strict,
            ProgramMode::Livecodebench => CodeMode::LiveCodeBench,
        };
        let reward = match self.program_reward {
            ProgramReward::AllOrNothing => CodeReward::AllOrNothing,
            ProgramReward::PassedFraction => CodeReward::PassedFraction,
        };
        Rules { math_profile: self.math_profile.clone(), code: CodeRules { mode, reward, ..CodeRules::default() } }
    }
}
