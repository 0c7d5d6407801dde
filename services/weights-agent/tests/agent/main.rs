//! The agent as its callers and the learner see it: over real loopback gRPC, into folders of their own.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

#[path = "../../../../crates/rpc/tests/support/certificates.rs"]
#[allow(dead_code, reason = "not all of it is needed here")]
mod certificates;
mod copies;
mod cuts;
mod planted;
mod secured;
mod source;

use std::future::Future;
use std::path::Path;
use std::time::Duration;

use evenkeel_proto::v1::weights_agent_client::WeightsAgentClient;
use evenkeel_proto::v1::{PullResponse, WeightsAgentGetStatusRequest};
use evenkeel_rpc::client::{ClientChannel, ClientSettings, Connector, ServerAddress};
use evenkeel_rpc::server::RunningServer;
use evenkeel_weights_agent::{WeightsAgentSettings, bind};
use source::{FakeLearner, Published};
use tonic::{Request, Status};

/// No test takes longer.
pub(crate) async fn bounded<F: Future>(test: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(120), test).await.expect("the test ends in time")
}

/// Settings for tests, with short intervals.
pub(crate) fn settings(source: &FakeLearner, folder: &Path) -> WeightsAgentSettings {
    WeightsAgentSettings {
        learner: source.endpoint(),
        folder: folder.to_owned(),
        pull_timeout: Duration::from_secs(30),
        idle_timeout: Duration::from_millis(300),
        retry_initial: Duration::from_millis(5),
        retry_max: Duration::from_millis(20),
        ..WeightsAgentSettings::default()
    }
}

/// An agent and its client.
pub(crate) struct Agent {
    pub(crate) server: RunningServer,
    pub(crate) client: WeightsAgentClient<ClientChannel>,
}

impl Agent {
    pub(crate) async fn start(source: &FakeLearner, folder: &Path) -> Self {
        Self::with(settings(source, folder)).await
    }

    pub(crate) async fn with(settings: WeightsAgentSettings) -> Self {
        let server = bind(settings).await.unwrap().spawn();
        let connector = Connector::new("client", ClientSettings::default()).unwrap();
        let channel = connector.connect(&ServerAddress::new(server.endpoint())).await.unwrap();
        Self { client: WeightsAgentClient::new(channel), server }
    }

    pub(crate) async fn pull(&self, published: &Published) -> Result<PullResponse, Status> {
        self.client.clone().pull(published.request()).await.map(tonic::Response::into_inner)
    }

    /// One that its caller gives up after that time.
    pub(crate) async fn pull_for(&self, published: &Published, time: Duration) -> Result<PullResponse, Status> {
        let mut request = Request::new(published.request());
        request.set_timeout(time);
        self.client.clone().pull(request).await.map(tonic::Response::into_inner)
    }

    pub(crate) async fn folders(&self) -> Vec<String> {
        self.client.clone().get_status(WeightsAgentGetStatusRequest {}).await.unwrap().into_inner().folders
    }
}

/// A copy has exactly the files that were published.
pub(crate) fn assert_same(path: &str, published: &Published) {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(path).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(std::fs::read(Path::new(path).join(&name)).unwrap() == published.files[&name], "{name}");
        names.push(name);
    }
    assert_eq!(names.len(), published.files.len(), "{names:?}");
}

/// Four tensors, the last of which is in the second file with the one before.
pub(crate) const TENSORS: [(&str, u8, usize); 4] =
    [("a", 1, 100_000), ("b", 2, 50_000), ("c", 3, 200_000), ("d", 4, 70_000)];
