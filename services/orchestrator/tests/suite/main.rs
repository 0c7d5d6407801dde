//! The loop against scripted services over real loopback gRPC.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod agents;
mod audit;
mod completion;
mod data;
mod episodes;
mod evaluation;
mod first_observations;
mod observability;
mod order;
mod own_failures;
mod page;
mod partial;
mod partial_credit;
mod pipeline;
mod proof;
mod receipt;
mod report;
mod resume;
mod rollouts;
mod sampling;
mod server;
mod services;
mod sleep;
mod split;
mod starts;
mod support;
mod tokenizer;
mod verifiers;
