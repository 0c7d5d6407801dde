//! A worker on loopback, and a stream to it.

use std::time::Duration;

use evenkeel_environment_service::{EnvironmentSettings, bind};
use evenkeel_proto::v1::environment_client::EnvironmentClient;
use evenkeel_proto::v1::environment_event::Kind as Event;
use evenkeel_proto::v1::environment_request::Kind;
use evenkeel_proto::v1::{
    Act, AssistantMessage, CloseEpisode, CloseReason, EnvironmentEvent, EnvironmentGetStatusRequest,
    EnvironmentGetStatusResponse, EnvironmentRequest, EpisodeFailure, FinishReason, Observed, OpenEpisode, ToolCall,
    Verdict,
};
use evenkeel_rpc::client::{ClientChannel, ClientSettings, Connector, ServerAddress};
use evenkeel_rpc::server::RunningServer;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

pub(crate) struct Worker {
    pub(crate) server: RunningServer,
}

impl Worker {
    pub(crate) async fn start() -> Self {
        Self::with(|_| {}).await
    }

    pub(crate) async fn with(change: impl FnOnce(&mut EnvironmentSettings)) -> Self {
        let mut settings = EnvironmentSettings::on("127.0.0.1:0");
        settings.server.drain = Duration::from_millis(300);
        change(&mut settings);
        Self { server: bind(settings).await.unwrap().spawn() }
    }

    pub(crate) async fn client(&self) -> EnvironmentClient<ClientChannel> {
        let connector = Connector::new("client", ClientSettings::default()).unwrap();
        EnvironmentClient::new(connector.connect(&ServerAddress::new(self.server.endpoint())).await.unwrap())
    }

    pub(crate) async fn status(&self) -> EnvironmentGetStatusResponse {
        self.client().await.get_status(EnvironmentGetStatusRequest {}).await.unwrap().into_inner()
    }

    pub(crate) async fn open(&self) -> Stream {
        let (requests, receiver) = mpsc::channel(4096);
        let events = self.client().await.run(ReceiverStream::new(receiver)).await.unwrap().into_inner();
        Stream { requests, events }
    }
}

pub(crate) struct Stream {
    pub(crate) requests: mpsc::Sender<EnvironmentRequest>,
    events: Streaming<EnvironmentEvent>,
}

impl Stream {
    pub(crate) async fn send(&self, kind: Kind) {
        self.requests.send(EnvironmentRequest { kind: Some(kind) }).await.unwrap();
    }

    pub(crate) async fn next(&mut self) -> Result<EnvironmentEvent, Status> {
        let event =
            tokio::time::timeout(Duration::from_secs(20), self.events.message()).await.expect("an event in time");
        Ok(event?.expect("the stream goes on"))
    }

    pub(crate) async fn kind(&mut self) -> Event {
        self.next().await.unwrap().kind.unwrap()
    }

    pub(crate) async fn observed(&mut self) -> Observed {
        match self.kind().await {
            Event::Observed(observed) => observed,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn failed(&mut self) -> (EpisodeFailure, bool, String) {
        match self.kind().await {
            Event::Failed(failed) => (failed.failure(), failed.retryable, failed.message),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn begin(&mut self, id: &str, environment: &str, task: &str) {
        self.send(open(id, environment, task)).await;
        assert!(matches!(self.kind().await, Event::Opened(_)), "it opens");
    }
}

pub(crate) fn open(id: &str, environment: &str, task: &str) -> Kind {
    Kind::Open(OpenEpisode {
        episode_id: id.to_owned(),
        attempt: 1,
        environment: environment.to_owned(),
        task: task.as_bytes().to_vec(),
        ..OpenEpisode::default()
    })
}

pub(crate) fn call(turn: u32, name: &str, arguments: &str) -> ToolCall {
    ToolCall {
        id: format!("call_{turn}"),
        name: name.to_owned(),
        arguments: arguments.to_owned(),
        error: String::new(),
    }
}

pub(crate) fn act(id: &str, turn: u32, tool_calls: Vec<ToolCall>) -> Kind {
    Kind::Act(Act {
        episode_id: id.to_owned(),
        attempt: 1,
        turn,
        message: Some(AssistantMessage { tool_calls, ..AssistantMessage::default() }),
        finish_reason: FinishReason::Stop.into(),
        ..Act::default()
    })
}

pub(crate) fn close(id: &str, reason: CloseReason) -> Kind {
    Kind::Close(CloseEpisode { episode_id: id.to_owned(), attempt: 1, reason: reason.into(), deadline_ms: None })
}

pub(crate) fn compute(turn: u32, expression: &str) -> ToolCall {
    call(turn, "calculator", &serde_json::json!({"expression": expression}).to_string())
}

/// An action with a text.
pub(crate) fn say(id: &str, turn: u32, text: &str) -> Kind {
    match act(id, turn, vec![]) {
        Kind::Act(act) => {
            let message = AssistantMessage { content: text.to_owned(), ..AssistantMessage::default() };
            Kind::Act(Act { message: Some(message), ..act })
        }
        other => other,
    }
}

impl Stream {
    /// The verdict that an episode ends with.
    pub(crate) async fn scored(&mut self) -> Option<Verdict> {
        match self.kind().await {
            Event::Scored(scored) => scored.verdict,
            other => panic!("{other:?}"),
        }
    }

    /// Sends a turn and returns what is observed.
    pub(crate) async fn turn(&mut self, kind: Kind) -> Observed {
        self.send(kind).await;
        self.observed().await
    }
}

impl Worker {
    /// The worker with a stream to it.
    pub(crate) async fn open_kept(self) -> (Self, Stream) {
        let stream = self.open().await;
        (self, stream)
    }
}

pub(crate) async fn until<F: Future<Output = bool>>(mut holds: impl FnMut() -> F) {
    for _ in 0..1000 {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it never holds");
}
