//! Rates of errors by simulation.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod coverage;
mod evidence;
#[path = "../evidence_simulation/mod.rs"]
mod evidence_simulation;
#[path = "../simulation/mod.rs"]
mod simulation;
