//! The crate from outside, as a specification: the laws that must hold, gradients against differences of
//! the loss, names and ranges of settings, refusal of bad input, and the paper's quantities.

#![allow(clippy::unwrap_used, reason = "helpers of tests stand outside of #[test] functions")]

mod distillation;
mod gradients;
mod input;
mod kl;
mod laws;
mod mismatch;
mod overflow;
mod quantities;
mod settings;
mod sides;
mod since;
mod support;
mod who_counts;
