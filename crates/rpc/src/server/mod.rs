//! The lifecycle of a server. In this order:
//!
//! 1. [`Server::bind`] takes every port and reads every file that the settings name; whatever is wrong is said now, before any work.
//! 2. Services are added; health is NOT_SERVING.
//! 3. [`Server::run`] (until a signal) or [`Server::spawn`] (within a process) serves; health is SERVING.
//! 4. At the end health is NOT_SERVING first, then the server settles, drains what it has, and after the drain's deadline cuts what
//!    is left. Nothing waits longer than that.

mod auth;
mod bind;
mod calls;
mod connections;
mod decoded;
mod drain;
mod incoming;
mod lifecycle;
mod metrics_port;
mod receive;
mod running;
mod schema;
mod settings;
mod signal;
mod tls;

pub use crate::files::FileError;
pub use bind::ServerError;
pub use drain::Drain;
pub use lifecycle::{Ended, Server};
pub use running::RunningServer;
pub use settings::{ServerSettings, ServerTlsSettings};
pub use signal::shutdown_signal;
