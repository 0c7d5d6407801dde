//! Agents that fetch weights to where engines read them: one on each node with engines, and one beside this service,
//! which checks and proves what that one has fetched. Where all engines read the folder of the latter, it is the only
//! one.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use evenkeel_proto::v1::PullRequest;
use evenkeel_proto::v1::weights_agent_client::WeightsAgentClient;
use evenkeel_rpc::client::{ClientChannel, Connector, ServerAddress};
use evenkeel_rpc::error::{Reason, ServiceError, has_reason};
use tonic::Status;

use crate::error::GenerationError;
use crate::settings::{AgentsSettings, WeightsSettings, WeightsSource};

/// The agents. Connections are opened when they are needed first.
pub(crate) struct Agents {
    settings: AgentsSettings,
    connector: Connector,
    clients: Mutex<BTreeMap<String, WeightsAgentClient<ClientChannel>>>,
}

impl Agents {
    /// Agents of the settings; `None` where all see one folder.
    ///
    /// # Errors
    /// A file of their client that cannot be used.
    pub(crate) fn open(settings: &WeightsSettings) -> Result<Option<Self>, GenerationError> {
        if settings.source == WeightsSource::Folder {
            return Ok(None);
        }
        let settings = settings.agents.clone();
        let connector = Connector::new("generation.weights.agents.client", settings.client.clone())?;
        Ok(Some(Self { settings, connector, clients: Mutex::default() }))
    }

    /// Has weights fetched to where this service reads them. Returns their folder.
    ///
    /// # Errors
    /// The agent's, with its address.
    pub(crate) async fn pull_here(&self, weights: PullRequest) -> Result<String, ServiceError> {
        self.pull(&self.settings.here, weights).await
    }

    /// Has weights fetched to where the engine of that URL reads them. Returns their folder there.
    ///
    /// # Errors
    /// The agent's, with its address.
    pub(crate) async fn pull_for(&self, engine: &str, weights: PullRequest) -> Result<String, ServiceError> {
        self.pull(&self.of_engine(engine), weights).await
    }

    /// The agent of an engine: on the engine's host, unless that of this service is the agent of all.
    fn of_engine(&self, engine: &str) -> String {
        if self.settings.shared {
            return self.settings.here.clone();
        }
        let address = engine.split_once("://").map_or(engine, |(_, address)| address);
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let scheme = if self.settings.client.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{host}:{}", self.settings.port)
    }

    async fn pull(&self, agent: &str, weights: PullRequest) -> Result<String, ServiceError> {
        let mut client = self.client(agent)?;
        match client.pull(weights).await {
            Ok(pulled) => Ok(pulled.into_inner().path),
            Err(status) => Err(failure(agent, &status)),
        }
    }

    fn client(&self, agent: &str) -> Result<WeightsAgentClient<ClientChannel>, ServiceError> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(agent) {
            return Ok(client.clone());
        }
        let unusable = |error| ServiceError::Unavailable { reason: Reason::NotPulled, message: format!("{error}") };
        let channel = self.connector.connect_lazy(&ServerAddress::new(agent)).map_err(unusable)?;
        let client = WeightsAgentClient::new(channel);
        clients.insert(agent.to_owned(), client.clone());
        Ok(client)
    }
}

/// What an agent's refusal is here.
fn failure(agent: &str, status: &Status) -> ServiceError {
    let message = format!("the agent at {agent}: {}", status.message());
    if has_reason(status, Reason::WeightsGone) {
        return ServiceError::Precondition { reason: Reason::WeightsGone, message };
    }
    if has_reason(status, Reason::DiskFull) {
        ServiceError::DiskFull { message }
    } else {
        ServiceError::Unavailable { reason: Reason::NotPulled, message }
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_rpc::client::ClientTlsSettings;

    use super::*;

    fn agents() -> Agents {
        let settings = WeightsSettings { source: WeightsSource::Pull, ..WeightsSettings::default() };
        Agents::open(&settings).unwrap().unwrap()
    }

    #[test]
    fn the_agent_of_an_engine_is_on_its_host() {
        let mut agents = agents();
        assert_eq!(agents.of_engine("http://10.0.0.7:8000"), "http://10.0.0.7:50056");
        assert_eq!(agents.of_engine("https://[fd00::1]:8001"), "http://[fd00::1]:50056");
        agents.settings.client.tls = Some(ClientTlsSettings::default());
        assert_eq!(agents.of_engine("http://gpu-3:8000"), "https://gpu-3:50056");
        assert!(Agents::open(&WeightsSettings::default()).unwrap().is_none());
    }

    #[test]
    fn a_shared_agent_is_that_of_all_engines() {
        let mut agents = agents();
        agents.settings.shared = true;
        agents.settings.here = "http://weights:50056".to_owned();
        assert_eq!(agents.of_engine("http://10.0.0.7:8000"), "http://weights:50056");
    }
}
