//! The lifecycle of an engine: port, model, scheduler, server, shutdown.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use evenkeel_config::Settings;
use evenkeel_rpc::BoxFuture;
use evenkeel_rpc::private::PrivateAddress;
use evenkeel_rpc::reload::BearerTokens;
use evenkeel_rpc::server::{HttpLimits, HttpPort, ServerCertificates, ServerTlsSettings};
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::error::EngineError;
use crate::folder::Model;
use crate::http::{App, probes, router};
use crate::metrics::Metrics;
use crate::scheduler::{Admission, Command, Scheduler};
use crate::settings::{EngineSettings, EngineTlsSettings};

/// How long aborted responses may take to reach their clients.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

pub struct Engine;

impl Engine {
    /// Binds the port, loads the model, and serves it on tasks of the calling runtime and threads of its own.
    ///
    /// # Errors
    /// Invalid settings, a port in use, or a folder without a supported model or with a tokenizer that does not fit it.
    pub fn start(settings: EngineSettings) -> BoxFuture<'static, Result<RunningEngine, EngineError>> {
        Box::pin(Self::load_and_serve(settings))
    }

    async fn load_and_serve(settings: EngineSettings) -> Result<RunningEngine, EngineError> {
        settings.validate()?;
        // The port first, so that a port in use is reported before a model is loaded.
        let listen = |source| EngineError::Listen { address: settings.listen.clone(), source };
        let listener = TcpListener::bind(&settings.listen).await.map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;

        let private = settings.private.then(|| PrivateAddress::claim(address));
        let keys = match &private {
            Some(private) => Some(private.tokens()),
            None => {
                settings.api_key_file.as_deref().map(|path| BearerTokens::open("api_key_file", path)).transpose()?
            }
        };
        let tls = settings.tls.as_ref().map(certificates).transpose()?;
        let open =
            if keys.is_none() { ", where anyone can use and change it without a key (api_key_file)" } else { "" };
        settings.protection().warn(&format!("the engine{open}"), address, "insecure");

        let from = settings.clone();
        let loading = tokio::task::spawn_blocking(move || {
            let model = Model::load(&from)?;
            let decoder = model.decoder(&from.model)?;
            Ok::<_, EngineError>((Arc::new(model), decoder))
        });
        let (model, decoder) = loading.await.map_err(EngineError::LoadTask)??;
        let started = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
        let metrics = Arc::new(Metrics::new(model.name.clone(), settings.kv_cache_tokens, started));
        let (scheduler, thread) = Scheduler::start(&settings, &model, decoder, &metrics)?;
        let admission = Admission::new(settings.max_sequences + settings.max_queue);
        let model_name = model.name.clone();
        let drain = settings.drain;
        let threads = settings.thread_count();
        let limits = HttpLimits {
            header: settings.header_deadline,
            idle: settings.header_deadline,
            body: settings.body_deadline,
            unread: settings.unread_deadline,
            ..HttpLimits::default()
        };
        let listen = settings.listen.clone();
        let connections = settings.max_connections;
        let app = Arc::new(App::new(settings, model, scheduler.clone(), admission, metrics));

        let stop = CancellationToken::new();
        let router = router(Arc::clone(&app), keys);
        let probes = Some(probes(app));
        let scheme = if tls.is_some() { "https" } else { "http" };
        let port = HttpPort { listener, listen, router, probes, tls, connections, limits };
        let server = tokio::spawn(port.serve(stop.clone()));
        tracing::info!(model = model_name, %address, threads, "engine started");
        let stop = stop.drop_guard();
        Ok(RunningEngine { private, address, scheme, model_name, drain, scheduler, thread, stop, server })
    }
}

fn certificates(tls: &EngineTlsSettings) -> Result<ServerCertificates, EngineError> {
    let EngineTlsSettings { certificate_file, key_file } = tls.clone();
    // Clients authenticate with their key.
    let settings = ServerTlsSettings { certificate_file, key_file, client_ca_file: None };
    Ok(ServerCertificates::for_http1("tls", &settings)?)
}

/// A running engine. Dropping it stops it without waiting for anything.
pub struct RunningEngine {
    /// First: it is dropped before the port is free.
    private: Option<PrivateAddress>,
    address: SocketAddr,
    scheme: &'static str,
    model_name: String,
    drain: Duration,
    scheduler: Scheduler,
    thread: JoinHandle<()>,
    stop: DropGuard,
    server: tokio::task::JoinHandle<()>,
}

/// How an engine ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shutdown {
    /// All responses in progress were completed.
    Drained,
    /// The drain timed out: the remaining samples ended as `abort`.
    Aborted,
}

impl RunningEngine {
    /// The address it listens on, with the actual port if the settings have 0.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// URL for clients on the same machine, without a trailing slash.
    pub fn endpoint(&self) -> String {
        let mut address = self.address;
        if address.ip().is_unspecified() {
            let loopback: SocketAddr =
                if address.is_ipv4() { ([127, 0, 0, 1], 0).into() } else { ([0, 0, 0, 0, 0, 0, 0, 1], 0).into() };
            address.set_ip(loopback.ip());
        }
        format!("{}://{address}", self.scheme)
    }

    /// The name under which clients request the model.
    pub fn model_name(&self) -> &str {
        &self.model_name
    }

    /// Waits until it ends by itself, which only happens after a failure.
    pub async fn ended(&mut self) -> EngineError {
        // Both results mean the same: the server has ended.
        let _ = (&mut self.server).await;
        EngineError::Stopped
    }

    /// Accepts no new connections, waits at most `drain` for responses in progress, aborts the rest, and ends.
    pub async fn stop(self) -> Shutdown {
        let Self { private, drain, scheduler, thread, stop, mut server, .. } = self;
        drop(private);
        drop(stop);
        let drained = tokio::time::timeout(drain, &mut server).await.is_ok();
        // If the thread has ended already, there is nothing left to abort.
        let _ = scheduler.send(Command::Stop).await;
        if !drained && tokio::time::timeout(FLUSH_TIMEOUT, &mut server).await.is_err() {
            server.abort();
        }
        let joined = tokio::task::spawn_blocking(move || thread.join()).await;
        if !matches!(joined, Ok(Ok(()))) {
            tracing::error!("the engine's thread panicked");
        }
        tracing::info!(drained, "engine stopped");
        if drained { Shutdown::Drained } else { Shutdown::Aborted }
    }
}

/// Refuses a folder that cannot be served with these settings, by reading its configuration, tokenizer and weights.
///
/// # Errors
/// As for [`Engine::start`].
pub fn validate_model_folder(settings: &EngineSettings) -> Result<(), EngineError> {
    let folder: &Path = &settings.model;
    Model::load(settings)?.decoder(folder).map(drop)
}
