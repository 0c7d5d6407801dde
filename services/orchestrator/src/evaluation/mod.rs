//! Evaluation: problems that are never trained on, several samples for each, every answer kept.
//!
//! [`Benchmarks`] are what is evaluated. [`evaluate`] samples and verifies all of them in one pool, so that none waits
//! for another, and writes each group of answers as soon as its last verdict is in
//! ([`AnswerFile`](evenkeel_run::AnswerFile)). [`Scores`](scores::Scores) are the accuracies of what was written.

mod benchmark;
mod group_answers;
mod pool;
mod scores;

pub use benchmark::EvaluationJudge;
pub(crate) use benchmark::{Benchmarks, named_prompts};
pub(crate) use pool::{AuditedAnswers, EvaluationTarget, evaluate, refuse_other};
pub(crate) use scores::{advice, write_scores};
