//! Weights that agents fetch: each engine loads the copy of its node, and none pauses before it is there.

use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use evenkeel_generation::{AgentsSettings, GenerationSettings, WeightsSource};
use evenkeel_proto::v1::weights_agent_server::{WeightsAgent, WeightsAgentServer};
use evenkeel_proto::v1::{
    EngineHealth, EngineUpdateOutcome, PauseMode, PullRequest, PullResponse, UpdateWeightsRequest,
    WeightsAgentGetStatusRequest, WeightsAgentGetStatusResponse,
};
use evenkeel_rpc::error::{Reason, ServiceError, has_reason};
use evenkeel_rpc::server::{RunningServer, Server, ServerSettings};
use tonic::{Code, Request, Response, Status};

use crate::support::{FakeEngine, Service, bounded, item, label, settings, weights};

const HOSTS: [&str; 2] = ["127.0.0.1", "127.0.0.2"];

#[derive(Default)]
struct AgentState {
    pulled: Mutex<Vec<u64>>,
    /// The digest of all files that was asked for last.
    files_digest: Mutex<String>,
    /// The disk of its node is full.
    is_full: AtomicBool,
    /// The learner has the version no longer.
    is_gone: AtomicBool,
}

/// An agent that has everything, in a folder of its own.
struct Agent {
    node: usize,
    state: Arc<AgentState>,
}

#[tonic::async_trait]
impl WeightsAgent for Agent {
    async fn pull(&self, request: Request<PullRequest>) -> Result<Response<PullResponse>, Status> {
        let PullRequest { version, files_digest, .. } = request.into_inner();
        *self.state.files_digest.lock().unwrap() = files_digest;
        if self.state.is_full.load(Ordering::SeqCst) {
            return Err(
                ServiceError::DiskFull { message: "/copies: needed: 3 GiB, free on the disk: 1 GiB".into() }.into()
            );
        }
        if self.state.is_gone.load(Ordering::SeqCst) {
            let message = format!("version {version} is not published, or not any more");
            return Err(ServiceError::Precondition { reason: Reason::WeightsGone, message }.into());
        }
        self.state.pulled.lock().unwrap().push(version);
        let path = format!("/node-{}/{version}", self.node);
        Ok(Response::new(PullResponse { path, ..PullResponse::default() }))
    }

    async fn get_status(
        &self,
        _: Request<WeightsAgentGetStatusRequest>,
    ) -> Result<Response<WeightsAgentGetStatusResponse>, Status> {
        Ok(Response::new(WeightsAgentGetStatusResponse::default()))
    }
}

/// Two nodes, each with an engine and an agent; the first one's is also that of the service.
struct Nodes {
    engines: [FakeEngine; 2],
    agents: [Arc<AgentState>; 2],
    port: u16,
    _servers: Vec<RunningServer>,
}

impl Nodes {
    async fn start(engine: fn(usize) -> FakeEngine) -> Self {
        let port = loop {
            let free = TcpListener::bind((HOSTS[0], 0)).unwrap();
            let port = free.local_addr().unwrap().port();
            if TcpListener::bind((HOSTS[1], port)).is_ok() {
                break port;
            }
        };
        let agents: [Arc<AgentState>; 2] = Default::default();
        let mut servers = Vec::new();
        for (node, state) in agents.iter().enumerate() {
            let server = ServerSettings::on(format!("{}:{port}", HOSTS[node]));
            let server = Server::bind("agent", "server", server).await.unwrap();
            let agent = Agent { node, state: Arc::clone(state) };
            servers.push(server.with_service(WeightsAgentServer::new(agent)).spawn());
        }
        Self { engines: [engine(0), engine(1)], agents, port, _servers: servers }
    }

    fn settings(&self) -> GenerationSettings {
        let mut settings = settings(&self.engines.iter().collect::<Vec<_>>());
        settings.weights.source = WeightsSource::Pull;
        let here = format!("http://{}:{}", HOSTS[0], self.port);
        settings.weights.agents = AgentsSettings { port: self.port, here, ..AgentsSettings::default() };
        settings
    }
}

fn on_host(node: usize) -> FakeEngine {
    FakeEngine::start_on(format!("{}:0", HOSTS[node]).parse().unwrap())
}

fn wait_for_samples(version: u64) -> UpdateWeightsRequest {
    UpdateWeightsRequest { pause_mode: PauseMode::Wait.into(), ..weights(version) }
}

#[tokio::test]
async fn each_engine_loads_the_copy_of_its_own_node() {
    bounded(async {
        let nodes = Nodes::start(on_host).await;
        let service = Service::with(nodes.settings()).await;
        let mut request = wait_for_samples(3);
        let files_digest = format!("sha256:{:064x}", 33);
        request.weights = request.weights.map(|weights| weights.with_files_digest(files_digest.as_str()));
        let response = service.update(request).await.unwrap();
        for (node, (engine, update)) in nodes.engines.iter().zip(&response.engines).enumerate() {
            assert_eq!(update.outcome(), EngineUpdateOutcome::Updated);
            let expected = [
                "pause mode=wait clear_cache=true".to_owned(),
                format!("reload_weights /node-{node}/3 live=0 paused=true"),
                format!("version {}", label(3)),
                "resume".to_owned(),
            ];
            assert_eq!(engine.take_log(), expected);
            assert!(nodes.agents[node].pulled.lock().unwrap().iter().all(|version| *version == 3));
            assert_eq!(*nodes.agents[node].files_digest.lock().unwrap(), files_digest);
        }
        assert_eq!(service.draw(item("a", 1)).await.segments[0].policy_version, Some(3));
    })
    .await;
}

#[tokio::test]
async fn engines_that_share_a_folder_load_what_one_agent_has_fetched() {
    bounded(async {
        let nodes = Nodes::start(on_host).await;
        let mut settings = nodes.settings();
        settings.weights.agents.shared = true;
        let service = Service::with(settings).await;
        let response = service.update(wait_for_samples(3)).await.unwrap();
        for (engine, update) in nodes.engines.iter().zip(&response.engines) {
            assert_eq!(update.outcome(), EngineUpdateOutcome::Updated);
            let loaded = "reload_weights /node-0/3 live=0 paused=true".to_owned();
            assert!(engine.take_log().contains(&loaded));
        }
        assert!(
            nodes.agents[1].pulled.lock().unwrap().is_empty(),
            "the agent on the second engine's host is not asked"
        );
    })
    .await;
}

#[tokio::test]
async fn an_engine_whose_node_has_no_room_is_not_paused_and_comes_back_once_it_has() {
    bounded(async {
        let nodes = Nodes::start(on_host).await;
        let service = Service::with(nodes.settings()).await;
        nodes.agents[1].is_full.store(true, Ordering::SeqCst);
        let response = service.update(wait_for_samples(1)).await.unwrap();
        let [one, two] = [&response.engines[0], &response.engines[1]];
        assert_eq!((one.outcome(), two.outcome()), (EngineUpdateOutcome::Updated, EngineUpdateOutcome::Failed));
        let failure = two.failure.as_ref().unwrap();
        assert_eq!(failure.reason, "DISK_FULL");
        let words = format!("the agent at http://{}:{}: /copies: needed: 3 GiB", HOSTS[1], nodes.port);
        assert!(failure.message.contains(&words), "{}", failure.message);
        assert!(nodes.engines[1].take_log().is_empty());
        // Its samples are drawn by the other one.
        assert_eq!(service.draw(item("a", 1)).await.segments[0].policy_version, Some(1));
        nodes.agents[1].is_full.store(false, Ordering::SeqCst);
        service.until_health(&[EngineHealth::Healthy; 2]).await;
        assert_eq!(nodes.engines[1].label(), label(1));
    })
    .await;
}

#[tokio::test]
async fn weights_that_are_gone_change_nothing() {
    bounded(async {
        let nodes = Nodes::start(on_host).await;
        let service = Service::with(nodes.settings()).await;
        service.update(wait_for_samples(1)).await.unwrap();
        nodes.engines.iter().for_each(|engine| drop(engine.take_log()));
        nodes.agents.iter().for_each(|agent| agent.is_gone.store(true, Ordering::SeqCst));
        let status = service.update(wait_for_samples(2)).await.unwrap_err();
        assert_eq!(status.code(), Code::FailedPrecondition);
        assert!(has_reason(&status, Reason::WeightsGone) && status.message().contains("version 2"), "{status}");
        assert!(nodes.engines.iter().all(|engine| engine.take_log().is_empty()));
        assert_eq!(service.draw(item("a", 1)).await.segments[0].policy_version, Some(1));
    })
    .await;
}

#[tokio::test]
async fn an_agent_that_does_not_answer_is_named() {
    bounded(async {
        let nodes = Nodes::start(on_host).await;
        let mut settings = nodes.settings();
        settings.weights.agents.here = "http://127.0.0.1:1".into();
        let service = Service::with(settings).await;
        let status = service.update(wait_for_samples(2)).await.unwrap_err();
        assert_eq!(status.code(), Code::Unavailable);
        assert!(has_reason(&status, Reason::NotPulled), "{status}");
        assert!(status.message().starts_with("the agent at http://127.0.0.1:1: "), "{status}");
    })
    .await;
}
