//! `evenkeel serve`: one service in a process of its own.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Result, bail};
use evenkeel_config::{Loader, Settings, to_table};
use evenkeel_engine::{Engine, EngineSettings};
use evenkeel_environment_service::EnvironmentSettings;
use evenkeel_generation::GenerationSettings;
use evenkeel_learner::LearnerSettings;
use evenkeel_orchestrator::{OrchestratorService, OrchestratorSettings};
use evenkeel_reward::RewardSettings;
use evenkeel_reward::gateway::{self, GatewaySettings};
use evenkeel_rpc::series::{DISPATCH_SERIES, ITEM_SERIES, SERVER_SERIES};
use evenkeel_rpc::server::{Server, shutdown_signal};
use evenkeel_telemetry::{Series, describe, install_metrics, name_process};
use evenkeel_weights_agent::WeightsAgentSettings;
use toml::Table;

use crate::arguments::{ServeOptions, Service};
use crate::{guest, ranks, tinker};

/// Where metrics are served and spans are sent, where no flag says so.
const METRICS_VARIABLE: &str = "EVENKEEL_METRICS";
const TRACES_VARIABLE: &str = "EVENKEEL_TRACES";

pub(crate) async fn serve(options: ServeOptions) -> Result<ExitCode> {
    let http = options.http.iter().map(|address| format!("http.listen={address}"));
    let set = options.set.iter().cloned().chain(http).collect();
    if options.http.is_some() && options.service != Service::Reward {
        bail!("--http is for `evenkeel serve reward`, not for `{}`", options.service.name());
    }
    let options = ServeOptions {
        set,
        metrics: options.metrics.or_else(|| variable(METRICS_VARIABLE)),
        traces: options.traces.or_else(|| variable(TRACES_VARIABLE)),
        ..options
    };
    let name = options.service.name();
    name_process(name);
    #[cfg(feature = "traces")]
    let _spans = options.traces.as_deref().map(|endpoint| evenkeel_traces::export_spans(name, endpoint)).transpose()?;
    #[cfg(not(feature = "traces"))]
    if options.traces.is_some() {
        // Without the value, which may have a password.
        bail!("--traces and {TRACES_VARIABLE}: this program was built without the feature `traces`, which sends spans");
    }
    // Before anything counts. The engine counts by itself.
    if options.metrics.is_some() && install_metrics().is_some() {
        describe(series_of(options.service).into_iter().flatten());
    }
    let server = match options.service {
        Service::Engine => return engine(load(&options)?).await,
        Service::Orchestrator => return orchestrator(&options).await,
        Service::Tinker => return tinker::serve(load(&options)?).await,
        Service::Generation => evenkeel_generation::bind(load::<GenerationSettings>(&options)?).await?,
        Service::Reward => {
            evenkeel_reward::bind_with_worker_processes(load::<RewardSettings>(&options)?, guest::worker_process)
                .await?
        }
        Service::Environment => {
            let settings = load::<EnvironmentSettings>(&options)?;
            evenkeel_environment_service::bind_with_worker_processes(settings, guest::session_process).await?
        }
        Service::Gateway => gateway::bind(load::<GatewaySettings>(&options)?).await?,
        Service::Weights => evenkeel_weights_agent::bind(load::<WeightsAgentSettings>(&options)?).await?,
        Service::Learner => {
            let settings = load::<LearnerSettings>(&options)?;
            match settings.training.rank_place()? {
                Some(place) if place.division.rank() > 0 => {
                    let ended = evenkeel_learner::follow(settings, place, shutdown_signal()).await?;
                    return Ok(ranks::exit_code(ended));
                }
                _ => evenkeel_learner::bind(settings).await?,
            }
        }
    };
    with_metrics(server, &options).await?.run(shutdown_signal()).await?;
    evenkeel_learner::wait_for_ranks().await;
    Ok(ExitCode::SUCCESS)
}

/// A variable of the environment that is not empty.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Loads the defaults, the recipe's part of the service, the file, the environment and `--set`; later ones win.
fn load<T: Settings>(options: &ServeOptions) -> Result<T> {
    let mut loader = Loader::new();
    if !options.recipe.is_empty() {
        let section = section_of(&options.recipe, options.service)?;
        loader = loader.table(&format!("recipe {}", options.recipe.join(", ")), section)?;
    }
    if let Some(path) = &options.config {
        loader = loader.file(path)?;
    }
    Ok(loader.environment()?.set(&options.set)?.load::<T>()?.settings)
}

/// The settings of a service according to recipes.
fn section_of(recipes: &[String], service: Service) -> Result<Table> {
    let recipe = evenkeel_recipe::load_alone(recipes)?.settings;
    let within = |key: &str, value: toml::Value| Table::from_iter([(key.to_owned(), value)]);
    Ok(match service {
        Service::Engine => to_table(&recipe.engine)?,
        Service::Generation => to_table(&recipe.generation)?,
        Service::Reward => to_table(&recipe.reward)?,
        Service::Environment => {
            let named = recipe.data.environment.iter().chain(&recipe.data.environments);
            to_table(&recipe.environment.clone().with(named))?
        }
        Service::Learner => to_table(&recipe.learner_service())?,
        Service::Tinker => {
            let sections = [("learner", to_table(&recipe.learner)?), ("engine", to_table(&recipe.engine)?)];
            sections.into_iter().map(|(name, section)| (name.to_owned(), section.into())).collect()
        }
        // A gateway judges nothing itself, and an agent fetches whatever it is asked for.
        Service::Gateway | Service::Weights => Table::new(),
        Service::Orchestrator => within("start", within("recipe", recipes.to_vec().into()).into()),
    })
}

/// What a service counts at its port for metrics.
fn series_of(service: Service) -> Vec<&'static [Series]> {
    let items = |own| vec![SERVER_SERIES, ITEM_SERIES, own];
    match service {
        Service::Engine => vec![evenkeel_engine::SERIES],
        Service::Generation => items(evenkeel_generation::SERIES),
        Service::Reward => items(evenkeel_reward::SERIES),
        Service::Learner => items(evenkeel_learner::SERIES),
        Service::Environment => vec![SERVER_SERIES, evenkeel_environment_service::SERIES],
        Service::Weights => vec![SERVER_SERIES, evenkeel_weights_agent::SERIES],
        Service::Gateway => vec![SERVER_SERIES, ITEM_SERIES, DISPATCH_SERIES],
        // Those of the services in its process.
        Service::Tinker => {
            vec![SERVER_SERIES, ITEM_SERIES, DISPATCH_SERIES, evenkeel_learner::SERIES, evenkeel_generation::SERIES]
        }
        Service::Orchestrator => [&[SERVER_SERIES, DISPATCH_SERIES][..], &evenkeel_orchestrator::series()].concat(),
    }
}

async fn with_metrics(server: Server, options: &ServeOptions) -> Result<Server> {
    Ok(match &options.metrics {
        Some(address) => server.with_metrics("--metrics", address).await?,
        None => server,
    })
}

async fn engine(settings: EngineSettings) -> Result<ExitCode> {
    let running = Engine::start(settings).await?;
    shutdown_signal().await;
    running.stop().await;
    Ok(ExitCode::SUCCESS)
}

async fn orchestrator(options: &ServeOptions) -> Result<ExitCode> {
    let settings: OrchestratorSettings = load(options)?;
    let reader = Arc::new(evenkeel_recipe::LayeredRecipes);
    let (server, service): (Server, OrchestratorService) = evenkeel_orchestrator::serve(settings, reader).await?;
    let server = with_metrics(server, options).await?;
    service.start_configured().await?;
    server.run(shutdown_signal()).await?;
    // A stopping run ends after its step; its last lines must be written before the process exits.
    service.wait_until_idle().await;
    Ok(ExitCode::SUCCESS)
}
