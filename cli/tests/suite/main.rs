//! The binary as a user meets it: its commands, what they write, what they refuse, and that a run is the same run
//! however it is run.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod adapter_server;
mod agents;
mod agreement;
#[path = "../../../crates/rpc/tests/support/certificates.rs"]
#[allow(dead_code, reason = "not all of it is needed here")]
mod certificates;
mod check;
mod cluster;
mod code_run;
mod compare;
mod connections;
mod data;
mod distillation;
mod documented;
mod documents;
mod dry_run;
mod episodes;
mod episodes_vllm;
mod eval;
mod exact;
mod export;
mod flipped_bit;
mod fork;
mod functions;
mod gpu;
mod habits;
mod hub;
mod inputs;
mod judge_desk;
mod judges;
mod judges_overlap;
mod judges_vllm;
mod lora;
mod lora_by_name;
mod lora_vllm;
mod memory;
mod mended;
mod newcomer;
mod not_finite;
mod observed;
mod own_environment;
mod paper;
mod pipeline;
mod plain_http;
mod private_servers;
mod pulled_weights;
mod python;
mod ranks;
mod real_vllm;
mod recipes;
mod recompute;
mod refusals;
mod render;
mod replay;
mod runs;
mod scripted_engine;
mod secrets;
mod serving;
mod show;
mod signals;
mod starts;
mod study;
mod support;
mod tampering;
mod tied_head;
mod tinker;
mod tinker_by_name;
mod tinker_refused;
#[cfg(feature = "traces")]
mod traces;
mod trial;
mod verify;
mod verify_code;
mod watch;
