//! The audit of a run: that each prompt of its data order was trained on, filtered for a stated reason or invalid,
//! exactly once, and how long the responses that it was trained on were, compared with those that were sampled.
//!
//! A [`PromptLine`](evenkeel_run::PromptLine) is what a run writes for each step, [`check`] what follows from it,
//! [`lengths`] the comparison of lengths. All are functions of the lines alone.

mod check;
mod lengths;

pub use check::Audit;
pub use lengths::{LagLengths, Lengths, OvertakenLengths};

use evenkeel_run::{RunFilesError, RunRecord, read_prompts};

/// Whether each prompt of a run's data order was trained on, filtered for a stated reason or invalid, exactly once.
///
/// # Errors
/// A file that cannot be read or has other lines.
pub fn audit(run: &RunRecord) -> Result<Audit, RunFilesError> {
    Ok(Audit::of(&read_prompts(&run.path)?, run.steps.len() as u64))
}
