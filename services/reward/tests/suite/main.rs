//! A worker and a gateway, from the perspective of a client.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod agreement;
mod functions;
mod gateway;
mod judge;
mod programs;
mod rows;
mod run_code;
mod streams;
#[path = "../support/mod.rs"]
mod support;
mod verdicts;
