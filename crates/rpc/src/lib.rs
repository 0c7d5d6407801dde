//! The gRPC layer of all servers and clients: they start, refuse, drain and retry in the same way.
//!
//! - [`server`]: the lifecycle of a server, from binding its port to its shutdown.
//! - [`items`]: the server side of item streams: ids, deadlines, cancellation and backpressure for each item.
//! - [`dispatch`]: the client side of item streams: many workers, balanced by outstanding work, every item answered
//!   exactly once.
//! - [`balance`]: which member of a pool gets the next item.
//! - [`client`]: channels to a single server.
//! - [`roots`]: the folders that clients may name.
//! - [`exposure`], [`reload`]: who can reach a port, and certificates and tokens that are replaced while a process
//!   runs.
//! - [`private`]: servers that a process starts for itself alone.
//! - [`deadline`], [`admission`], [`error`]: deadlines, bounded queues, and the errors that report them.
//! - [`stall_timeout`]: connections whose readers take nothing.
//! - [`retry`]: the policy of retries.
#![forbid(unsafe_code)]

use std::pin::Pin;

pub mod accept;
pub mod admission;
pub mod balance;
pub mod client;
pub mod deadline;
pub mod dispatch;
pub mod error;
pub mod exposure;
pub mod http1;
pub mod items;
pub mod private;
pub mod reload;
pub mod retry;
pub mod roots;
pub mod series;
pub mod server;
pub mod stall_timeout;

mod files;
mod labels;
mod peer;
mod pem;

/// A future of any type. What starts a service returns one: it is then compiled once, with its crate, and not with
/// every program that awaits it.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
