//! The generation service as its callers and its engines see it: over real loopback gRPC and HTTP, in front of scripted
//! engines. `VLLM_URL=http://HOST:PORT cargo test --release -p evenkeel-generation -- --ignored` runs the rest against
//! a real vLLM.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod abacus;
mod adapters;
mod answers;
mod engines;
mod exact;
mod names;
mod processes;
mod proof;
mod pull;
mod samples;
mod sleep;
mod startup;
mod support;
mod tied_head;
mod vllm;
mod weights;
