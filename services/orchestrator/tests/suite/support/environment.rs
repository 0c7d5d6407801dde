//! An environment worker that plays as the real one does, unless its script says otherwise.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use evenkeel_environment::{BuiltIn, Description, Environment as Played, step};
use evenkeel_proto::v1::environment_event::Kind as Event;
use evenkeel_proto::v1::environment_request::Kind;
use evenkeel_proto::v1::environment_server::{Environment, EnvironmentServer};
use evenkeel_proto::v1::{
    EnvironmentEvent, EnvironmentGetStatusRequest, EnvironmentGetStatusResponse, EnvironmentInfo, EnvironmentRequest,
    EpisodeFailed, EpisodeFailure, Observed, Opened, Scored,
};
use evenkeel_rpc::server::{RunningServer, Server, ServerSettings};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

/// What becomes of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The stream breaks, with all of its episodes.
    Lost,
    Failed(EpisodeFailure, bool),
    /// Answers twice.
    Twice,
    /// Never answers.
    Silence,
    /// The answer is one of another turn.
    Nonsense,
}

/// What becomes of a request, by the sample's id, what is asked (`open`, `act`, `close`) and the attempt.
pub(crate) type Script = Box<dyn Fn(&str, &str, u32) -> Option<Fault> + Send + Sync>;

/// An agent, as its events after a request.
pub(crate) type Agent = Box<dyn Fn(&Kind) -> Vec<EnvironmentEvent> + Send + Sync>;

#[derive(Default)]
pub(crate) struct State {
    /// Plays instead of the environments that come with the program.
    pub(crate) agent: Mutex<Option<Agent>>,
    pub(crate) script: Mutex<Option<Script>>,
    /// What was asked, by sample.
    pub(crate) seen: Mutex<Vec<(String, &'static str, u32)>>,
}

pub(crate) struct FakeEnvironment {
    pub(crate) state: Arc<State>,
    pub(crate) server: RunningServer,
}

#[derive(Clone)]
struct Service {
    state: Arc<State>,
    most: u64,
}

impl FakeEnvironment {
    /// A worker that takes a limited number of episodes.
    pub(crate) async fn start(most: u64) -> Self {
        let state = Arc::new(State::default());
        let settings = ServerSettings { drain: Duration::from_millis(100), ..ServerSettings::on("127.0.0.1:0") };
        let server = Server::bind("fake", "server", settings).await.unwrap();
        let service = Service { state: Arc::clone(&state), most };
        Self { state, server: server.with_service(EnvironmentServer::new(service)).spawn() }
    }
}

/// An environment in a file that the worker has besides. It is the calculator, unless the script for agents plays it.
pub(crate) fn file() -> Description {
    let name = "shelf.py".to_owned();
    Description { name, digest: "sha256:1".to_owned(), user_speaks: true, ..BuiltIn::Calculator.into() }
}

/// An agent that the worker has besides.
pub(crate) fn agent() -> Description {
    let name = "agent:scripted.py".to_owned();
    let digest = "sha256:0".to_owned();
    Description { name, tools: Vec::new(), digest, user_speaks: true, is_agent: true, ..BuiltIn::Calculator.into() }
}

pub(crate) fn event(id: &str, attempt: u32, kind: Event) -> EnvironmentEvent {
    EnvironmentEvent { episode_id: id.to_owned(), attempt, kind: Some(kind) }
}

/// The answers to a request.
fn answers(episodes: &mut HashMap<String, Box<dyn Played>>, kind: Kind) -> Vec<EnvironmentEvent> {
    match kind {
        Kind::Open(open) => {
            let built_in = BuiltIn::named("environment", &open.environment).unwrap_or(BuiltIn::Calculator);
            episodes.insert(open.episode_id.clone(), built_in.open(&open.task, open.seed).unwrap());
            vec![event(&open.episode_id, open.attempt, Event::Opened(Opened::default()))]
        }
        Kind::Act(act) => {
            let id = act.episode_id.clone();
            let attempt = act.attempt;
            let turn = act.turn;
            let episode = episodes.get_mut(&id).unwrap();
            let done = step(episode.as_mut(), &act.message.clone().unwrap(), act.finish_reason());
            let observed = Observed {
                turn,
                messages: done.messages,
                done: done.done,
                tool_errors: done.tool_errors,
                work_us: 7,
                request: None,
                reward: done.reward,
            };
            let mut events = vec![event(&id, attempt, Event::Observed(observed))];
            if done.done {
                events.push(event(&id, attempt, Event::Scored(Scored { verdict: episode.verdict(&id) })));
                episodes.remove(&id);
            }
            events
        }
        Kind::Close(close) => {
            let episode = episodes.remove(&close.episode_id);
            let is_budget = close.reason() == evenkeel_proto::v1::CloseReason::Budget;
            episode.filter(|_| is_budget).map_or_else(Vec::new, |mut episode| {
                let verdict = episode.verdict(&close.episode_id);
                vec![event(&close.episode_id, close.attempt, Event::Scored(Scored { verdict }))]
            })
        }
        Kind::KeepAlive(_) => vec![],
    }
}

#[tonic::async_trait]
impl Environment for Service {
    type RunStream = ReceiverStream<Result<EnvironmentEvent, Status>>;

    async fn run(&self, request: Request<Streaming<EnvironmentRequest>>) -> Result<Response<Self::RunStream>, Status> {
        let mut requests = request.into_inner();
        let service = self.clone();
        let (sender, receiver) = mpsc::channel(64);
        tokio::spawn(async move {
            let mut episodes = HashMap::new();
            while let Ok(Some(EnvironmentRequest { kind: Some(kind) })) = requests.message().await {
                let (id, what, attempt, turn) = match &kind {
                    Kind::Open(open) => (open.episode_id.clone(), "open", open.attempt, 0),
                    Kind::Act(act) => (act.episode_id.clone(), "act", act.attempt, act.turn),
                    Kind::Close(close) => (close.episode_id.clone(), "close", close.attempt, 0),
                    Kind::KeepAlive(_) => continue,
                };
                service.state.seen.lock().unwrap().push((id.clone(), what, attempt));
                let fault = service.state.script.lock().unwrap().as_ref().and_then(|script| script(&id, what, attempt));
                let by_agent = service.state.agent.lock().unwrap().as_ref().map(|agent| agent(&kind));
                let mut events = match fault {
                    Some(Fault::Lost) => return,
                    Some(Fault::Silence) => continue,
                    Some(Fault::Failed(failure, retryable)) => {
                        let message = "as scripted".to_owned();
                        let failed = EpisodeFailed { failure: failure.into(), retryable, message };
                        vec![event(&id, attempt, Event::Failed(failed))]
                    }
                    Some(Fault::Nonsense) => {
                        vec![event(&id, attempt, Event::Observed(Observed { turn: turn + 7, ..Observed::default() }))]
                    }
                    _ if by_agent.is_some() => by_agent.unwrap_or_default(),
                    Some(Fault::Twice) | None => answers(&mut episodes, kind),
                };
                if fault == Some(Fault::Twice) {
                    events = events.into_iter().flat_map(|event| [event.clone(), event]).collect();
                }
                for event in events {
                    if sender.send(Ok(event)).await.is_err() {
                        return;
                    }
                }
            }
        });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    async fn get_status(
        &self,
        _: Request<EnvironmentGetStatusRequest>,
    ) -> Result<Response<EnvironmentGetStatusResponse>, Status> {
        let info = |built_in: BuiltIn| EnvironmentInfo::from(&Description::from(built_in));
        Ok(Response::new(EnvironmentGetStatusResponse {
            environments: BuiltIn::ALL
                .into_iter()
                .map(info)
                .chain([&agent(), &file()].map(EnvironmentInfo::from))
                .collect(),
            max_episodes: self.most,
            ..EnvironmentGetStatusResponse::default()
        }))
    }
}
