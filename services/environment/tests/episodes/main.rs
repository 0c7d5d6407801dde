//! A worker on loopback: episodes as the run plays them.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod agents;
mod asynchronous;
mod built_in;
mod forks;
mod hints;
#[cfg(feature = "openenv")]
mod openenv;
mod own;
mod sandboxed;
mod support;
mod tasksets;
#[cfg(feature = "openenv")]
mod websocket;
