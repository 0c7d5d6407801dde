//! Connections to the three services.

use std::time::Duration;

use evenkeel_proto::FieldError;
use evenkeel_proto::v1::generation_client::GenerationClient;
use evenkeel_proto::v1::learner_client::LearnerClient;
use evenkeel_proto::v1::reward_client::RewardClient;
use evenkeel_rpc::client::{ClientChannel, Connector, Target};
use evenkeel_rpc::dispatch::{DeadlineStart, DispatchConfig, Dispatcher, Endpoints as Workers};
use evenkeel_rpc::items::{GenerateItems, VerifyItems};

use super::{Endpoints, Outage, Retrier, Stop};
use crate::error::RunError;
use crate::events::Events;
use crate::settings::ServicesSettings;

/// How long the generation service may have a sample, its own queue included. No bound in practice: engines have their own
/// (`services.rollout_deadline_ms`), and a service that ends no sample at all is noticed long before ([`crate::rollout::Pump::next`]).
const QUEUED_AT_MOST: Duration = Duration::from_secs(30 * 24 * 3600);

/// There is one generation service, so that its dispatcher has no other worker to try: it reports a lost sample, and the rollout loop
/// decides. Reward workers are many; their dispatcher gives what one of them lost to another, and the rollout loop does not repeat that.
const GENERATION_ATTEMPTS: u32 = 1;

/// The services of a run.
pub(crate) struct Services {
    pub(crate) endpoints: Endpoints,
    pub(crate) settings: ServicesSettings,
    pub(crate) events: Events,
    pub(crate) stop: Stop,
    pub(crate) retrier: Retrier,
    pub(crate) generation: Dispatcher<GenerateItems>,
    pub(crate) reward: Dispatcher<VerifyItems>,
    pub(super) generation_calls: GenerationClient<ClientChannel>,
    pub(super) reward_calls: Option<(String, RewardClient<ClientChannel>)>,
    pub(super) learner: LearnerClient<ClientChannel>,
}

impl Services {
    /// Begins to connect; must be called within a runtime.
    ///
    /// # Errors
    /// Endpoints that are none, files of the connection settings that cannot be read.
    pub(crate) fn connect(
        endpoints: Endpoints,
        settings: &ServicesSettings,
        events: Events,
        stop: Stop,
    ) -> Result<Self, RunError> {
        let refused = |field: &str, value: &str, error: &dyn std::fmt::Display| {
            RunError::Setting(FieldError::new(field, format_args!("`{value}`"), error.to_string()))
        };
        let connector = Connector::new("services.client", settings.client.clone())
            .map_err(|error| refused("services.client", "set", &error))?;
        let limit = connector.max_message_bytes();
        let lazy = |field: &str, url: &str| {
            connector.connect_lazy(&Target::url(url)).map_err(|error| refused(field, url, &error))
        };
        let workers =
            |field: &str, urls: &[String]| Workers::parse(urls).map_err(|error| RunError::Setting(error.within(field)));
        let dispatch = |outstanding: usize, attempts: u32, deadline_ms: u64| DispatchConfig {
            max_outstanding: outstanding,
            max_queued: settings.max_rollouts.max(outstanding),
            max_attempts: attempts,
            item_deadline_ms: deadline_ms,
            deadline_start: DeadlineStart::Assigned,
            backoff_initial_ms: settings.backoff_initial_ms,
            backoff_max_ms: settings.backoff_max_ms,
            ..DispatchConfig::default()
        };
        let generation_workers = workers("endpoints.generation", std::slice::from_ref(&endpoints.generation))?;
        let reward_workers = workers("endpoints.reward", &endpoints.reward)?;
        let by_url = endpoints.reward.iter().find(|url| url.starts_with("http"));
        let reward_calls = match by_url {
            None => None,
            Some(url) => {
                let client = RewardClient::new(lazy("endpoints.reward", url)?);
                Some((url.clone(), client.max_decoding_message_size(limit).max_encoding_message_size(limit)))
            }
        };
        Ok(Self {
            generation: Dispatcher::start(
                &dispatch(settings.max_rollouts, GENERATION_ATTEMPTS, QUEUED_AT_MOST.as_millis() as u64),
                generation_workers,
                connector.clone(),
            ),
            reward: Dispatcher::start(
                &dispatch(settings.max_verifications, settings.verify_attempts, settings.verify_deadline_ms),
                reward_workers,
                connector.clone(),
            ),
            generation_calls: GenerationClient::new(lazy("endpoints.generation", &endpoints.generation)?)
                .max_decoding_message_size(limit)
                .max_encoding_message_size(limit),
            reward_calls,
            learner: LearnerClient::new(lazy("endpoints.learner", &endpoints.learner)?)
                .max_decoding_message_size(limit)
                .max_encoding_message_size(limit),
            retrier: Retrier::new(events.clone(), stop.clone(), settings),
            settings: settings.clone(),
            endpoints,
            events,
            stop,
        })
    }

    pub(crate) fn generation_outage(&self) -> Outage {
        Outage::new("generation", self.endpoints.generation.clone(), self.retrier.clone())
    }

    pub(crate) fn reward_outage(&self) -> Outage {
        Outage::new("reward", self.endpoints.reward.join(", "), self.retrier.clone())
    }
}
