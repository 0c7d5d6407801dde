//! Connections to environment workers: one stream to each address, reopened after it was lost.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use evenkeel_environment::{BuiltIn, Description, Descriptions};
use evenkeel_proto::v1::environment_client::EnvironmentClient;
use evenkeel_proto::v1::{
    EnvironmentEvent, EnvironmentGetStatusRequest, EnvironmentGetStatusResponse, EnvironmentRequest,
};
use evenkeel_rpc::client::{Connector, ServerAddress};
use evenkeel_rpc::dispatch::Endpoints as Workers;
use evenkeel_rpc::retry::RetryPolicy;
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use super::pool::Pool;

/// How often names are resolved.
const RESOLVE_INTERVAL: Duration = Duration::from_secs(3);
/// How long a connection with its stream may take.
const OPEN_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a worker is told that its episodes go on while the model is at its turn.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// Requests on their way to a worker.
const MAX_REQUESTS: usize = 1024;

/// All connections. Dropping it ends them.
pub(super) struct WorkerConnections(AbortHandle);

impl Drop for WorkerConnections {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl WorkerConnections {
    /// Keeps a connection to each address.
    pub(super) fn start(
        workers: Workers,
        connector: Connector,
        pauses: (Duration, Duration),
        (pool, described): (Arc<Pool>, Arc<Descriptions>),
    ) -> Self {
        let addresses = workers.watch(RESOLVE_INTERVAL);
        Self(tokio::spawn(keep_all(addresses, connector, pauses, (pool, described))).abort_handle())
    }
}

async fn keep_all(
    mut addresses: watch::Receiver<BTreeSet<ServerAddress>>,
    connector: Connector,
    pauses: (Duration, Duration),
    (pool, described): (Arc<Pool>, Arc<Descriptions>),
) {
    let mut tasks = JoinSet::new();
    let mut kept: BTreeMap<ServerAddress, AbortHandle> = BTreeMap::new();
    loop {
        let wanted = addresses.borrow_and_update().clone();
        for address in &wanted {
            pool.want(address, true);
            if kept.get(address).is_none_or(AbortHandle::is_finished) {
                let connection = Connection {
                    address: address.clone(),
                    connector: connector.clone(),
                    pauses,
                    pool: Arc::clone(&pool),
                    described: Arc::clone(&described),
                };
                kept.insert(address.clone(), tasks.spawn(connection.keep()));
            }
        }
        for address in kept.keys().filter(|address| !wanted.contains(*address)) {
            pool.want(address, false);
        }
        kept.retain(|_, task| !task.is_finished());
        // Finished tasks are forgotten.
        while tasks.try_join_next().is_some() {}
        if addresses.changed().await.is_err() {
            // Addresses that never change.
            while tasks.join_next().await.is_some() {}
            return;
        }
    }
}

/// The connection to one worker.
struct Connection {
    address: ServerAddress,
    connector: Connector,
    pauses: (Duration, Duration),
    pool: Arc<Pool>,
    /// The environments that do not come with the program, as the prompts have them.
    described: Arc<Descriptions>,
}

impl Connection {
    /// Keeps it open until the worker has left.
    async fn keep(self) {
        let client = (&self.address.url, std::process::id());
        let mut backoff = RetryPolicy::new(self.pauses.0, self.pauses.1).with_jitter(client).backoff();
        while !self.pool.has_left(&self.address) {
            match timeout(OPEN_TIMEOUT, self.open()).await {
                Ok(Ok((requests, events, status))) => {
                    backoff.reset();
                    self.serve(requests, events, &status).await;
                }
                Ok(Err(why)) => tracing::debug!(worker = self.address.url, why, "no environment worker"),
                Err(_) => tracing::debug!(worker = self.address.url, "an environment worker does not answer"),
            }
            tokio::time::sleep(backoff.next_pause()).await;
        }
    }

    async fn open(
        &self,
    ) -> Result<(mpsc::Sender<EnvironmentRequest>, Streaming<EnvironmentEvent>, EnvironmentGetStatusResponse), String>
    {
        let channel = self.connector.connect(&self.address).await.map_err(|error| error.to_string())?;
        let limit = self.connector.max_message();
        let client = EnvironmentClient::new(channel);
        let mut client = client.max_decoding_message_size(limit).max_encoding_message_size(limit);
        let refused = |status: tonic::Status| status.to_string();
        let status = client.get_status(EnvironmentGetStatusRequest {}).await.map_err(refused)?.into_inner();
        let (requests, receiver) = mpsc::channel(MAX_REQUESTS);
        let events = client.run(ReceiverStream::new(receiver)).await.map_err(refused)?.into_inner();
        Ok((requests, events, status))
    }

    /// Hands on what the worker says, until it is lost or has left.
    async fn serve(
        &self,
        requests: mpsc::Sender<EnvironmentRequest>,
        mut events: Streaming<EnvironmentEvent>,
        status: &EnvironmentGetStatusResponse,
    ) {
        let most = usize::try_from(status.max_episodes).unwrap_or(usize::MAX);
        let connection = self.pool.connected(&self.address, requests.clone(), known(status, &self.described), most);
        let mut keep_alive = interval(KEEP_ALIVE);
        keep_alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                event = events.message() => match event {
                    Ok(Some(event)) => self.pool.event(&self.address, event),
                    Ok(None) => break,
                    Err(status) => {
                        tracing::debug!(worker = self.address.url, %status, "an environment worker is lost");
                        break;
                    }
                },
                _ = keep_alive.tick() => {
                    if self.pool.has_left(&self.address) {
                        break;
                    }
                    if let Some(request) = self.pool.keep_alive(&self.address) {
                        // A worker that takes nothing is told of what it takes first.
                        let _ = requests.try_send(request);
                    }
                }
            }
        }
        self.pool.lost(&self.address, connection);
    }
}

/// The environments of a worker that are those that this program knows: prompts have their tools and what the model is
/// told beforehand.
fn known(status: &EnvironmentGetStatusResponse, described: &Descriptions) -> BTreeSet<String> {
    let theirs = status.environments.iter().filter_map(|info| Description::of_info(info).ok());
    let ours = |name: &str| {
        let built_in = BuiltIn::named("environment", name).map(Description::from);
        built_in.ok().or_else(|| described.get(name).cloned())
    };
    theirs.filter(|theirs| ours(&theirs.name).as_ref() == Some(theirs)).map(|theirs| theirs.name).collect()
}

#[cfg(test)]
mod tests {
    use evenkeel_proto::v1::EnvironmentInfo;

    use super::*;

    #[test]
    fn an_environment_with_other_tools_than_the_prompts_have_is_not_used() {
        let shop = Description { name: "shop.py".into(), digest: "sha256:1".into(), ..BuiltIn::Calculator.into() };
        let ours = BuiltIn::ALL.map(Description::from).into_iter().chain([shop.clone()]);
        let mut status = EnvironmentGetStatusResponse {
            environments: ours.map(|description| EnvironmentInfo::from(&description)).collect(),
            ..EnvironmentGetStatusResponse::default()
        };
        assert_eq!(known(&status, &Descriptions::new()).len(), 2, "nobody named the file");
        let described = Descriptions::from([("shop.py".to_owned(), shop)]);
        assert_eq!(known(&status, &described).len(), 3);
        status.environments[0].tools[0].description.push_str(" Or not.");
        status.environments[2].digest = "sha256:2".into();
        assert_eq!(known(&status, &described), BTreeSet::from(["guess-number".to_owned()]));
    }
}
