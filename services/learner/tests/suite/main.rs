//! The learner as a library and as a service, on small random models.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod accumulation;
mod bad_input;
mod checkpoints;
mod episodes;
mod lag;
mod lora;
mod lora_head;
mod probe;
mod ranks;
mod service;
mod skipped;
mod step_bits;
mod steps;
mod streaming;
mod supervised;
mod support;
