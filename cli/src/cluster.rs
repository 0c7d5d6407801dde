//! All services in one process, connected over loopback as they would be between machines. They are private: other
//! processes, of the same user as well, are refused.

use std::path::Path;

use anyhow::{Context, Result, anyhow};
use evenkeel_engine::{Engine, EngineSettings, RunningEngine};
use evenkeel_environment_service::EnvironmentError;
use evenkeel_generation::WeightsSource;
use evenkeel_learner::LearnerSettings;
use evenkeel_model_folder::VersionMarker;
use evenkeel_orchestrator::{Descriptions, Endpoints, describe_environments};
use evenkeel_proto::FieldError;
use evenkeel_proto::shown::with_causes;
use evenkeel_recipe::Recipe;
use evenkeel_rpc::server::{RunningServer, ServerSettings};
use evenkeel_run::RunDirectory;

use crate::programs::environment_setting;
use crate::{terminal, verifiers};

/// The services of one run. Dropping it stops them.
pub(crate) struct Cluster {
    pub(crate) endpoints: Endpoints,
    learner: RunningServer,
    /// Whether the learner has other ranks.
    has_ranks: bool,
    _engine: Option<RunningEngine>,
    _servers: Vec<RunningServer>,
}

impl Cluster {
    /// Starts the embedded engine (unless the recipe names engines of its own), generation, reward and learner.
    pub(crate) async fn start(
        recipe: &Recipe,
        model: &Path,
        directory: &RunDirectory,
        Environments { server: environment, described }: Environments,
        keeps_checkpoints: bool,
    ) -> Result<Self> {
        refuse_agents(recipe)?;
        let place = recipe.learner.rank_place().map_err(|error| error.within("learner"))?;
        if let Some(place) = &place {
            let ranks = place.division.ranks();
            let address = &place.address;
            terminal::note(&format!("rank 0 of {ranks}: waits at {address} for the others"));
        }
        let has_ranks = place.is_some();
        let learner = LearnerSettings {
            server: ServerSettings::private(),
            model: model.to_owned(),
            weights_read_here: recipe.generation.endpoints.is_empty(),
            keeps_checkpoints,
            ..recipe.learner_service_in(directory)
        };
        let learner = evenkeel_learner::bind(learner).await.context("the learner")?.spawn();

        let mut settings = recipe.reward_service();
        settings.judge_records = Some(directory.path().to_owned());
        let verified = settings.custom_verifiers();
        let reward = verifiers::start_reward(settings).await?;

        let mut generation = recipe.generation.clone();
        generation.server = ServerSettings::private();
        VersionMarker::NAME.clone_into(&mut generation.weights.marker);
        generation.weights.roots = vec![directory.weights()];
        let engine = if generation.endpoints.is_empty() {
            let settings = EngineSettings { per_request_metrics: true, ..recipe.engine.clone().private(model) };
            let engine = Engine::start(settings).await.context("the engine")?;
            generation.endpoints = vec![engine.endpoint()];
            Some(engine)
        } else {
            None
        };
        let generation = evenkeel_generation::bind(generation).await.context("the generation service")?.spawn();
        let endpoints = Endpoints {
            generation: generation.endpoint().to_owned(),
            reward: vec![reward.endpoint().to_owned()],
            learner: learner.endpoint().to_owned(),
            environment: environment.iter().map(|server| server.endpoint().to_owned()).collect(),
            described,
            verifiers: verified.into_iter().map(|name| (name, vec![reward.endpoint().to_owned()])).collect(),
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
    let allowed = "folder with `evenkeel train`, whose learner only this machine reaches: start the services with \
        `evenkeel serve`";
    let is_folder = recipe.generation.weights.source == WeightsSource::Folder;
    FieldError::ensure(is_folder, "generation.weights.source", "pull", allowed)
}

/// The environment service of this process, and what it says of environments that do not come with the program.
#[derive(Default)]
pub(crate) struct Environments {
    pub(crate) server: Option<RunningServer>,
    pub(crate) described: Descriptions,
}

impl Environments {
    /// Starts the service where tasks may be done in an environment.
    ///
    /// # Errors
    /// A Python file or an OpenEnv server whose environment cannot be played.
    pub(crate) async fn start(recipe: &Recipe) -> Result<Self> {
        let named = || recipe.data.environment.iter().chain(&recipe.data.environments);
        if named().next().is_none() {
            return Ok(Self::default());
        }
        let settings = evenkeel_environment_service::EnvironmentSettings {
            server: ServerSettings::private(),
            ..recipe.environment.clone().with(named())
        };
        let server = evenkeel_environment_service::bind_with_worker_processes(settings, crate::guest::session_process)
            .await
            .map_err(|error| in_recipe(recipe, &error))?
            .spawn();
        let described = describe_environments(&recipe.loop_settings(), &[server.endpoint().to_owned()]).await?;
        Ok(Self { server: Some(server), described })
    }
}

/// Why environments do not start, with the setting of the recipe that names them.
fn in_recipe(recipe: &Recipe, error: &EnvironmentError) -> anyhow::Error {
    let message = with_causes(error);
    for list in ["files", "agents", "openenv"] {
        if let Some(rest) = message.strip_prefix(&format!("environment.{list}"))
            && rest.starts_with([':', ' '])
        {
            return anyhow!("{}{rest}", environment_setting(recipe, list));
        }
    }
    anyhow!(message).context("the environment service")
}
