//! The binary as a user meets it: its commands, what they write, what they refuse, and that a run is the same run however it is run.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod agreement;
mod audit;
mod cluster;
mod code_run;
mod compare;
mod connections;
mod data;
mod documents;
mod dry_run;
mod eval;
mod export;
mod fork;
mod gpu;
mod inputs;
mod newcomer;
mod not_finite;
mod observed;
mod pipeline;
mod python;
mod recipes;
mod refusals;
mod render;
mod runs;
mod scripted_engine;
mod secrets;
mod serving;
mod signals;
mod starts;
mod study;
mod support;
mod tied_head;
mod verify;
mod verify_code;
mod watch;
