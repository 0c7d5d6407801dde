//! Starts the server. All errors in settings are reported before anything is served.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_config::Settings;
use evenkeel_proto::v1::reward_server::RewardServer;
use evenkeel_rpc::BoxFuture;
use evenkeel_rpc::exposure::warn_of_plaintext;
use evenkeel_rpc::items::{ItemLimits, ItemServer};
use evenkeel_rpc::server::{HttpTokenAuth, Server, ServerError, ShutdownOutcome};

use crate::error::RewardError;
use crate::functions::Functions;
use crate::judge::RubricJudge;
use crate::run_code;
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
    let verifier = Arc::new(verifier(&settings, processes).await?);
    let judge = RubricJudge::open(&settings)?;
    let functions = Functions::start(&settings.functions, settings.function_tables).await?;
    let mut server = Server::bind(&settings.name, "reward.server", settings.server.clone()).await?;
    if !settings.http.listen.is_empty() {
        server = with_run_code(server, &settings, Arc::clone(&verifier)).await?;
    }
    let limits = ItemLimits {
        max_items: settings.max_items,
        max_memory: settings.max_memory,
        max_running: settings.thread_count(),
        // There are no partial verdicts that a cancelled check could still return.
        grace: Duration::ZERO,
    };
    let items = ItemServer::new(limits, server.drain());
    let service = RewardService::new(settings, (verifier, functions, judge), items, server.drain())
        .map_err(RewardError::Threads)?;
    let limit = server.max_message();
    let service = RewardServer::new(service).max_decoding_message_size(limit).max_encoding_message_size(limit);
    Ok(server.with_service(service))
}

/// Adds the port for programs over HTTP.
async fn with_run_code(
    server: Server,
    settings: &RewardSettings,
    verifier: Arc<Verifier>,
) -> Result<Server, RewardError> {
    let http = settings.http.clone();
    let token_file = http.token_file.as_deref();
    let auth = HttpTokenAuth::of_file("reward.http.token_file", token_file).map_err(ServerError::from)?;
    let because = http.why_plaintext();
    let listen = http.listen.clone();
    let connections = http.max_connections;
    let router = run_code::router(verifier, http, settings.name.clone(), auth);
    let (server, address) = server.with_http("reward.http.listen", &listen, router, connections).await?;
    tracing::info!(server = settings.name, %address, "programs over HTTP at /run_code");
    warn_of_plaintext("/run_code", address, because);
    Ok(server)
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
