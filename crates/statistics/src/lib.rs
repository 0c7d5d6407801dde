//! Estimates with their uncertainty. Pure functions of numbers: no files and no clock; what is drawn at random comes
//! from a seed.
//!
//! - [`Estimate`]: a mean over problems with its standard error, and the average of several.
//! - [`Accuracies`]: what an evaluation with `k` samples for each problem reports: mean@k, best@k, maj@k; [`pass_at`]:
//!   pass@n.
//! - [`Sample`]: one value for each seed, or the differences of paired seeds: Student's and the studentised bootstrap's
//!   interval of the mean, the t test and the sign-flip test; [`holm`] for many tests at once.
//! - [`InterquartileMean`], [`Improvement`]: over several tasks.
//! - [`evidence`]: e-processes, tests that may be read after every observation: of samples, their gaps and copies.
//! - [`Curve`]: peak, last value, area and steps to a threshold; [`peak_by_chance`]: what a peak is by chance alone.
//!
//! docs/statistics.md says what each is for and how often each interval has the true value in it.
#![warn(missing_docs)]
#![forbid(unsafe_code)]

mod at_k;
mod chance;
mod curve;
mod distribution;
mod estimate;
pub mod evidence;
mod holm;
mod improvement;
mod interquartile;
mod interval;
#[cfg(test)]
mod references;
mod resampling;
mod sample;
mod sign_flip;
mod studentised;

pub use at_k::{Accuracies, Attempt, Majority, pass_at};
pub use chance::peak_by_chance;
pub use curve::Curve;
pub use estimate::Estimate;
pub use holm::holm;
pub use improvement::Improvement;
pub use interquartile::InterquartileMean;
pub use interval::{Confidence, Interval};
pub use resampling::Resampling;
pub use sample::Sample;
pub use sign_flip::{SignFlip, smallest_p};
