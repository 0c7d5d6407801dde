//! The lifecycle of a server:
//!
//! 1. [`Server::bind`] binds the port and reads the files of the settings, so that errors appear before any work
//!    starts.
//! 2. Services are added; health is NOT_SERVING.
//! 3. [`Server::run`] (until a signal) or [`Server::spawn`] (in a task) serves; health is SERVING.
//! 4. At shutdown health becomes NOT_SERVING; the server settles, drains work in progress, and aborts what is left
//!    after the time limit of the drain.

mod access;
mod bind;
mod body_deadline;
mod calls;
mod connections;
mod decoded_size;
mod descriptors;
mod drain;
mod hosts;
mod http_port;
mod incoming;
mod info;
mod lifecycle;
mod metrics_port;
mod receive;
mod received_body;
mod role;
mod running;
mod schema;
mod settings;
mod signal;
mod tls;
mod web_pages;

pub use crate::files::FileError;
pub use access::HttpTokenAuth;
pub use bind::ServerError;
pub use drain::Drain;
pub use hosts::{Hosts, allow_hosts, validate_host};
pub use http_port::{HttpLimits, HttpPort};
pub use info::ServerInfo;
pub use lifecycle::{Server, ShutdownOutcome};
pub use received_body::{ReceivedBody, read_up_to};
pub use role::Role;
pub use running::RunningServer;
pub use settings::{AuthSettings, ServerSettings, ServerTlsSettings};
pub use signal::{exit_on_early_signal, shutdown_signal, signals_are_handled};
pub use tls::ServerCertificates;
