//! Starts the server. All errors in settings are reported before anything is served.

use evenkeel_config::Settings;
use evenkeel_proto::v1::environment_server::EnvironmentServer;
use evenkeel_rpc::BoxFuture;
use evenkeel_rpc::server::Server;
use evenkeel_sandbox::WorkerProcesses;

use crate::catalog::Catalog;
use crate::error::EnvironmentError;
use crate::service::EnvironmentService;
use crate::settings::EnvironmentSettings;

/// Binds the port. The returned server does not serve yet: [`Server::spawn`] or [`Server::run`] does.
///
/// # Errors
/// Invalid settings, a port that is in use, a missing file; a Python file or an OpenEnv server that has no environment.
pub fn bind(settings: EnvironmentSettings) -> BoxFuture<'static, Result<Server, EnvironmentError>> {
    Box::pin(start(settings, None))
}

/// [`bind`], with the programs of models in worker processes.
///
/// # Errors
/// Those of [`bind`].
pub fn bind_with_worker_processes(
    settings: EnvironmentSettings,
    processes: WorkerProcesses,
) -> BoxFuture<'static, Result<Server, EnvironmentError>> {
    Box::pin(start(settings, Some(processes)))
}

async fn start(settings: EnvironmentSettings, processes: Option<WorkerProcesses>) -> Result<Server, EnvironmentError> {
    settings.validate().map_err(EnvironmentError::Setting)?;
    let catalog = Catalog::of(&settings, processes).await?;
    let server = Server::bind(&settings.name, "environment.server", settings.server.clone()).await?;
    let service = EnvironmentService::new(&settings, catalog, server.drain());
    let limit = server.max_message();
    let service = EnvironmentServer::new(service).max_decoding_message_size(limit).max_encoding_message_size(limit);
    Ok(server.with_service(service))
}
