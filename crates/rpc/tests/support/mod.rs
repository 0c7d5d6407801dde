//! A reward worker that does what an item's completion tells it to: the real protocol, the real server, no judgement.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]
#![allow(dead_code, reason = "every test file uses another part of it")]

pub(crate) mod certificates;

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use evenkeel_proto::v1::reward_client::RewardClient;
use evenkeel_proto::v1::reward_server::{Reward, RewardServer};
use evenkeel_proto::v1::{
    MathTask, Outcome, RewardGetStatusRequest, RewardGetStatusResponse, Verdict, VerifyItem, VerifyOneRequest,
    VerifyOneResponse, VerifyRequest, verify_item,
};
use evenkeel_rpc::client::{ClientChannel, ClientSettings, Connector, ServerAddress};
use evenkeel_rpc::items::{ItemContext, ItemLimits, ItemServer, ResponseStream, VerifyItems};
use evenkeel_rpc::server::{RunningServer, Server, ServerSettings};
use tonic::{Request, Response, Status, Streaming};

/// No test takes longer.
pub(crate) async fn bounded<F: Future>(test: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(300), test).await.expect("the test ends in time")
}

/// What a worker has seen.
#[derive(Default)]
pub(crate) struct Seen {
    /// Items begun.
    pub(crate) begun: AtomicUsize,
    /// Handlers that ended before they had an answer.
    pub(crate) stopped: AtomicUsize,
    /// Trace id by item.
    pub(crate) traces: Mutex<BTreeMap<String, String>>,
}

#[derive(Clone)]
pub(crate) struct TestReward {
    pub(crate) name: String,
    pub(crate) items: ItemServer<VerifyItems>,
    pub(crate) seen: Arc<Seen>,
}

struct StopCount(Arc<Seen>, bool);

impl Drop for StopCount {
    fn drop(&mut self) {
        if !self.1 {
            self.0.stopped.fetch_add(1, Ordering::SeqCst);
        }
    }
}

impl TestReward {
    fn handler(
        &self,
    ) -> impl Fn(VerifyItem, ItemContext) -> std::pin::Pin<Box<dyn Future<Output = Verdict> + Send>> + use<> {
        let seen = Arc::clone(&self.seen);
        let name = self.name.clone();
        move |item, context| {
            let seen = Arc::clone(&seen);
            let name = name.clone();
            Box::pin(async move {
                seen.begun.fetch_add(1, Ordering::SeqCst);
                seen.traces.lock().unwrap().insert(item.id.clone(), context.trace.trace_id());
                let mut count = StopCount(Arc::clone(&seen), false);
                let completion = match &item.answer {
                    Some(verify_item::Answer::Completion(text)) => text.as_str(),
                    _ => "",
                };
                match completion.split_once(' ').unwrap_or((completion, "")) {
                    ("sleep", ms) => tokio::time::sleep(Duration::from_millis(ms.parse().unwrap())).await,
                    ("echo", _) => {
                        count.1 = true;
                        let echo = Verdict::judged(item.id, Outcome::Correct, "scripted", 1.0);
                        return Verdict { extracted: Some(completion.into()), ..echo };
                    }
                    ("hang", _) => std::future::pending().await,
                    ("warn", _) => tracing::warn!("as scripted"),
                    ("panic", _) => panic!("as scripted"),
                    ("partial", _) => {
                        let reason = context.stopped().await;
                        count.1 = true;
                        return Verdict {
                            worker: name,
                            ..Verdict::judged(item.id, Outcome::Undecided, format!("{reason:?}"), 0.0)
                        };
                    }
                    _ => {}
                }
                count.1 = true;
                Verdict { worker: name, ..Verdict::judged(item.id, Outcome::Correct, "scripted", 1.0) }
            })
        }
    }
}

#[tonic::async_trait]
impl Reward for TestReward {
    type VerifyStream = ResponseStream<Verdict>;

    async fn verify(&self, request: Request<Streaming<VerifyRequest>>) -> Result<Response<Self::VerifyStream>, Status> {
        Ok(self.items.serve(request, self.handler()))
    }

    async fn verify_one(&self, request: Request<VerifyOneRequest>) -> Result<Response<VerifyOneResponse>, Status> {
        self.items.verify_one(request, self.handler()).await
    }

    async fn get_status(
        &self,
        _: Request<RewardGetStatusRequest>,
    ) -> Result<Response<RewardGetStatusResponse>, Status> {
        Ok(Response::new(RewardGetStatusResponse { queue: Some(self.items.status()), ..Default::default() }))
    }
}

/// How a worker is set up.
pub(crate) struct Setup {
    pub(crate) server: ServerSettings,
    pub(crate) limits: ItemLimits,
}

impl Default for Setup {
    fn default() -> Self {
        let server = ServerSettings { drain: Duration::from_secs(5), ..ServerSettings::default() };
        Self {
            server,
            limits: ItemLimits {
                max_items: 1024,
                max_memory: ItemLimits::DEFAULT_MEMORY,
                max_running: 64,
                grace: Duration::ZERO,
            },
        }
    }
}

/// A worker that serves.
pub(crate) struct Worker {
    pub(crate) server: RunningServer,
    pub(crate) reward: TestReward,
}

impl Setup {
    pub(crate) async fn bind(self, name: &str) -> (Server, TestReward) {
        let server = Server::bind(name, "reward.server", self.server).await.unwrap();
        let items = ItemServer::new(self.limits, server.drain());
        let reward = TestReward { name: name.into(), items, seen: Arc::default() };
        let limit = server.max_message();
        let service =
            RewardServer::new(reward.clone()).max_decoding_message_size(limit).max_encoding_message_size(limit);
        (server.with_service(service), reward)
    }

    pub(crate) async fn start(self, name: &str) -> Worker {
        let (server, reward) = self.bind(name).await;
        Worker { server: server.spawn(), reward }
    }
}

impl Worker {
    pub(crate) fn begun(&self) -> usize {
        self.reward.seen.begun.load(Ordering::SeqCst)
    }

    pub(crate) fn stopped(&self) -> usize {
        self.reward.seen.stopped.load(Ordering::SeqCst)
    }

    pub(crate) async fn client(&self) -> RewardClient<ClientChannel> {
        client(self.server.endpoint()).await
    }
}

/// A client of one server.
pub(crate) async fn client(endpoint: &str) -> RewardClient<ClientChannel> {
    RewardClient::new(channel(endpoint, ClientSettings::default()).await)
}

pub(crate) async fn channel(endpoint: &str, settings: ClientSettings) -> ClientChannel {
    Connector::new("client", settings).unwrap().connect(&ServerAddress::new(endpoint)).await.unwrap()
}

/// An item that tells the worker what to do.
pub(crate) fn item(id: impl Into<String>, completion: &str) -> VerifyItem {
    VerifyItem {
        id: id.into(),
        answer: Some(verify_item::Answer::Completion(completion.into())),
        task: Some(verify_item::Task::Math(MathTask { gold: "1".into(), ..MathTask::default() })),
        ..VerifyItem::default()
    }
}

/// Waits until something holds; the caller's bound ends it if it never does.
pub(crate) async fn until(mut holds: impl FnMut() -> bool) {
    while !holds() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
