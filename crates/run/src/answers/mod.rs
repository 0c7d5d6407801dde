//! Answers of evaluations: a folder for each, in it a file for each benchmark and what the answers are answers to.

mod answer;
mod answer_file;
mod manifest;

use std::path::{Path, PathBuf};

pub use answer::{AnswerVerdict, EvaluationAnswer};
pub use answer_file::{AnswerFile, AnswerReader, AnsweredGroups, list_answers};
pub use manifest::{AskedBenchmark, EvaluationManifest};

use crate::layout::EVALUATION_FOLDER;

/// The folder of the evaluation after that many GRPO steps.
pub fn evaluation_folder(run: &Path, step: u64) -> PathBuf {
    run.join(EVALUATION_FOLDER).join(format!("step-{step}"))
}
