//! What answers are equal, from the outside.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod accounted;
mod bounds;
mod checks;
mod expressions;
#[path = "../judged/mod.rs"]
mod judged;
mod kinds;
mod laws;
mod random;
mod refusals;
mod rules;
mod spellings;
mod unicode;
