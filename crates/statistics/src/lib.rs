//! Estimates with their uncertainty. Pure functions of numbers: no files, no clock, no random numbers.
//!
//! - [`Estimate`]: a mean over problems with its standard error, and the average of several.
//! - [`Accuracies`]: what an evaluation with `k` samples for each problem reports: mean@k, best@k, maj@k; [`pass_at`]: pass@n.
#![forbid(unsafe_code)]

mod at_k;
mod estimate;

pub use at_k::{Accuracies, Attempt, Majority, pass_at};
pub use estimate::Estimate;
