//! What answers are equal, from the outside.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod accounted;
mod around;
mod before;
mod bounds;
mod checks;
mod expressions;
#[path = "../judged/mod.rs"]
mod judged;
mod kinds;
mod laws;
mod listed;
mod meant;
mod notations;
mod own_sentence;
mod random;
mod refusals;
mod retracted;
mod rules;
mod spellings;
mod unicode;
