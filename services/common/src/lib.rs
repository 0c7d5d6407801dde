//! What every server and client of Evenkeel shares, so that all of them start, refuse, measure, drain and retry the same way.
//!
//! - [`config`]: settings from defaults, TOML, environment and command line; a key that nobody reads is an error.
//! - [`telemetry`]: logs, metrics and the trace that follows a prompt through the services.
//! - [`server`]: the life of a server, from its ports to its last answer.
//! - [`items`]: streams of items with their own ids, deadlines and cancellation, as the server sees them.
//! - [`dispatch`]: the same streams as the client sees them: many workers, the least loaded first, nothing lost or counted twice.
//! - [`client`]: channels to a single server.
//! - [`roots`]: folders that clients may name.
//! - [`deadline`], [`admission`], [`error`]: time that runs out, queues that are full, and how both are said over gRPC.
#![forbid(unsafe_code)]

pub mod admission;
pub mod client;
pub mod config;
pub mod deadline;
pub mod dispatch;
pub mod error;
pub mod items;
pub mod roots;
pub mod server;
pub mod telemetry;

mod files;
mod peer;
