//! Environment workers as one place for episodes: each episode stays with its worker, and new ones go to the worker
//! with the fewest.

mod connection;
mod describe;
mod pool;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_environment::Descriptions;
use evenkeel_proto::v1::OpenEpisode;
use evenkeel_rpc::dispatch::Endpoints as Workers;

use super::connect::Connections;
use super::{Outage, Retrier, Stop};
use crate::dependency::Dependency;
use crate::error::{Halt, RunError};

pub use describe::describe_environments;
pub(crate) use pool::EpisodeLink;

use connection::WorkerConnections;
use pool::Pool;

/// How often a worker for an environment is looked for.
const CONNECT_POLL: Duration = Duration::from_millis(50);

pub(crate) struct EnvironmentClient {
    urls: Vec<String>,
    pool: Arc<Pool>,
    retrier: Retrier,
    _connections: WorkerConnections,
}

impl EnvironmentClient {
    /// Starts to connect.
    ///
    /// # Errors
    /// Addresses that are none.
    pub(super) fn connect(
        urls: &[String],
        connections: &Connections,
        (most, described): (usize, Arc<Descriptions>),
        retrier: Retrier,
    ) -> Result<Self, RunError> {
        let workers = Workers::parse(urls).map_err(|error| RunError::Setting(error.within("endpoints.environment")))?;
        let pool = Pool::new(most);
        let settings = connections.settings();
        let connections = WorkerConnections::start(
            workers,
            connections.connector().clone(),
            (settings.backoff_initial, settings.backoff_max),
            (Arc::clone(&pool), described),
        );
        Ok(Self { urls: urls.to_vec(), pool, retrier, _connections: connections })
    }

    /// Opens an episode, once a worker has room for it. Dropping the link ends it.
    pub(crate) async fn open(&self, request: OpenEpisode) -> EpisodeLink {
        self.pool.open(request).await
    }

    /// The addresses, for messages.
    pub(crate) fn endpoints(&self) -> String {
        self.urls.join(", ")
    }

    /// Episodes that wait for a worker.
    pub(crate) fn waiting(&self) -> usize {
        self.pool.waiting()
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.pool.is_connected()
    }

    pub(crate) fn outage(&self) -> Outage {
        Outage::new(Dependency::Environment, self.endpoints(), self.retrier.clone())
    }

    /// Waits until there is a worker for each of these environments.
    pub(crate) async fn serves(&self, environments: &BTreeSet<&str>, stop: &Stop) -> Result<(), Halt> {
        let mut outage = self.outage();
        loop {
            let lacking = environments.iter().find(|environment| !self.pool.serves(environment));
            if let Some(environment) = lacking
                && self.is_connected()
            {
                outage.set_message(&format!("no worker has the environment `{environment}` as this program knows it"));
            }
            outage.observe(lacking.is_none(), stop)?;
            if lacking.is_none() {
                return Ok(());
            }
            tokio::select! {
                biased;
                halt = stop.any() => return Err(halt),
                () = tokio::time::sleep(CONNECT_POLL) => {}
            }
        }
    }
}
