//! Programs in the sandbox: their verdicts, and what they cannot do.
#![allow(clippy::print_stderr)]

mod cells;
mod collector;
mod completions;
mod contest;
mod deterministic;
mod forgery;
mod programs;
mod sandbox;
mod series;
#[path = "../support/mod.rs"]
mod support;
