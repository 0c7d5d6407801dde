//! All services in one process, connected over loopback as they would be between machines.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use evenkeel_engine::{Engine, EngineSettings, RunningEngine};
use evenkeel_generation::WeightsSource;
use evenkeel_hf::VersionMarker;
use evenkeel_learner::LearnerSettings;
use evenkeel_orchestrator::Endpoints;
use evenkeel_proto::FieldError;
use evenkeel_rpc::server::{RunningServer, ServerSettings};
use evenkeel_run_files::RunDirectory;

use crate::recipe::Recipe;
use crate::terminal;

/// The services of one run. Dropping it stops them.
pub(crate) struct Cluster {
    pub(crate) endpoints: Endpoints,
    learner: RunningServer,
    /// Whether the learner has other ranks.
    has_ranks: bool,
    _engine: Option<RunningEngine>,
    _servers: Vec<RunningServer>,
}

/// Any free port on loopback.
const LOOPBACK: &str = "127.0.0.1:0";

impl Cluster {
    /// Starts the embedded engine (unless the recipe names engines of its own), generation, reward and learner.
    pub(crate) async fn start(recipe: &Recipe, model: &Path, directory: &RunDirectory) -> Result<Self> {
        refuse_agents(recipe)?;
        let place = recipe.learner.rank_place().map_err(|error| error.within("learner"))?;
        if let Some(place) = &place {
            let (ranks, address) = (place.division.ranks(), &place.address);
            terminal::note(&format!("rank 0 of {ranks}: waits at {address} for the others"));
        }
        let has_ranks = place.is_some();
        let learner = LearnerSettings {
            server: ServerSettings::on(LOOPBACK),
            model: model.to_owned(),
            weights_read_here: recipe.generation.endpoints.is_empty(),
            ..recipe.learner_service_in(directory)
        };
        let learner = evenkeel_learner::bind(learner).await.context("the learner")?.spawn();

        let reward = evenkeel_reward::RewardSettings { server: ServerSettings::on(LOOPBACK), ..recipe.reward.clone() };
        let reward = evenkeel_reward::bind_with_worker_processes(reward, crate::guest::worker_process)
            .await
            .context("the reward service")?
            .spawn();

        let environment = environment(recipe).await?;
        let mut generation = recipe.generation.clone();
        generation.server = ServerSettings::on(LOOPBACK);
        VersionMarker::NAME.clone_into(&mut generation.weights.marker);
        generation.weights.roots = vec![directory.weights()];
        let engine = match generation.endpoints.is_empty() {
            false => None,
            true => {
                let settings = EngineSettings {
                    model: model.to_owned(),
                    listen: LOOPBACK.into(),
                    per_request_metrics: true,
                    ..recipe.engine.clone()
                };
                let engine = Engine::start(settings).await.context("the engine")?;
                generation.endpoints = vec![engine.endpoint()];
                Some(engine)
            }
        };
        let generation = evenkeel_generation::bind(generation).await.context("the generation service")?.spawn();
        let endpoints = Endpoints {
            generation: generation.endpoint().to_owned(),
            reward: vec![reward.endpoint().to_owned()],
            learner: learner.endpoint().to_owned(),
            environment: environment.iter().map(|server| server.endpoint().to_owned()).collect(),
            verifiers: BTreeMap::new(),
        };
        let servers = [generation, reward].into_iter().chain(environment).collect();
        Ok(Self { endpoints, learner, has_ranks, _engine: engine, _servers: servers })
    }

    /// Tells the other ranks of the learner, if there are any, that there is nothing more to do.
    pub(crate) async fn end_ranks(self) {
        if self.has_ranks {
            // However it ends: its ranks are told when it is gone.
            let _ = self.learner.stop().await;
            evenkeel_learner::wait_for_ranks().await;
        }
    }
}

/// Agents on other machines do not reach a learner on loopback.
fn refuse_agents(recipe: &Recipe) -> Result<(), FieldError> {
    let allowed = "folder with `evenkeel train`, whose learner only this machine reaches: start the services with `evenkeel serve`";
    let is_folder = recipe.generation.weights.source == WeightsSource::Folder;
    FieldError::ensure(is_folder, "generation.weights.source", "pull", allowed)
}

/// Starts the environment service where tasks may be done in an environment.
pub(crate) async fn environment(recipe: &Recipe) -> Result<Option<RunningServer>> {
    if recipe.data.environment.is_none() && recipe.data.environments.is_empty() {
        return Ok(None);
    }
    let settings = evenkeel_environment::EnvironmentSettings {
        server: ServerSettings::on(LOOPBACK),
        ..recipe.environment.clone()
    };
    Ok(Some(evenkeel_environment::bind(settings).await.context("the environment service")?.spawn()))
}
