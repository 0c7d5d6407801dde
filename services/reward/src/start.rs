//! Starts the server. All errors in settings are reported before anything is served.

use std::future::Future;
use std::time::Duration;

use evenkeel_config::Settings;
use evenkeel_proto::v1::reward_server::RewardServer;
use evenkeel_rpc::items::{ItemLimits, ItemServer};
use evenkeel_rpc::server::{Server, ShutdownOutcome};

use crate::error::RewardError;
use crate::judge::{Judge, WorkerProcesses};
use crate::service::RewardService;
use crate::settings::{RewardSettings, SandboxStart};

/// Binds the port. The returned server does not serve yet: [`Server::spawn`] or [`Server::run`] does.
///
/// # Errors
/// Invalid settings, a port that is in use, a missing file.
pub async fn bind(config: RewardSettings) -> Result<Server, RewardError> {
    start(config, None).await
}

/// [`bind`], with programs in worker processes.
///
/// # Errors
/// Those of [`bind`].
pub async fn bind_with_worker_processes(
    config: RewardSettings,
    processes: WorkerProcesses,
) -> Result<Server, RewardError> {
    start(config, Some(processes)).await
}

async fn start(config: RewardSettings, processes: Option<WorkerProcesses>) -> Result<Server, RewardError> {
    config.validate().map_err(RewardError::Setting)?;
    let judge = judge(&config, processes).await?;
    let server = Server::bind(&config.name, "reward.server", config.server.clone()).await?;
    let limits = ItemLimits {
        max_items: config.max_items,
        max_memory: config.max_memory,
        max_running: config.thread_count(),
        // There are no partial verdicts that a cancelled check could still return.
        grace: Duration::ZERO,
    };
    let items = ItemServer::new(limits, server.drain());
    let service = RewardService::new(config, judge, items, server.drain()).map_err(RewardError::Threads)?;
    let limit = server.max_message();
    let service = RewardServer::new(service).max_decoding_message_size(limit).max_encoding_message_size(limit);
    Ok(server.with_service(service))
}

/// The judge of a worker. Prepares the sandbox if the settings require that before anything is served.
async fn judge(config: &RewardSettings, processes: Option<WorkerProcesses>) -> Result<Judge, RewardError> {
    let judge = Judge::new(config, processes);
    if config.code.sandbox != SandboxStart::AtStart {
        return Ok(judge);
    }
    let preparing = tokio::task::spawn_blocking(move || {
        let prepared = judge.prepare_sandbox(&|line| tracing::info!("{line}"));
        prepared.map(|()| judge)
    });
    let prepared = preparing.await.map_err(|error| RewardError::Sandbox(error.to_string()))?;
    prepared.map_err(RewardError::Sandbox)
}

/// [`bind`], and serves until `shutdown` completes.
///
/// # Errors
/// Those of [`bind`], and transport errors.
pub async fn serve(config: RewardSettings, shutdown: impl Future<Output = ()>) -> Result<ShutdownOutcome, RewardError> {
    Ok(bind(config).await?.run(shutdown).await?)
}
