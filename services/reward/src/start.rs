//! Starts the server. All errors in settings are reported before anything is served.

use std::future::Future;
use std::time::Duration;

use evenkeel_config::Settings;
use evenkeel_proto::v1::reward_server::RewardServer;
use evenkeel_rpc::BoxFuture;
use evenkeel_rpc::items::{ItemLimits, ItemServer};
use evenkeel_rpc::server::{Server, ShutdownOutcome};

use crate::error::RewardError;
use crate::service::RewardService;
use crate::settings::{RewardSettings, SandboxStart};
use crate::verifier::{Verifier, WorkerProcesses};

/// Binds the port. The returned server does not serve yet: [`Server::spawn`] or [`Server::run`] does.
///
/// # Errors
/// Invalid settings, a port that is in use, a missing file.
pub fn bind(settings: RewardSettings) -> BoxFuture<'static, Result<Server, RewardError>> {
    Box::pin(start(settings, None))
}

/// [`bind`], with programs in worker processes.
///
/// # Errors
/// Those of [`bind`].
pub fn bind_with_worker_processes(
    settings: RewardSettings,
    processes: WorkerProcesses,
) -> BoxFuture<'static, Result<Server, RewardError>> {
    Box::pin(start(settings, Some(processes)))
}

async fn start(settings: RewardSettings, processes: Option<WorkerProcesses>) -> Result<Server, RewardError> {
    settings.validate().map_err(RewardError::Setting)?;
    let verifier = verifier(&settings, processes).await?;
    let server = Server::bind(&settings.name, "reward.server", settings.server.clone()).await?;
    let limits = ItemLimits {
        max_items: settings.max_items,
        max_memory: settings.max_memory,
        max_running: settings.thread_count(),
        // There are no partial verdicts that a cancelled check could still return.
        grace: Duration::ZERO,
    };
    let items = ItemServer::new(limits, server.drain());
    let service = RewardService::new(settings, verifier, items, server.drain()).map_err(RewardError::Threads)?;
    let limit = server.max_message();
    let service = RewardServer::new(service).max_decoding_message_size(limit).max_encoding_message_size(limit);
    Ok(server.with_service(service))
}

/// The verifier of a worker. Prepares the sandbox if the settings require that before anything is served.
async fn verifier(settings: &RewardSettings, processes: Option<WorkerProcesses>) -> Result<Verifier, RewardError> {
    let verifier = Verifier::new(settings, processes);
    if settings.code.sandbox != SandboxStart::AtStart {
        return Ok(verifier);
    }
    let preparing = tokio::task::spawn_blocking(move || {
        let prepared = verifier.prepare_sandbox(&|line| tracing::info!("{line}"));
        prepared.map(|()| verifier)
    });
    Ok(preparing.await.map_err(RewardError::Preparation)??)
}

/// [`bind`], and serves until `shutdown` completes.
///
/// # Errors
/// Those of [`bind`], and transport errors.
pub async fn serve(
    settings: RewardSettings,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Result<ShutdownOutcome, RewardError> {
    Ok(bind(settings).await?.run(shutdown).await?)
}
