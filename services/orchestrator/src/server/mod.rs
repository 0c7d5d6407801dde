//! The service `evenkeel.v1.Orchestrator`: runs by name, over the same API that a terminal uses.

mod api;
mod confinement;
mod event_log;
mod metrics_stream;
mod registry;
mod request;
mod service;
mod settings;
mod start;

use std::sync::Arc;

use evenkeel_proto::FieldError;
use evenkeel_proto::v1::orchestrator_server::OrchestratorServer;
use evenkeel_rpc::BoxFuture;
use evenkeel_rpc::client::{ClientError, Connector};
use evenkeel_rpc::server::{Server, ServerError};

use crate::page::PageServer;
use crate::recipe::RecipeReader;
use service::NAME;

pub use service::OrchestratorService;
pub use settings::{OrchestratorSettings, StartSettings};

/// Binds the port of the settings and adds the service; [`Server::run`] or [`Server::spawn`] the result. `reader` knows
/// the sections of recipes that are not the orchestrator's own.
///
/// # Errors
/// A port that is taken, files of the settings that cannot be read.
pub fn serve(
    settings: OrchestratorSettings,
    reader: Arc<dyn RecipeReader>,
) -> BoxFuture<'static, Result<(Server, OrchestratorService), ServerError>> {
    Box::pin(bind(settings, reader))
}

async fn bind(
    settings: OrchestratorSettings,
    reader: Arc<dyn RecipeReader>,
) -> Result<(Server, OrchestratorService), ServerError> {
    // Invalid settings are refused before; here they would be no page.
    let page = match settings.page.address(None).ok().flatten() {
        Some(address) => Some(PageServer::bind(&address, &settings.runs, &settings.page).await?),
        None => None,
    };
    let server = Server::bind(NAME, "server", settings.server.clone()).await?;
    if let Some(client) = &settings.client {
        Connector::new("client", client.clone()).map_err(refused)?;
    }
    let service = OrchestratorService::new(settings, reader, server.drain());
    if let Some(page) = page {
        tracing::info!(url = page.url(), "page");
        service.show_on(page);
    }
    let limit = server.max_message();
    let grpc =
        OrchestratorServer::new(service.clone()).max_decoding_message_size(limit).max_encoding_message_size(limit);
    Ok((server.with_service(grpc), service))
}

fn refused(error: ClientError) -> ServerError {
    match error {
        ClientError::File(error) => error.into(),
        other => FieldError::new("client", "set", other.to_string()).into(),
    }
}
