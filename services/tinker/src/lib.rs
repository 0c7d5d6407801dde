//! A front that speaks Tinker's HTTP API, so that its SDK and tinker-cookbook train and sample on a learner and engines
//! of one's own.
//!
//! It has no model: gradients, updates, checkpoints and published weights are operations of the learner
//! (`evenkeel.v1.Learner/Operate`), samples come from the generation service. One model is trained at a time, by
//! adapters; what was saved to be sampled from stays valid while it is kept. [`start`] serves it;
//! [`RunningTinker::stop`] saves what is in memory.
//!
//! From the outside in: `routes` are the handlers, `operations` runs those of the model in `training` in the order of
//! their numbers (`queue`), `sampling` runs requests for samples, once the engines' weights are proven (`proof`),
//! `futures` keeps results, `store` what survives a restart (`kept`: checkpoints and samplers), `backend` calls the
//! services, and `engines` checks at the start that they fit together.
#![forbid(unsafe_code)]

mod admission;
mod backend;
mod datum;
mod engines;
mod error;
mod front;
mod futures;
mod kept;
mod operations;
mod proof;
mod queue;
mod routes;
mod sampling;
mod sessions;
mod settings;
mod store;
mod training;
mod wire;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_config::Settings;
use evenkeel_model_folder::{Folder, Tokenizer};
use evenkeel_proto::v1::operate_request::Kind;
use evenkeel_proto::v1::{BeginOperation, LoadOperation, PublishOperation};
use evenkeel_rpc::BoxFuture;
use evenkeel_rpc::reload::BearerTokens;
use evenkeel_rpc::server::{HttpLimits, HttpPort, ServerCertificates};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

pub use error::TinkerError;
pub use settings::{TinkerSettings, UnembedSetting};

use backend::Backend;
use engines::shared_context;
use error::Failure;
use front::{Front, FrontParts};
use proof::{LoadedWeights, ProvenModel};
use sampling::Sampler;
use store::{Live, StoredState, Weights};
use training::Training;

/// Interval at which what has expired is looked for.
const SWEEP: Duration = Duration::from_secs(1);
/// How long responses in progress may take when the server stops.
const DRAIN: Duration = Duration::from_secs(5);

/// The adapters that the learner trains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Adapters {
    pub rank: u32,
    /// Whether the layers of feed-forward blocks have some.
    pub mlp: bool,
    /// Whether the projections of attention have some.
    pub attention: bool,
    /// Whether the head has one.
    pub head: bool,
}

/// What the front stands in front of.
#[derive(Debug, Clone)]
pub struct Services {
    /// URL of the learner.
    pub learner: String,
    /// URL of the generation service.
    pub generation: String,
    /// The folder of the model, for its tokenizer.
    pub model: PathBuf,
    /// What the learner trains.
    pub adapters: Adapters,
}

/// A running front. Dropping it stops it without saving anything.
pub struct RunningTinker {
    address: SocketAddr,
    scheme: &'static str,
    front: Arc<Front>,
    stop: DropGuard,
    server: JoinHandle<()>,
}

/// Binds the port, takes the learner over, and serves on tasks of the calling runtime.
///
/// # Errors
/// Invalid settings, a port in use, a learner or generation service that refuses, state that cannot be read.
pub fn start(settings: TinkerSettings, services: Services) -> BoxFuture<'static, Result<RunningTinker, TinkerError>> {
    Box::pin(load_and_serve(settings, services))
}

async fn load_and_serve(settings: TinkerSettings, services: Services) -> Result<RunningTinker, TinkerError> {
    settings.validate().map_err(TinkerError::Setting)?;
    let listen = |source| TinkerError::Listen { address: settings.listen.clone(), source };
    let listener = TcpListener::bind(&settings.listen).await.map_err(listen)?;
    let address = listener.local_addr().map_err(listen)?;
    let keys = settings.token_file.as_deref().map(|path| BearerTokens::open("tinker.token_file", path)).transpose()?;
    let tls = settings.tls.as_ref().map(|tls| ServerCertificates::for_http1("tinker.tls", tls)).transpose()?;
    settings.protection().warn("Tinker's API", address, "tinker.insecure");
    evenkeel_host::private_folder(&settings.folder).map_err(TinkerError::State)?;
    let mut state = StoredState::read(&settings.folder).map_err(TinkerError::State)?;
    let live = state.live.take();
    let tokenizer = Tokenizer::read(&Folder::new(&services.model))?.map(Arc::new);

    let backend = Backend::connect(&services.learner, &services.generation, &settings)?;
    let refused =
        |what| move |status: tonic::Status| TinkerError::Backend { what, message: status.message().to_owned() };
    let learner = backend.learner().await.map_err(refused("the learner does not answer"))?;
    let arithmetic = learner.arithmetic;
    let model = learner.model.unwrap_or_default();
    let engines = backend.generation().await.map_err(refused("the generation service does not answer"))?;
    let context = shared_context(&engines, &model, services.adapters).map_err(TinkerError::Engines)?;
    // Weights in memory that were not saved are lost: their clients are told so.
    for (id, model) in &mut state.models {
        if live.as_ref().is_none_or(|live| live.model != *id) {
            model.gone.get_or_insert_with(|| {
                "the server was restarted without saving the weights in training: load a checkpoint to \
                 continue"
                    .to_owned()
            });
        }
    }
    StoredState::write(&settings.folder, state.content()).map_err(TinkerError::State)?;
    let (samples, jobs) = mpsc::unbounded_channel();
    let connections = settings.max_connections;
    let listen = settings.listen.clone();
    let front = Front::new(FrontParts {
        backend: backend.clone(),
        adapters: services.adapters,
        architecture: model.architecture,
        context,
        vocabulary: model.vocabulary_size,
        has_tokenizer: tokenizer.is_some(),
        samples,
        state,
        settings,
    });
    let base = publish_base(&front).await?;
    if let Some(live) = live {
        continue_with(&front, live).await;
    }
    let proven = ProvenModel { base, context, vocabulary: front.vocabulary, tokenizer: tokenizer.clone(), arithmetic };
    let engines = LoadedWeights::new(backend.clone(), proven, &front.settings.proof, front.verdicts.clone());
    tokio::spawn(Sampler { backend, engines, tokenizer }.run(jobs));

    let stop = CancellationToken::new();
    let router = routes::router(Arc::clone(&front), keys);
    let scheme = if tls.is_some() { "https" } else { "http" };
    // Clients send bodies of many MiB, some at a time, over whatever line they have.
    let limits = HttpLimits { body: Duration::from_secs(300), ..HttpLimits::default() };
    let port = HttpPort { listener, listen, router, probes: None, tls, connections, limits };
    let serving = port.serve(stop.clone());
    let sweeping = Arc::clone(&front);
    let server = tokio::spawn(async move {
        let sweeps = async {
            loop {
                tokio::time::sleep(SWEEP).await;
                let front = Arc::clone(&sweeping);
                // It may remove folders.
                let _ = tokio::task::spawn_blocking(move || front.sweep()).await;
            }
        };
        tokio::select! {
            () = serving => {}
            () = sweeps => {}
        }
    });
    tracing::info!(%address, model = front.settings.model_name, "Tinker's API is served");
    Ok(RunningTinker { address, scheme, front, stop: stop.drop_guard(), server })
}

/// Publishes the base model for samplers, unless an earlier start did. The learner then has a version above all that
/// were ever published, as it must to score with those.
async fn publish_base(front: &Front) -> Result<Weights, TinkerError> {
    let what = "the learner does not publish the base model";
    let refused = |failure: Failure| TinkerError::Backend { what, message: failure.message };
    let version = front.fresh_version().map_err(refused)?;
    let run_id = format!("base.{version}");
    let begin = Kind::Begin(BeginOperation { version, adapter_seed: None });
    front.backend.operate(&run_id, 1, begin).await.map_err(|status| refused(status.into()))?;
    let known = front.state().base.clone();
    if let Some(base) = known.filter(|base| std::path::Path::new(&base.path).is_dir()) {
        return Ok(base);
    }
    let published = front.backend.operate(&run_id, 2, Kind::Publish(PublishOperation {})).await;
    let weights = published.map_err(|status| refused(status.into()))?.weights.and_then(Weights::of);
    let weights = weights.ok_or_else(|| refused(Failure::server("its answer has no folder")))?;
    front.change(|state| state.base.insert(weights).clone()).map_err(refused)
}

/// Continues with the weights that were saved when the server stopped. Where that fails, their client is told.
async fn continue_with(front: &Arc<Front>, live: Live) {
    let Live { model, run_id, name, folder, done, has_sum } = live;
    let session = front.state().models.get(&model).filter(|model| model.gone.is_none()).map(|m| m.session.clone());
    let Some(session) = session else { return };
    let continued = async {
        let version = front.fresh_version()?;
        let load = LoadOperation { name, from_run_id: run_id, optimizer: true, version };
        let run_id = format!("{}.{version}", model.replace(':', "."));
        front.backend.operate(&run_id, 1, Kind::Load(load)).await?;
        let training = Training::new(model.clone(), session, run_id, done);
        if has_sum {
            training.lost_sum(front).await?;
        }
        Ok::<_, Failure>(training)
    };
    match continued.await {
        Ok(training) => {
            if let Some(Err(error)) = folder.map(std::fs::remove_dir_all) {
                tracing::warn!(%error, "what was saved of the model in training is not removed");
            }
            tracing::info!(model, done, "the model in training continues");
            operations::activate(front, training);
        }
        Err(failure) => {
            tracing::warn!(model, error = failure.message, "the model in training is lost");
            front.end_model(&model, &format!("its weights could not be loaded after a restart: {}", failure.message));
        }
    }
}

impl RunningTinker {
    /// The address it listens on, with the actual port if the settings have 0.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// URL for clients on the same machine.
    pub fn endpoint(&self) -> String {
        let mut address = self.address;
        if address.ip().is_unspecified() {
            address.set_ip(if address.is_ipv4() {
                [127, 0, 0, 1].into()
            } else {
                std::net::Ipv6Addr::LOCALHOST.into()
            });
        }
        format!("{}://{address}", self.scheme)
    }

    /// Finishes the operation in progress, saves the weights in training, and ends.
    pub async fn stop(self) {
        let Self { front, stop, mut server, .. } = self;
        let live = match front.take_active() {
            Some(training) => training.park(&front).await,
            None => None,
        };
        front.parked(live);
        drop(stop);
        if tokio::time::timeout(DRAIN, &mut server).await.is_err() {
            server.abort();
        }
        tracing::info!("Tinker's API has ended");
    }
}
