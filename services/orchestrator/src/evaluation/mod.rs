//! Evaluation: problems that are never trained on, several samples for each, every answer kept.
//!
//! [`Benchmarks`] are what is evaluated. [`evaluate`] samples and verifies all of them in one pool, so that none waits for another, and
//! writes each group of answers as soon as its last verdict is in ([`AnswerFile`]). [`Scores`] are the accuracies of what was written.

mod answer;
mod answer_file;
mod benchmark;
mod manifest;
mod pool;
mod scores;

pub use answer::{Answer, AnswerVerdict};
pub use answer_file::{AnswerReader, list_answers};
pub(crate) use benchmark::{Benchmarks, named_prompts};
pub(crate) use pool::{EvaluationTarget, evaluate, refuse_other};
pub(crate) use scores::write_scores;

/// The folder of a run directory with a folder for each evaluation.
pub(crate) const FOLDER: &str = "evaluation";

/// The folder of the evaluation after that many GRPO steps.
pub(crate) fn step_folder(run: &std::path::Path, step: u64) -> std::path::PathBuf {
    run.join(FOLDER).join(format!("step-{step}"))
}
