//! Starts the agent. All errors in settings are reported before anything is served.

use std::sync::{Arc, Mutex};

use evenkeel_config::Settings;
use evenkeel_proto::v1::weights_agent_server::WeightsAgentServer;
use evenkeel_proto::v1::weights_client::WeightsClient;
use evenkeel_rpc::BoxFuture;
use evenkeel_rpc::client::{Connector, ServerAddress};
use evenkeel_rpc::retry::RetryPolicy;
use evenkeel_rpc::server::{Server, ServerInfo};

use crate::error::WeightsAgentError;
use crate::fetch::LearnerSource;
use crate::folders::Folders;
use crate::pull::Puller;
use crate::rate::Rate;
use crate::service::{NAME, WeightsAgentService};
use crate::settings::WeightsAgentSettings;

/// Binds the port. The learner need not be there yet. The returned server does not serve yet: [`Server::spawn`] or
/// [`Server::run`] does.
///
/// # Errors
/// Invalid settings, a port that is in use, a missing file, a folder that cannot be written.
pub fn bind(settings: WeightsAgentSettings) -> BoxFuture<'static, Result<Server, WeightsAgentError>> {
    Box::pin(start(settings))
}

async fn start(settings: WeightsAgentSettings) -> Result<Server, WeightsAgentError> {
    settings.validate().map_err(WeightsAgentError::Setting)?;
    let unusable = |source| WeightsAgentError::Folder { path: settings.folder.clone(), source };
    let folders = Folders::open(&settings.folder, settings.keep).map_err(unusable)?;
    let connector = Connector::new("client", settings.client.clone())?.for_large_answers();
    let channel = connector.connect_lazy(&ServerAddress::new(settings.learner.trim_end_matches('/')))?;
    let most = connector.max_message();
    let client = WeightsClient::new(channel).max_decoding_message_size(most).max_encoding_message_size(most);
    let server = Server::bind(NAME, "server", settings.server.clone()).await?;
    tracing::info!(folder = %folders.folder().display(), learner = settings.learner, "weights are fetched to this \
        folder");
    let retry = RetryPolicy::new(settings.retry_initial, settings.retry_max).with_jitter(folders.folder());
    let source = LearnerSource {
        client,
        address: settings.learner,
        rate: Rate::new(settings.max_rate.map(|rate| rate.bytes())),
        idle_timeout: settings.idle_timeout,
        retry,
        last_failure: Mutex::default(),
    };
    let puller = Puller { folders: Arc::new(folders), source: Arc::new(source), max_files: settings.max_files };
    let service = WeightsAgentService {
        puller: Arc::new(puller),
        pull_timeout: settings.pull_timeout,
        info: ServerInfo::new(NAME, server.drain()),
    };
    let limit = server.max_message();
    let service = WeightsAgentServer::new(service).max_decoding_message_size(limit).max_encoding_message_size(limit);
    Ok(server.with_service(service))
}
