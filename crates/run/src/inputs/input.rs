//! One input of a run: a file, or several that are one thing.

use std::path::PathBuf;

use evenkeel_host::FileStamp;
use serde::{Deserialize, Serialize};

/// What an input is read for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InputKind {
    /// A data file to train on.
    TrainingData,
    /// A data file to evaluate on.
    EvaluationData,
    /// A part of the model's folder: what the run begins with, and what a KL term refers to.
    Model,
    /// A part of the folder of a teacher.
    Teacher,
    /// A file with functions that give rewards.
    Reward,
    /// An environment that does not come with the program.
    Environment,
}

impl InputKind {
    /// Whether the input is the user's own code, which may be mended in the middle of a run.
    pub fn is_code(self) -> bool {
        matches!(self, Self::Reward | Self::Environment)
    }

    /// The kind in words, to follow an article.
    pub fn words(self) -> &'static str {
        match self {
            Self::TrainingData => "data file",
            Self::EvaluationData => "evaluation file",
            Self::Model => "model",
            Self::Teacher => "teacher",
            Self::Reward => "file of reward functions",
            Self::Environment => "environment",
        }
    }
}

/// What is in a file that a run reads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Input {
    pub kind: InputKind,
    /// Name of the file within its folder; `weights` for those of a model.
    pub name: String,
    /// Path from which it was read.
    pub path: PathBuf,
    /// `sha256:` and 64 hexadecimal digits.
    pub digest: String,
    /// How a large file is recognised without being read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stamps: Vec<FileStamp>,
}
