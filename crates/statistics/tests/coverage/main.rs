//! How often intervals contain what they estimate, and how often tests err, by simulation from known distributions.
//!
//! A short form runs always, from fixed seeds: it gives the same numbers on every run, and its bounds are at least four Monte Carlo standard
//! errors from what the long form measures. `EVENKEEL_LONG=1 cargo test --release -p evenkeel-statistics --test coverage -- --nocapture` is the
//! long form; its tables are in docs/statistics.md.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and its numbers are shown with --nocapture"
)]

mod chance;
mod paired;
mod support;
mod tasks;
