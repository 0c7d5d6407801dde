//! The three services as the loop calls them: with deadlines, with retries, and interruptible by a stop.
//!
//! [`Services`] holds a client for each. Calls go through a [`Retrier`]; items (samples, answers) go through a
//! dispatcher, whose reachability an [`Outage`] watches.

mod connect;
mod environment;
mod generation;
mod learner;
mod outage;
mod retrier;
mod stop;
mod tensor_digests;
mod train_feed;
mod verifier;

use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel_environment::Descriptions;
use evenkeel_rpc::retry::RetryPolicy;

use crate::error::RunError;
use crate::events::Events;
use crate::settings::ServicesSettings;

use connect::Connections;
pub use environment::describe_environments;
pub(crate) use environment::{EnvironmentClient, EpisodeLink};
pub(crate) use generation::Generation;
pub(crate) use learner::{LearnerClient, ScoreQuery};
pub(crate) use outage::Outage;
pub(crate) use retrier::Retrier;
pub(crate) use stop::Stop;
pub(crate) use train_feed::TrainFeed;
pub(crate) use verifier::{AwaitedVerdict, VerifierClient};

/// Where the services are. All of them speak gRPC, also within one process.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Endpoints {
    /// The generation service, `http://HOST:PORT` or `https://HOST:PORT`; it represents all engines behind it.
    pub generation: String,
    /// Reward workers, one URL each, or `dns://HOST:PORT` for every address behind a name.
    pub reward: Vec<String>,
    /// The learner.
    pub learner: String,
    /// Environment workers, as those of `reward`. Empty: no task is done in an environment.
    #[serde(default)]
    pub environment: Vec<String>,
    /// What the environment workers say of environments that do not come with the program: [`describe_environments`].
    #[serde(skip)]
    pub described: Descriptions,
    /// Workers of custom verifiers by name, as those of `reward`. They come before the addresses in `data.verifiers` of
    /// a recipe.
    #[serde(default)]
    pub verifiers: BTreeMap<String, Vec<String>>,
}

/// The custom verifiers and the environment workers: what may be code of the user's own.
pub(crate) struct CustomServices {
    /// Verifiers by name.
    pub(crate) verifiers: BTreeMap<String, VerifierClient>,
    /// `None` without environment workers.
    pub(crate) environments: Option<EnvironmentClient>,
}

impl CustomServices {
    /// Starts to connect; must be called within a runtime.
    ///
    /// # Errors
    /// Endpoints that are none, files of the connection settings that cannot be read.
    pub(crate) fn connect(
        endpoints: &Endpoints,
        settings: &ServicesSettings,
        retrier: &Retrier,
    ) -> Result<Self, RunError> {
        let connections = Connections::new(settings)?;
        let verifier = |(name, urls): (&String, &Vec<String>)| {
            Ok((name.clone(), VerifierClient::connect_custom(name, urls, &connections, retrier.clone())?))
        };
        let environments = match &endpoints.environment[..] {
            [] => None,
            urls => {
                let described = Arc::new(endpoints.described.clone());
                let most = settings.max_episodes;
                Some(EnvironmentClient::connect(urls, &connections, (most, described), retrier.clone())?)
            }
        };
        Ok(Self { verifiers: endpoints.verifiers.iter().map(verifier).collect::<Result<_, RunError>>()?, environments })
    }
}

/// Everything that judges answers: the reward service, and custom verifiers by name.
pub(crate) struct Verifiers {
    reward: VerifierClient,
    custom: BTreeMap<String, VerifierClient>,
    pauses: RetryPolicy,
}

impl Verifiers {
    /// Starts to connect to the verifiers of `endpoints` alone; must be called within a runtime.
    ///
    /// # Errors
    /// As [`Services::connect`].
    pub(crate) fn connect(endpoints: &Endpoints, settings: &ServicesSettings) -> Result<Self, RunError> {
        let retrier = Retrier::new(Events::new(0), Stop::new(), settings);
        let endpoints = Endpoints { environment: Vec::new(), ..endpoints.clone() };
        let CustomServices { verifiers, .. } = CustomServices::connect(&endpoints, settings, &retrier)?;
        Self::with_custom(&endpoints, &Connections::new(settings)?, retrier, verifiers)
    }

    fn with_custom(
        endpoints: &Endpoints,
        connections: &Connections,
        retrier: Retrier,
        custom: BTreeMap<String, VerifierClient>,
    ) -> Result<Self, RunError> {
        let pauses = *retrier.policy();
        Ok(Self { reward: VerifierClient::connect(&endpoints.reward, connections, retrier)?, custom, pauses })
    }

    /// Pauses between attempts.
    pub(crate) fn retry_policy(&self) -> &RetryPolicy {
        &self.pauses
    }

    /// The verifier of a task: the custom one of that name, or the reward service.
    ///
    /// # Errors
    /// A verifier that is not among the endpoints, which [`start_run`](crate::start_run) refuses before.
    pub(crate) fn get(&self, custom: Option<&str>) -> Result<&VerifierClient, RunError> {
        match custom {
            None => Ok(&self.reward),
            Some(name) => {
                let missing = || RunError::Defect(format!("the verifier `{name}` is not connected"));
                self.custom.get(name).ok_or_else(missing)
            }
        }
    }

    /// The reward service and all custom verifiers, always in the same order.
    pub(crate) fn all(&self) -> impl Iterator<Item = &VerifierClient> {
        std::iter::once(&self.reward).chain(self.custom.values())
    }
}

/// The services of a run.
pub(crate) struct Services {
    settings: ServicesSettings,
    events: Events,
    stop: Stop,
    retrier: Retrier,
    generation: Generation,
    verifiers: Verifiers,
    /// `None` without environment workers.
    environments: Option<EnvironmentClient>,
    /// An evaluation without a run has none.
    learner: Option<LearnerClient>,
}

impl Services {
    /// Starts to connect; must be called within a runtime.
    ///
    /// # Errors
    /// Endpoints that are none, files of the connection settings that cannot be read.
    pub(crate) fn connect(
        endpoints: &Endpoints,
        settings: &ServicesSettings,
        events: Events,
        stop: Stop,
    ) -> Result<Self, RunError> {
        let services = Self::without_learner(endpoints, settings, events.clone(), stop)?;
        let connections = Connections::new(settings)?;
        let retrier = services.retrier.clone();
        let learner = LearnerClient::connect(&endpoints.learner, &connections, retrier, events)?;
        Ok(Self { learner: Some(learner), ..services })
    }

    /// Connects for samples that nothing is trained on.
    ///
    /// # Errors
    /// As [`Self::connect`].
    pub(crate) fn without_learner(
        endpoints: &Endpoints,
        settings: &ServicesSettings,
        events: Events,
        stop: Stop,
    ) -> Result<Self, RunError> {
        let retrier = Retrier::new(events.clone(), stop.clone(), settings);
        let connections = Connections::new(settings)?;
        let CustomServices { verifiers, environments } = CustomServices::connect(endpoints, settings, &retrier)?;
        Ok(Self {
            environments,
            verifiers: Verifiers::with_custom(endpoints, &connections, retrier.clone(), verifiers)?,
            generation: Generation::connect(&endpoints.generation, &connections, retrier.clone(), events.clone())?,
            learner: None,
            settings: settings.clone(),
            events,
            stop,
            retrier,
        })
    }

    pub(crate) fn generation(&self) -> &Generation {
        &self.generation
    }

    /// The environment workers.
    ///
    /// # Errors
    /// There are none, which [`start_run`](crate::start_run) refuses before.
    pub(crate) fn environments(&self) -> Result<&EnvironmentClient, RunError> {
        self.environments.as_ref().ok_or_else(|| RunError::Defect("no environment worker is connected".to_owned()))
    }

    /// The environment workers, where there are any.
    pub(crate) fn any_environments(&self) -> Option<&EnvironmentClient> {
        self.environments.as_ref()
    }

    pub(crate) fn reward(&self) -> &VerifierClient {
        &self.verifiers.reward
    }

    /// The verifier of a task: the custom one of that name, or the reward service.
    ///
    /// # Errors
    /// As [`Verifiers::get`].
    pub(crate) fn verifier(&self, custom: Option<&str>) -> Result<&VerifierClient, RunError> {
        self.verifiers.get(custom)
    }

    /// The reward service and all custom verifiers, always in the same order.
    pub(crate) fn verifiers(&self) -> impl Iterator<Item = &VerifierClient> {
        self.verifiers.all()
    }

    /// The custom verifiers by name.
    pub(crate) fn custom_verifiers(&self) -> &BTreeMap<String, VerifierClient> {
        &self.verifiers.custom
    }

    pub(crate) fn learner(&self) -> &LearnerClient {
        self.learner.as_ref().expect("only runs call the learner, and they connect to one")
    }

    pub(crate) fn settings(&self) -> &ServicesSettings {
        &self.settings
    }

    pub(crate) fn events(&self) -> &Events {
        &self.events
    }

    pub(crate) fn stop(&self) -> &Stop {
        &self.stop
    }

    pub(crate) fn retrier(&self) -> &Retrier {
        &self.retrier
    }

    pub(crate) fn retry_policy(&self) -> &RetryPolicy {
        self.retrier.policy()
    }
}
