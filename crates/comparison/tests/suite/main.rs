//! What a comparison says of runs whose numbers are known.
#![allow(clippy::unwrap_used, reason = "a test binary, helpers and all")]

mod chance;
mod collapsed_and_failed;
mod criterion;
mod findings;
mod laws;
mod refusals;
mod support;
mod table_one;
mod tasks;
mod text;
