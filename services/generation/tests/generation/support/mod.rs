//! A real service over loopback gRPC, in front of scripted engines.

pub(crate) mod completions;
pub(crate) mod engine;
pub(crate) mod process;

use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

use evenkeel_generation::{EngineClientSettings, GenerationSettings, WeightsSettings, bind};
use evenkeel_proto::SamplingSettings;
use evenkeel_proto::v1::generation_client::GenerationClient;
use evenkeel_proto::v1::{
    EngineHealth, GenerateItem, GenerateRequest, GenerationGetStatusRequest, GenerationGetStatusResponse, Rollout,
    UpdateWeightsRequest, UpdateWeightsResponse, WeightsRef,
};
use evenkeel_rpc::client::{ClientChannel, ClientSettings, Connector, ServerAddress};
use evenkeel_rpc::server::{RunningServer, Server, ServerSettings};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

pub(crate) use engine::{FakeEngine, Reply};

/// No test takes longer.
pub(crate) async fn bounded<F: Future>(test: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(300), test).await.expect("the test ends in time")
}

/// Settings for tests, with short intervals.
pub(crate) fn settings(engines: &[&FakeEngine]) -> GenerationSettings {
    settings_of(engines.iter().map(|engine| engine.endpoint()).collect())
}

/// Settings with these engines.
pub(crate) fn settings_of(endpoints: Vec<String>) -> GenerationSettings {
    GenerationSettings {
        server: ServerSettings { drain: Duration::from_secs(2), ..ServerSettings::default() },
        endpoints,
        item_deadline: Duration::from_secs(30),
        retry_initial: Duration::from_millis(5),
        retry_max: Duration::from_millis(50),
        engine: EngineClientSettings {
            control_timeout: Duration::from_millis(500),
            startup_timeout: Duration::from_secs(5),
            health_interval: Duration::from_millis(50),
            health_failures: 2,
            probe_initial: Duration::from_millis(10),
            probe_max: Duration::from_millis(50),
            unavailable_after: Duration::from_secs(10),
            ..EngineClientSettings::default()
        },
        weights: WeightsSettings {
            check_folder: false,
            update_timeout: Duration::from_secs(10),
            settle_timeout: Duration::from_millis(300),
            ..WeightsSettings::default()
        },
        ..GenerationSettings::default()
    }
}

/// A service and its client.
pub(crate) struct Service {
    pub(crate) server: RunningServer,
    pub(crate) client: GenerationClient<ClientChannel>,
}

impl Service {
    pub(crate) async fn start(engines: &[&FakeEngine]) -> Self {
        Self::with(settings(engines)).await
    }

    pub(crate) async fn with(settings: GenerationSettings) -> Self {
        Self::of(bind(settings).await.unwrap()).await
    }

    pub(crate) async fn of(server: Server) -> Self {
        let server = server.spawn();
        let channel = Connector::new("client", ClientSettings::default())
            .unwrap()
            .connect(&ServerAddress::new(server.endpoint()))
            .await;
        Self { client: GenerationClient::new(channel.unwrap()), server }
    }

    pub(crate) async fn stream(&self) -> Stream {
        Stream::open(&self.client).await
    }

    /// Draws all of them and returns them by id.
    pub(crate) async fn draw_all(&self, items: Vec<GenerateItem>) -> BTreeMap<String, Rollout> {
        let mut stream = self.stream().await;
        let count = items.len();
        let requests = stream.requests.clone();
        tokio::spawn(async move {
            for item in items {
                if requests.send(item.into()).await.is_err() {
                    return;
                }
            }
        });
        let mut rollouts = BTreeMap::new();
        for _ in 0..count {
            let rollout = stream.next().await;
            let twice = rollouts.insert(rollout.sample_id.clone(), rollout);
            assert!(twice.is_none(), "{twice:?} was answered twice");
        }
        assert_eq!(stream.end().await.unwrap(), None);
        rollouts
    }

    pub(crate) async fn draw(&self, item: GenerateItem) -> Rollout {
        self.draw_all(vec![item]).await.into_values().next().unwrap()
    }

    pub(crate) async fn update(&self, request: UpdateWeightsRequest) -> Result<UpdateWeightsResponse, Status> {
        self.client.clone().update_weights(request).await.map(tonic::Response::into_inner)
    }

    pub(crate) async fn status(&self) -> GenerationGetStatusResponse {
        self.client.clone().get_status(GenerationGetStatusRequest {}).await.unwrap().into_inner()
    }

    pub(crate) async fn health(&self) -> Vec<EngineHealth> {
        self.status().await.engines.iter().map(|engine| engine.health()).collect()
    }

    pub(crate) async fn until_health(&self, wanted: &[EngineHealth]) {
        loop {
            let health = self.health().await;
            // An engine that came back samples, few or many.
            let same = |(have, want): (&EngineHealth, &EngineHealth)| {
                have == want || (*want == EngineHealth::Healthy && *have == EngineHealth::Suspect)
            };
            if health.iter().zip(wanted).all(same) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// Client's and server's ends of a stream.
pub(crate) struct Stream {
    pub(crate) requests: mpsc::Sender<GenerateRequest>,
    pub(crate) rollouts: Streaming<Rollout>,
}

impl Stream {
    pub(crate) async fn open(client: &GenerationClient<ClientChannel>) -> Self {
        let (requests, receiver) = mpsc::channel(1024);
        let rollouts = client.clone().generate(ReceiverStream::new(receiver)).await.unwrap().into_inner();
        Self { requests, rollouts }
    }

    pub(crate) async fn send(&self, request: impl Into<GenerateRequest>) {
        self.requests.send(request.into()).await.unwrap();
    }

    pub(crate) async fn next(&mut self) -> Rollout {
        self.rollouts.message().await.unwrap().expect("an answer")
    }

    pub(crate) async fn end(mut self) -> Result<Option<Rollout>, Status> {
        drop(self.requests);
        self.rollouts.message().await
    }
}

/// An item of 8 tokens.
pub(crate) fn item(id: impl Into<String>, seed: u64) -> GenerateItem {
    GenerateItem {
        sample_id: id.into(),
        prompt_token_ids: vec![3, 4, 5],
        sampling: Some(SamplingSettings::plain(8, seed).into()),
        ..GenerateItem::default()
    }
}

/// Items of one group.
pub(crate) fn items(count: u64) -> Vec<GenerateItem> {
    (0..count)
        .map(|seed| GenerateItem { group_id: format!("g/{}", seed / 16), ..item(format!("s/{seed}"), seed) })
        .collect()
}

pub(crate) fn with_tokens(mut item: GenerateItem, max_tokens: u32) -> GenerateItem {
    item.sampling.as_mut().unwrap().max_tokens = Some(max_tokens);
    item
}

/// A request for this version.
pub(crate) fn weights(version: u64) -> UpdateWeightsRequest {
    let digest = format!("sha256:{version:064x}");
    UpdateWeightsRequest {
        weights: Some(WeightsRef::at_path(version, digest, format!("/weights/step-{version}"), 0)),
        ..UpdateWeightsRequest::default()
    }
}

/// What engines call this version.
pub(crate) fn label(version: u64) -> String {
    format!("{version}-sha256:{version:064x}")
}

/// Ids and log-probabilities of a rollout.
pub(crate) fn content(rollout: &Rollout) -> (Vec<u32>, Vec<f32>) {
    let ids = rollout.segments.iter().flat_map(|segment| segment.token_ids.clone()).collect();
    let values = rollout.segments.iter().flat_map(|segment| segment.log_probabilities.clone()).collect();
    (ids, values)
}

/// Waits until something holds; the caller's bound ends it if it never does.
pub(crate) async fn until(mut holds: impl FnMut() -> bool) {
    while !holds() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
