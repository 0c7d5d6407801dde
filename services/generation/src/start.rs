//! From settings to a server: ports first, then files, then engines. Whatever is wrong is said before anything is served.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_config::Settings;
use evenkeel_proto::FieldError;
use evenkeel_proto::v1::generation_server::GenerationServer;
use evenkeel_rpc::client::Target as Address;
use evenkeel_rpc::dispatch::{Endpoints, Resolve, SystemResolver};
use evenkeel_rpc::items::{ItemLimits, ItemServer};
use evenkeel_rpc::server::{Ended, Server};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::engine::vllm::{Files, VllmEngine};
use crate::engine::{Engine, EngineError};
use crate::error::GenerationError;
use crate::fleet::{self, Fleet, MakeEngine, Standing};
use crate::service::GenerationService;
use crate::settings::GenerationConfig;
use crate::status::NAME;
use crate::weights::{Target, Updater, parse};

/// Pause before an engine that is not up yet is asked again.
const ASK_AGAIN: Duration = Duration::from_millis(250);
/// How long a stopped sample may take to answer with what it has. It needs no more than a moment.
const ANSWER_GRACE: Duration = Duration::from_secs(1);

/// Takes the port, probes the engines and returns a server that serves nothing yet: [`Server::spawn`] or [`Server::run`] does.
///
/// Waits until one engine is there, at most `engine.startup_timeout_ms`; those that are late join when they are.
///
/// # Errors
/// Settings that cannot be, a port that is taken, an engine from which sampling would be wrong, or no engine at all.
pub async fn bind(config: GenerationConfig) -> Result<Server, GenerationError> {
    bind_with(config, Arc::new(SystemResolver)).await
}

/// [`bind`], with names found by `resolver` rather than by the system.
///
/// # Errors
/// Those of [`bind`].
pub async fn bind_with(config: GenerationConfig, resolver: Arc<dyn Resolve>) -> Result<Server, GenerationError> {
    config.validate().map_err(GenerationError::Setting)?;
    let endpoints = Endpoints::parse(&config.endpoints).map_err(GenerationError::Setting)?.with_resolver(resolver);
    let server = Server::bind(NAME, "generation.server", config.server.clone()).await?;
    let files = Files::read(&config)?;
    let mut addresses = endpoints.watch(Duration::from_millis(config.engine.resolve_interval_ms));
    first_addresses(&config, &mut addresses).await?;

    let limits = ItemLimits {
        max_items: config.max_items,
        max_bytes: ItemLimits::MAX_BYTES,
        max_running: config.max_items,
        grace: ANSWER_GRACE,
    };
    let fleet = Arc::new(Fleet::new(config.clone()));
    let make: MakeEngine =
        Box::new(move |address| Ok(Box::new(VllmEngine::new(address, &config, &files)?) as Box<dyn Engine>));
    let mut known = BTreeMap::new();
    for address in in_order(&fleet.settings, &addresses.borrow_and_update()) {
        let engine = make(&address).map_err(|error| GenerationError::Engine {
            endpoint: address.url.clone(),
            refusal: FieldError::new("client", error, "settings that a client can be made of"),
        })?;
        known.insert(address.url, fleet.join(engine));
    }
    find_engines(&fleet).await?;

    let stop = CancellationToken::new();
    fleet::watch(&fleet, &stop);
    known.values().for_each(|&engine| fleet::look_after(&fleet, engine, &stop));
    tokio::spawn(fleet::follow(Arc::clone(&fleet), addresses, known, make, stop.clone()));
    let drain = server.drain();
    let service = GenerationService {
        items: ItemServer::new(limits, drain.clone()),
        updater: Updater::new(Arc::clone(&fleet)),
        fleet,
        drain,
        started: Instant::now(),
        _watching: stop.drop_guard(),
    };
    let limit = server.max_message_bytes();
    let service = GenerationServer::new(service).max_decoding_message_size(limit).max_encoding_message_size(limit);
    Ok(server.with_service(service))
}

/// [`bind`], and serves until `shutdown` ends.
///
/// # Errors
/// Those of [`bind`], and a transport that fails.
pub async fn serve(config: GenerationConfig, shutdown: impl Future<Output = ()>) -> Result<Ended, GenerationError> {
    Ok(bind(config).await?.run(shutdown).await?)
}

/// Waits until names were resolved for the first time, where there are only names.
async fn first_addresses(
    config: &GenerationConfig,
    addresses: &mut watch::Receiver<BTreeSet<Address>>,
) -> Result<(), GenerationError> {
    let timeout = Duration::from_millis(config.engine.startup_timeout_ms);
    let begun = Instant::now();
    let found = addresses.wait_for(|addresses| !addresses.is_empty());
    match tokio::time::timeout(timeout, found).await {
        Ok(Ok(_)) => Ok(()),
        _ => Err(GenerationError::NoEngine {
            waited_ms: u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX),
            last_errors: format!("{}: no address found", config.endpoints.join(", ")),
        }),
    }
}

/// Addresses as the settings list them; after them those behind names, which were found otherwise.
fn in_order(config: &GenerationConfig, found: &BTreeSet<Address>) -> Vec<Address> {
    let listed = config.endpoints.iter().map(|endpoint| Address::url(endpoint.trim_end_matches('/')));
    let mut addresses: Vec<Address> = listed.filter(|address| found.contains(address)).collect();
    let others: Vec<Address> =
        fleet::one_each(found).into_iter().filter(|address| !addresses.contains(address)).collect();
    addresses.extend(others);
    addresses
}

/// Waits for the engines and sees what weights they have.
async fn find_engines(fleet: &Arc<Fleet>) -> Result<(), GenerationError> {
    let begun = Instant::now();
    let settings = fleet.engine_settings();
    let timeout = Duration::from_millis(settings.startup_timeout_ms);
    let grace = Duration::from_millis(2 * settings.control_timeout_ms);
    let mut tasks = JoinSet::new();
    for engine in fleet.present() {
        let fleet = Arc::clone(fleet);
        tasks.spawn(async move { (engine, wait_for(&fleet, engine).await) });
    }
    let mut until = begun + timeout;
    let mut found = Vec::new();
    while let Ok(Some(ended)) = tokio::time::timeout_at(until, tasks.join_next()).await {
        match ended {
            Ok((engine, Ok(says))) => {
                found.push((engine, says));
                // Who is up should not wait for who is not.
                until = until.min(Instant::now() + grace);
            }
            Ok((engine, Err(refusal))) => {
                let endpoint = fleet.member(engine).engine.endpoint().to_owned();
                return Err(GenerationError::Engine { endpoint, refusal });
            }
            Err(error) => tracing::error!(%error, "probing an engine broke off"),
        }
    }
    tasks.shutdown().await;
    if found.is_empty() {
        let errors = fleet.lines().into_iter().map(|(member, seat)| {
            let error = if seat.last_error.is_empty() { "has not answered yet" } else { &seat.last_error };
            format!("{}: {error}", member.engine.endpoint())
        });
        let waited_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        return Err(GenerationError::NoEngine { waited_ms, last_errors: errors.collect::<Vec<_>>().join("; ") });
    }
    seat_all(fleet, &found);
    Ok(())
}

/// Asks until the engine is up or turns out to be unfit.
async fn wait_for(fleet: &Fleet, engine: usize) -> Result<Option<String>, FieldError> {
    loop {
        let asked = async {
            fleet.adopt(engine).await?;
            fleet.member(engine).engine.weights().await
        };
        match asked.await {
            Ok(says) => return Ok(says),
            Err(EngineError::Unfit(refusal)) => return Err(refusal),
            Err(error) => fleet.lose(engine, Standing::Open, &error.to_string()),
        }
        tokio::time::sleep(ASK_AGAIN).await;
    }
}

/// The newest weights that an engine has are those of the service; engines with others are stale.
fn seat_all(fleet: &Fleet, found: &[(usize, Option<String>)]) {
    let version = |says: &Option<String>| says.as_deref().and_then(parse).map(|(version, _)| version);
    let newest = found.iter().max_by_key(|(engine, says)| (version(says), std::cmp::Reverse(*engine)));
    let newest = newest.and_then(|(_, says)| says.as_deref());
    let target = fleet.aim(Target::initial(newest));
    for (engine, says) in found {
        let member = fleet.member(*engine);
        let paused = member.info.get().is_some_and(|info| info.found_paused);
        if paused {
            if let Ok(mut control) = member.control.try_lock() {
                (control.tainted, control.looked) = (true, true);
            }
            let why = "it was found paused or asleep, so that its weights may be half changed; it samples after the next update";
            tracing::warn!(engine = member.name, why, "engine is stale");
            fleet.lose(*engine, Standing::Stale, why);
        } else if target.is(says.as_deref()) {
            fleet.admit(*engine, Standing::Healthy, &target);
        } else {
            let why = format!("its weights are `{}`, others have newer ones", says.as_deref().unwrap_or_default());
            tracing::warn!(engine = member.name, why, "engine is stale");
            fleet.lose(*engine, Standing::Stale, &why);
        }
    }
}
