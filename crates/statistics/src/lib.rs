//! Estimates with their uncertainty.
//!
//! - [`Estimate`]: a mean over problems with its standard error, and the average of several.
//! - [`Accuracies`]: what an evaluation with `k` samples for each problem reports: mean@k, best@k, pass@n, maj@k.
#![forbid(unsafe_code)]

mod at_k;
mod estimate;

pub use at_k::{Accuracies, Attempt, pass_at};
pub use estimate::Estimate;
