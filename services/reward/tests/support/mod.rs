//! A reward worker on loopback, and items for it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]
#![allow(dead_code, reason = "every test file uses a different part")]

use std::future::Future;
use std::sync::mpsc;
use std::time::Duration;

use evenkeel_proto::v1::reward_client::RewardClient;
use evenkeel_proto::v1::verify_item::{Answer, Task};
use evenkeel_proto::v1::{
    MathTask, RewardGetStatusRequest, RewardGetStatusResponse, Verdict, VerifyItem, VerifyOneRequest, VerifyRequest,
};
use evenkeel_reward::{RewardSettings, bind};
use evenkeel_rpc::client::{ClientChannel, ClientSettings, Connector, ServerAddress};
use evenkeel_rpc::server::RunningServer;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

/// Runs a test with a time limit. The runtime has a single thread for judging, which [`Occupied`] can block.
pub(crate) fn bounded<F: Future>(test: F) -> F::Output {
    within(Duration::from_secs(60), test)
}

/// For tests that run programs: the first one on a machine builds the interpreter.
pub(crate) fn with_sandbox<F: Future>(test: F) -> F::Output {
    within(Duration::from_secs(600), test)
}

fn within<F: Future>(limit: Duration, test: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let output = runtime.block_on(async { tokio::time::timeout(limit, test).await });
    runtime.shutdown_background();
    output.expect("the test ends in time")
}

/// Blocks the judging thread until it is dropped, so that items stay pending.
pub(crate) struct Occupied {
    _release: mpsc::Sender<()>,
}

impl Occupied {
    pub(crate) async fn thread() -> Self {
        let (release, released) = mpsc::channel::<()>();
        let (begun, has_begun) = tokio::sync::oneshot::channel();
        tokio::task::spawn_blocking(move || {
            let _ = begun.send(());
            let _ = released.recv();
        });
        has_begun.await.unwrap();
        Self { _release: release }
    }
}

pub(crate) struct Worker {
    pub(crate) server: RunningServer,
}

impl Worker {
    pub(crate) async fn start() -> Self {
        Self::with(RewardSettings::default()).await
    }

    pub(crate) async fn with(settings: RewardSettings) -> Self {
        Self { server: bind(settings).await.unwrap().spawn() }
    }

    pub(crate) async fn client(&self) -> RewardClient<ClientChannel> {
        let channel = Connector::new("client", ClientSettings::default()).unwrap();
        let client = RewardClient::new(channel.connect(&ServerAddress::new(self.server.endpoint())).await.unwrap());
        client.max_decoding_message_size(64 << 20).max_encoding_message_size(64 << 20)
    }

    pub(crate) async fn one(&self, item: VerifyItem) -> Verdict {
        let response = self.client().await.verify_one(VerifyOneRequest { item: Some(item) }).await.unwrap();
        response.into_inner().verdict.unwrap()
    }

    pub(crate) async fn status(&self) -> RewardGetStatusResponse {
        self.client().await.get_status(RewardGetStatusRequest {}).await.unwrap().into_inner()
    }

    /// Waits until this many items are in progress.
    pub(crate) async fn running(&self, items: u64) {
        while self.status().await.queue.unwrap().running_items != items {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

/// Client's and server's ends of a stream.
pub(crate) struct Stream {
    requests: tokio::sync::mpsc::Sender<VerifyRequest>,
    verdicts: Streaming<Verdict>,
}

impl Stream {
    pub(crate) async fn open(worker: &Worker) -> Self {
        let (requests, receiver) = tokio::sync::mpsc::channel(4096);
        let verdicts = worker.client().await.verify(ReceiverStream::new(receiver)).await.unwrap().into_inner();
        Self { requests, verdicts }
    }

    pub(crate) async fn send(&self, request: impl Into<VerifyRequest>) {
        self.requests.send(request.into()).await.unwrap();
    }

    pub(crate) async fn verdict(&mut self) -> Verdict {
        self.verdicts.message().await.unwrap().unwrap()
    }

    pub(crate) async fn try_verdict(&mut self) -> Result<Option<Verdict>, Status> {
        self.verdicts.message().await
    }

    /// Closes the sending half.
    pub(crate) fn half_close(self) -> Streaming<Verdict> {
        self.verdicts
    }
}

/// An item with a completion and a gold answer.
pub(crate) fn item(id: impl Into<String>, gold: &str, completion: &str) -> VerifyItem {
    task(id, completion, MathTask { gold: gold.into(), ..MathTask::default() })
}

/// An item with a solution before the answer: too long to be judged where it is read, so that [`Occupied`] keeps it
/// pending.
pub(crate) fn long_item(id: impl Into<String>, gold: &str, completion: &str) -> VerifyItem {
    item(id, gold, &format!("{}{completion}", "We add both sides and compare. ".repeat(100)))
}

/// An item with a completion and a mathematical task.
pub(crate) fn task(id: impl Into<String>, completion: &str, task: MathTask) -> VerifyItem {
    VerifyItem {
        id: id.into(),
        answer: Some(Answer::Completion(completion.into())),
        task: Some(Task::Math(task)),
        ..VerifyItem::default()
    }
}
