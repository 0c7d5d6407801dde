//! Servers and clients as services use them.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod access;
mod connections;
mod dispatch;
mod hostile_frames;
mod http;
mod items;
mod rotation;
mod server;
mod signals;
#[path = "../support/mod.rs"]
mod support;
mod tls;
