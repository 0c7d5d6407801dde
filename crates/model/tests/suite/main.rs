//! The network against a plain one, and against itself in other arrangements.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod backward;
mod decode;
mod sampled;
mod shared_layers;
mod shared_prefix;
#[path = "../support/mod.rs"]
mod support;
