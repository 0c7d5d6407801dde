//! From settings to a server. Whatever is wrong is said before anything is served.

use std::future::Future;
use std::time::Duration;

use evenkeel_config::{ByteSize, Settings};
use evenkeel_proto::v1::reward_server::RewardServer;
use evenkeel_rpc::items::{ItemLimits, ItemServer};
use evenkeel_rpc::server::{Server, ShutdownOutcome};

use crate::error::RewardError;
use crate::judge::{Cells, Judge};
use crate::service::RewardService;
use crate::settings::{RewardConfig, SandboxStart};

/// Takes the port and returns a server that serves nothing yet: [`Server::spawn`] or [`Server::run`] does.
///
/// # Errors
/// Settings that cannot be, a port that is taken, a file that is not there.
pub async fn bind(config: RewardConfig) -> Result<Server, RewardError> {
    start(config, None).await
}

/// [`bind`], with programs in processes beside this one, which are started as `cells` says.
///
/// # Errors
/// Those of [`bind`].
pub async fn bind_with_cells(config: RewardConfig, cells: Cells) -> Result<Server, RewardError> {
    start(config, Some(cells)).await
}

async fn start(config: RewardConfig, cells: Option<Cells>) -> Result<Server, RewardError> {
    config.validate().map_err(RewardError::Setting)?;
    let judge = judge(&config, cells).await?;
    let server = Server::bind(&config.name, "reward.server", config.server.clone()).await?;
    // A check has no half of a verdict to give, so that a stopped one gets no grace.
    let RewardConfig { max_items, max_bytes, .. } = config;
    let limits = ItemLimits {
        max_items,
        max_memory: ByteSize::b(max_bytes as u64),
        max_running: config.thread_count(),
        grace: Duration::ZERO,
    };
    let items = ItemServer::new(limits, server.drain());
    let service = RewardService::new(config, judge, items, server.drain()).map_err(RewardError::Threads)?;
    let limit = server.max_message();
    let service = RewardServer::new(service).max_decoding_message_size(limit).max_encoding_message_size(limit);
    Ok(server.with_service(service))
}

/// The judge of a worker, with its sandbox where that is to be ready before anything is served.
async fn judge(config: &RewardConfig, cells: Option<Cells>) -> Result<Judge, RewardError> {
    let judge = Judge::new(config, cells);
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

/// [`bind`], and serves until `shutdown` ends.
///
/// # Errors
/// Those of [`bind`], and a transport that fails.
pub async fn serve(config: RewardConfig, shutdown: impl Future<Output = ()>) -> Result<ShutdownOutcome, RewardError> {
    Ok(bind(config).await?.run(shutdown).await?)
}
