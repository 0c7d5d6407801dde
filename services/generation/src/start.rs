//! From settings to a server: ports first, then files, then engines. Whatever is wrong is reported before anything is
//! served.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_config::{Settings, human};
use evenkeel_proto::FieldError;
use evenkeel_proto::v1::generation_server::GenerationServer;
use evenkeel_rpc::BoxFuture;
use evenkeel_rpc::client::ServerAddress;
use evenkeel_rpc::dispatch::{Endpoints, Resolve, SystemResolver};
use evenkeel_rpc::error::millis;
use evenkeel_rpc::items::{ItemLimits, ItemServer};
use evenkeel_rpc::retry::RetryPolicy;
use evenkeel_rpc::server::{Server, ShutdownOutcome};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::agents::Agents;
use crate::discovery::{Discovery, deduplicated};
use crate::engine::{EngineClientError, EngineProtocol, PROTOCOLS, find_protocol};
use crate::error::GenerationError;
use crate::monitor::monitor_pool;
use crate::pool::{EnginePool, EngineState, PooledEngine, WeightsVersion, version_number};
use crate::service::{GenerationService, NAME};
use crate::settings::GenerationSettings;

/// How long a stopped sample may take to answer with what it has. It needs no more than a moment.
const ANSWER_GRACE: Duration = Duration::from_secs(1);

/// When it is said for the first time that no engine is up, and how often from then on.
const FIRST_NOTE: Duration = Duration::from_millis(800);
const NEXT_NOTES: Duration = Duration::from_secs(20);

/// Binds the port, probes the engines and returns a server that does not serve yet: [`Server::spawn`] or
/// [`Server::run`] does.
///
/// Waits until one engine is up, at most `engine.startup_timeout`. Later ones join when they are up.
///
/// # Errors
/// Invalid settings, a port that is taken, an engine whose samples would bias training, or no engine at all.
pub fn bind(settings: GenerationSettings) -> BoxFuture<'static, Result<Server, GenerationError>> {
    bind_with(settings, BindOptions::default())
}

/// What a service is built of besides its settings.
pub struct BindOptions {
    /// Resolver of names. Default: the system's.
    pub resolver: Arc<dyn Resolve>,
    /// The protocols that the settings may ask for. Default: those of this crate.
    pub protocols: &'static [EngineProtocol],
}

impl Default for BindOptions {
    fn default() -> Self {
        Self { resolver: Arc::new(SystemResolver), protocols: PROTOCOLS }
    }
}

/// [`bind`] with other names, or engines of other protocols.
///
/// # Errors
/// As for [`bind`].
pub fn bind_with(
    settings: GenerationSettings,
    options: BindOptions,
) -> BoxFuture<'static, Result<Server, GenerationError>> {
    Box::pin(start(settings, options))
}

async fn start(settings: GenerationSettings, options: BindOptions) -> Result<Server, GenerationError> {
    let BindOptions { resolver, protocols } = options;
    settings.validate().map_err(GenerationError::Setting)?;
    let protocol = find_protocol(protocols, &settings).map_err(GenerationError::Setting)?;
    let endpoints = Endpoints::parse(&settings.endpoints).map_err(GenerationError::Setting)?.with_resolver(resolver);
    let server = Server::bind(NAME, "generation.server", settings.server.clone()).await?;
    let make_client = (protocol.open)(&settings)?;
    let mut addresses = endpoints.watch(settings.engine.resolve_interval);
    first_addresses(&settings, &mut addresses).await?;

    let limits = ItemLimits {
        max_items: settings.max_items,
        max_memory: settings.max_memory,
        max_running: settings.max_items,
        grace: ANSWER_GRACE,
    };
    let agents = Agents::open(&settings.weights)?;
    let pool = Arc::new(EnginePool::new(settings, agents));
    let mut known = BTreeMap::new();
    for address in in_order(pool.settings(), &addresses.borrow_and_update()) {
        let client = make_client(&address)
            .map_err(|error| GenerationError::Client { endpoint: address.url.clone(), message: error.to_string() })?;
        known.insert(address.url, pool.join(client));
    }
    wait_for_engines(&pool).await?;

    let stop = CancellationToken::new();
    monitor_pool(&pool, &stop);
    tokio::spawn(Discovery::new(&pool, addresses, known, make_client, &stop).run());
    let drain = server.drain();
    let service = GenerationService::new(pool, ItemServer::new(limits, drain.clone()), drain, stop.drop_guard());
    let limit = server.max_message();
    let service = GenerationServer::new(service).max_decoding_message_size(limit).max_encoding_message_size(limit);
    Ok(server.with_service(service))
}

/// [`bind`], then serves until `shutdown` completes.
///
/// # Errors
/// As for [`bind`], and a transport that fails.
pub async fn serve(
    settings: GenerationSettings,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Result<ShutdownOutcome, GenerationError> {
    Ok(bind(settings).await?.run(shutdown).await?)
}

/// Waits for the first address, if all endpoints are names.
async fn first_addresses(
    settings: &GenerationSettings,
    addresses: &mut watch::Receiver<BTreeSet<ServerAddress>>,
) -> Result<(), GenerationError> {
    let started = Instant::now();
    let found = addresses.wait_for(|addresses| !addresses.is_empty());
    match tokio::time::timeout(settings.engine.startup_timeout, found).await {
        Ok(Ok(_)) => Ok(()),
        _ => Err(GenerationError::NoEngine {
            waited: since(started),
            last_errors: format!("{}: no address found", settings.endpoints.join(", ")),
        }),
    }
}

/// Addresses in the order of the settings, followed by those that names resolve to.
fn in_order(settings: &GenerationSettings, found: &BTreeSet<ServerAddress>) -> Vec<ServerAddress> {
    let listed = settings.endpoints.iter().map(|endpoint| ServerAddress::new(endpoint.trim_end_matches('/')));
    let mut addresses: Vec<ServerAddress> = listed.filter(|address| found.contains(address)).collect();
    let others: Vec<ServerAddress> =
        deduplicated(found).into_iter().filter(|address| !addresses.contains(address)).collect();
    addresses.extend(others);
    addresses
}

/// Waits for the engines and admits those that have the newest weights.
async fn wait_for_engines(pool: &Arc<EnginePool>) -> Result<(), GenerationError> {
    let started = Instant::now();
    let settings = &pool.settings().engine;
    let mut tasks = JoinSet::new();
    for engine in pool.members() {
        let pool = Arc::clone(pool);
        tasks.spawn(async move {
            let probed = probe_until_up(&pool, &engine).await;
            (engine, probed)
        });
    }
    let mut until = started + settings.startup_timeout;
    let mut found = Vec::new();
    let mut note = started + FIRST_NOTE;
    loop {
        let ended = match tokio::time::timeout_at(until.min(note), tasks.join_next()).await {
            Ok(Some(ended)) => ended,
            Err(_) if note < until => {
                let left = Duration::from_secs(settings.startup_timeout.saturating_sub(since(started)).as_secs());
                let waiting_for = last_errors(pool);
                tracing::warn!("waiting for an engine: {waiting_for}; gives up in {}", human(left));
                note += NEXT_NOTES;
                continue;
            }
            _ => break,
        };
        match ended {
            Ok((engine, Ok(reported))) => {
                found.push((engine, reported));
                // Engines that are up should not wait long for those that are not.
                until = until.min(Instant::now() + 2 * settings.control_timeout);
            }
            Ok((engine, Err(refusal))) => {
                return Err(GenerationError::Engine { endpoint: engine.client().endpoint().to_owned(), refusal });
            }
            Err(error) => tracing::error!(%error, "the task that probes an engine failed"),
        }
    }
    tasks.shutdown().await;
    if found.is_empty() {
        return Err(GenerationError::NoEngine { waited: since(started), last_errors: last_errors(pool) });
    }
    admit_newest(pool, &found);
    Ok(())
}

/// What each engine failed with last.
fn last_errors(pool: &EnginePool) -> String {
    let errors = pool.snapshot().into_iter().map(|(engine, snapshot)| {
        let error = snapshot.last_error.as_deref().unwrap_or("has not answered yet");
        format!("{}: {error}", engine.client().endpoint())
    });
    errors.collect::<Vec<_>>().join("; ")
}

/// Probes an engine until it is up or turns out to be incompatible. Returns the label of its weights.
async fn probe_until_up(pool: &EnginePool, engine: &PooledEngine) -> Result<Option<String>, FieldError> {
    let settings = &pool.settings().engine;
    let mut backoff = RetryPolicy::new(settings.probe_initial, settings.probe_max).backoff();
    loop {
        let probe = async {
            pool.probe(engine).await?;
            engine.client().weights_label().await
        };
        match probe.await {
            Ok(reported) => return Ok(reported),
            Err(EngineClientError::Incompatible(refusal)) => return Err(refusal),
            // Permanent as well: the engine would say the same for ever.
            Err(error @ EngineClientError::NotFinite { .. }) => {
                return Err(FieldError::new("the model", error, "weights with which it can sample"));
            }
            Err(error) => pool.eject(engine, EngineState::CircuitOpen, &error.to_string()),
        }
        tokio::time::sleep(backoff.next_pause()).await;
    }
}

/// The newest weights that an engine serves become current; engines with others are stale.
fn admit_newest(pool: &EnginePool, found: &[(Arc<PooledEngine>, Option<String>)]) {
    let newest = found.iter().max_by_key(|(engine, label)| (version_number(label.as_deref()), Reverse(engine.id())));
    let newest = newest.and_then(|(_, label)| label.as_deref());
    let weights = Arc::new(WeightsVersion::initial(newest));
    pool.set_weights(&weights, false);
    for (engine, label) in found {
        let reason = if engine.info().is_some_and(|info| info.found_paused) {
            if let Ok(mut control) = engine.control().try_lock() {
                control.consider_probe(true);
            }
            "it was found paused or asleep: its weights may be half changed, and it waits for the next update"
                .to_owned()
        } else if weights.matches(label.as_deref()) {
            pool.admit(engine, EngineState::Healthy, &weights);
            continue;
        } else {
            format!("its weights are `{}`, others have newer ones", label.as_deref().unwrap_or_default())
        };
        tracing::warn!(engine = engine.name(), reason, "engine is stale");
        pool.eject(engine, EngineState::Stale, &reason);
    }
}

/// In whole milliseconds, for a message.
fn since(start: Instant) -> Duration {
    Duration::from_millis(millis(start.elapsed()))
}
