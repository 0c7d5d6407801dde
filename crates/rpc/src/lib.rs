//! gRPC as every server and client of Evenkeel speaks it, so that all of them start, refuse, drain and retry the same way.
//!
//! - [`server`]: the lifecycle of a server, from its ports to its last answer.
//! - [`items`]: streams of items with their own ids, deadlines and cancellation, as the server sees them.
//! - [`dispatch`]: the same streams as the client sees them: many workers, the least loaded first, nothing lost or counted twice.
//! - [`balance`]: which member of a pool gets the next item.
//! - [`client`]: channels to a single server.
//! - [`memory`]: what is free goes back to the system.
//! - [`roots`]: folders that clients may name.
//! - [`deadline`], [`admission`], [`error`]: time that runs out, queues that are full, and how both are said over gRPC.
//! - [`retry`]: the one policy for trying again.
#![deny(unsafe_code)]

pub mod admission;
pub mod balance;
pub mod client;
pub mod deadline;
pub mod dispatch;
pub mod error;
pub mod items;
pub mod memory;
pub mod retry;
pub mod roots;
pub mod server;

mod files;
mod peer;
