//! The service `evenkeel.v1.Orchestrator`: runs by name, over the same API that a terminal uses.

mod config;
mod event_log;
mod metrics_stream;
mod registry;
mod request;
mod service;

use evenkeel_proto::v1::orchestrator_server::OrchestratorServer;
use evenkeel_rpc::server::{Server, ServerError};

pub use config::{OrchestratorConfig, StartConfig};
pub use registry::Inspect;
pub use service::OrchestratorService;

/// Takes the port of the settings and adds the service: [`Server::run`] or [`Server::spawn`] what comes back. `inspect` checks the
/// sections of other services, whose types this crate does not know.
///
/// # Errors
/// A port that is taken, files of the settings that cannot be read.
pub async fn serve(
    config: OrchestratorConfig,
    inspect: Option<Inspect>,
) -> Result<(Server, OrchestratorService), ServerError> {
    let server = Server::bind("orchestrator", "server", config.server.clone()).await?;
    let service = OrchestratorService::new(config, inspect, server.drain());
    let limit = server.max_message_bytes();
    let door =
        OrchestratorServer::new(service.clone()).max_decoding_message_size(limit).max_encoding_message_size(limit);
    Ok((server.with_service(door), service))
}
