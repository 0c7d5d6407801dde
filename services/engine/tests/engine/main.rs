//! The engine from outside: over HTTP, as a client sees it.
#![allow(clippy::unwrap_used, reason = "a test binary, helpers and all")]

mod answers;
mod control;
mod hostile;
mod limits;
mod refusals;
mod seeds;
mod shared_prefix;
mod start;
mod statuses;
mod stopping;
mod support;
mod tls;
mod vllm;
