//! Estimates with their uncertainty. Pure functions of numbers: no files, no clock, and the same bits for the same seed.
//!
//! - [`Estimate`]: a mean over problems with its standard error, and the average of several.
//! - [`Accuracies`]: what an evaluation with `k` samples for each problem reports: mean@k, best@k, pass@n, maj@k.
//! - [`compare`]: rules compared over seeds: paired differences with their intervals, the sign-flip test, Holm's procedure over the family.
//! - [`interquartile_mean`], [`interquartile_mean_difference`] and [`probability_of_improvement`]: rules compared over several tasks.
//! - [`Curve`]: last, peak, area, steps to a threshold and drop of a run; [`peak_by_chance`] and [`drop_by_chance`]: what of it is noise.
//!
//! How often the intervals contain what they estimate is measured by `tests/coverage.rs`; its numbers are in docs/statistics.md.
#![forbid(unsafe_code)]

mod at_k;
mod chance;
mod curve;
mod distribution;
mod estimate;
mod family;
mod improvement;
mod interval;
mod paired;
mod resample;
mod sign_flip;
mod tasks;

pub use at_k::{Accuracies, Attempt, Majority, pass_at};
pub use chance::{ByChance, Noise, drop_by_chance, peak_by_chance};
pub use curve::{Curve, Point};
pub use estimate::Estimate;
pub use family::compare;
pub use improvement::{Improvement, probability_of_improvement};
pub use interval::{Interval, Settings};
pub use paired::{Comparison, Evidence, Intervals, MIN_PAIRS, Test, Verdict, differences};
pub use sign_flip::MAX_EXACT_PAIRS;
pub use tasks::{OverTasks, Runs, interquartile_mean, interquartile_mean_difference};
