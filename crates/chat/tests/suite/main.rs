//! Prompts, and templates that are hostile.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod hostile;
mod prompts;
