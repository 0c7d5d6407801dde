//! The life of an engine: the port, the model, the scheduler, the server, and back.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use evenkeel_common::config::Settings;
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::connections::{self, Limits};
use crate::error::EngineError;
use crate::folder::Model;
use crate::http::{ApiKey, App, probes, router};
use crate::metrics::Metrics;
use crate::scheduler::{Admission, Order, Scheduler};
use crate::settings::EngineConfig;

/// How long aborted answers may take to reach their clients.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Starts engines.
pub struct Engine;

impl Engine {
    /// Takes the port, reads the model, and serves it on tasks of the calling runtime and threads of its own.
    ///
    /// # Errors
    /// Settings that cannot be, a port that is taken, a folder that is no model or whose tokenizer does not fit it: each names what
    /// it is about. Nothing runs then.
    pub async fn start(settings: EngineConfig) -> Result<RunningEngine, EngineError> {
        settings.check()?;
        // The port first: that it is taken must not take a model's loading to find out.
        let listen = |source| EngineError::Listen { address: settings.listen.clone(), source };
        let listener = TcpListener::bind(&settings.listen).await.map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;

        let key = settings.api_key_file.as_deref().map(ApiKey::read).transpose()?;
        if key.is_none() && !address.ip().is_loopback() {
            tracing::warn!(%address, "anybody who reaches this port may use and change the engine: see api_key_file");
        }

        let from = settings.clone();
        let loading = tokio::task::spawn_blocking(move || {
            let model = Model::load(&from)?;
            let decoder = model.decoder(&from.model)?;
            Ok::<_, EngineError>((Arc::new(model), decoder))
        });
        let (model, decoder) = loading.await.map_err(|error| EngineError::Thread(error.to_string()))??;
        let started = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
        let metrics = Arc::new(Metrics::new(model.name.clone(), settings.kv_cache_tokens, started));
        let (scheduler, thread) = Scheduler::start(&settings, &model, decoder, &metrics)?;
        let admission = Admission::new(settings.max_sequences + settings.max_queue);
        let model_name = model.name.clone();
        let drain = Duration::from_millis(settings.drain_ms);
        let threads = settings.thread_count();
        let limits = Limits {
            connections: settings.max_connections,
            header: Duration::from_millis(settings.header_deadline_ms),
        };
        let app = Arc::new(App::new(settings, model, scheduler.clone(), admission, metrics));

        let stop = CancellationToken::new();
        let (routes, probes) = (router(Arc::clone(&app), key), probes(app));
        let serving = connections::serve(listener, routes, probes, limits.within_descriptors(), stop.clone());
        let server = tokio::spawn(serving);
        tracing::info!(model = model_name, %address, threads, "engine serves");
        Ok(RunningEngine { address, model_name, drain, scheduler, thread, stop: stop.drop_guard(), server })
    }
}

/// An engine that serves. Dropping it stops it, without waiting for anything.
pub struct RunningEngine {
    address: SocketAddr,
    model_name: String,
    drain: Duration,
    scheduler: Scheduler,
    thread: JoinHandle<()>,
    stop: DropGuard,
    server: tokio::task::JoinHandle<()>,
}

/// How an engine ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Everything that was begun was answered in full.
    Drained,
    /// The drain's deadline ended first: what was left ended as `abort`.
    Cut,
}

impl RunningEngine {
    /// What it listens on; the port that was found where the settings said 0.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How clients in the same process reach it, as a URL without a slash at the end.
    pub fn endpoint(&self) -> String {
        let mut address = self.address;
        if address.ip().is_unspecified() {
            let loopback: SocketAddr =
                if address.is_ipv4() { ([127, 0, 0, 1], 0).into() } else { ([0, 0, 0, 0, 0, 0, 0, 1], 0).into() };
            address.set_ip(loopback.ip());
        }
        format!("http://{address}")
    }

    /// The name that clients ask for.
    pub fn model_name(&self) -> &str {
        &self.model_name
    }

    /// Waits until it ends by itself, which it does only where something broke.
    pub async fn ended(&mut self) -> EngineError {
        // Both of its results mean the same: there is no server any more.
        let _ = (&mut self.server).await;
        EngineError::Stopped
    }

    /// Takes no new connections, waits for answers in progress as long as the settings say, aborts what is left, and ends.
    pub async fn stop(self) -> Ended {
        let Self { drain, scheduler, thread, stop, mut server, .. } = self;
        drop(stop);
        let drained = tokio::time::timeout(drain, &mut server).await.is_ok();
        // The thread may be gone already, and then nothing is left to abort.
        let _ = scheduler.order(Order::Stop).await;
        if !drained && tokio::time::timeout(LAST_WORDS, &mut server).await.is_err() {
            server.abort();
        }
        let joined = tokio::task::spawn_blocking(move || thread.join()).await;
        if !matches!(joined, Ok(Ok(()))) {
            tracing::error!("the engine's thread had died");
        }
        tracing::info!(drained, "engine stopped");
        if drained { Ended::Drained } else { Ended::Cut }
    }
}

/// Whether a folder could be served with these settings: reads its configuration, its tokenizer and its weights.
///
/// # Errors
/// As [`Engine::start`].
pub fn check_folder(settings: &EngineConfig) -> Result<(), EngineError> {
    let folder: &Path = &settings.model;
    Model::load(settings)?.decoder(folder).map(drop)
}
