//! How often an answer is sent to a worker: never more often than it has attempts, whatever goes wrong. And what an
//! outage looks like.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use evenkeel_proto::v1::reward_server::{Reward, RewardServer};
use evenkeel_proto::v1::{
    Outcome, RewardGetStatusRequest, RewardGetStatusResponse, VerifyOneRequest, VerifyOneResponse,
    VerifyRequest as Message, verify_request,
};
use evenkeel_rpc::server::{RunningServer, Server, ServerSettings};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use super::*;
use crate::clients::{Endpoints, Services, Stop};
use crate::dependency::Dependency;
use crate::error::{Halt, RunError};
use crate::events::Events;
use crate::settings::ServicesSettings;

const ATTEMPTS: u32 = 3;
const PAUSES: RetryPolicy = RetryPolicy::new(Duration::from_millis(1), Duration::from_millis(1));

/// What a worker does with an item instead of judging it.
#[derive(Debug, Clone, Copy, PartialEq)]
enum WorkerFault {
    Internal,
    /// The worker ends the stream.
    Lost,
    /// The worker answers that the time is over.
    Late,
    /// The worker does not answer.
    Silent,
    /// The verdict violates the protocol.
    Violation,
    UnknownTests,
}

/// A worker that counts what it is sent.
#[derive(Clone, Default)]
struct Worker {
    faults: Arc<Mutex<VecDeque<WorkerFault>>>,
    sends: Arc<AtomicU32>,
}

impl Worker {
    /// The answer to a request. `Err`: the stream ends.
    fn answer(&self, message: Message) -> Result<Option<Verdict>, ()> {
        let item = match message.kind {
            Some(verify_request::Kind::Item(item)) => item,
            Some(verify_request::Kind::Cancel(cancel)) => {
                return Ok(Some(Verdict::invalid(cancel.id, InvalidReason::Cancelled, "")));
            }
            None => return Err(()),
        };
        self.sends.fetch_add(1, Ordering::SeqCst);
        let good = Verdict::judged(&item.id, Outcome::Correct, "equal", 1.0);
        let invalid = |reason| Ok(Some(Verdict::invalid(&item.id, reason, "as scripted")));
        match self.faults.lock().unwrap().pop_front() {
            None => Ok(Some(good)),
            Some(WorkerFault::Internal) => invalid(InvalidReason::Internal),
            Some(WorkerFault::Late) => invalid(InvalidReason::Deadline),
            Some(WorkerFault::UnknownTests) => invalid(InvalidReason::UnknownTests),
            Some(WorkerFault::Violation) => Ok(Some(Verdict { reward: Some(f64::NAN), ..good })),
            Some(WorkerFault::Silent) => Ok(None),
            Some(WorkerFault::Lost) => Err(()),
        }
    }
}

#[tonic::async_trait]
impl Reward for Worker {
    type VerifyStream = ReceiverStream<Result<Verdict, Status>>;

    async fn verify(&self, request: Request<Streaming<Message>>) -> Result<Response<Self::VerifyStream>, Status> {
        let mut requests = request.into_inner();
        let worker = self.clone();
        let (sender, receiver) = mpsc::channel(8);
        tokio::spawn(async move {
            while let Ok(Some(message)) = requests.message().await {
                let Ok(answer) = worker.answer(message) else { return };
                if let Some(verdict) = answer
                    && sender.send(Ok(verdict)).await.is_err()
                {
                    return;
                }
            }
        });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    async fn verify_one(&self, _: Request<VerifyOneRequest>) -> Result<Response<VerifyOneResponse>, Status> {
        Err(Status::unimplemented("not needed"))
    }

    async fn get_status(
        &self,
        _: Request<RewardGetStatusRequest>,
    ) -> Result<Response<RewardGetStatusResponse>, Status> {
        Err(Status::unimplemented("not needed"))
    }
}

/// A run's only worker.
struct Fixture {
    worker: Worker,
    server: RunningServer,
    services: Arc<Services>,
    items: AtomicU32,
}

impl Fixture {
    async fn start(verify_deadline: Duration) -> Self {
        let worker = Worker::default();
        let settings = ServerSettings { drain: Duration::from_millis(100), ..ServerSettings::on("127.0.0.1:0") };
        let server = Server::bind("fake", "server", settings).await.unwrap();
        let server = server.with_service(RewardServer::new(worker.clone())).spawn();
        let unused = "http://127.0.0.1:1".to_owned();
        let endpoints = Endpoints {
            environment: Vec::new(),
            described: Default::default(),
            generation: unused.clone(),
            reward: vec![server.endpoint().to_owned()],
            learner: unused,
            verifiers: Default::default(),
        };
        let settings = ServicesSettings {
            verify_deadline,
            backoff_initial: Duration::from_millis(1),
            backoff_max: Duration::from_millis(5),
            outage_timeout: Duration::from_millis(200),
            ..ServicesSettings::default()
        };
        let services = Services::without_learner(&endpoints, &settings, Events::new(1), Stop::new()).unwrap();
        Self { worker, server, services: Arc::new(services), items: AtomicU32::new(0) }
    }

    /// A sample's verification by a worker that has these faults first, and how often it was sent.
    async fn verify(&self, faults: &[WorkerFault]) -> (VerificationOutcome, u32) {
        *self.worker.faults.lock().unwrap() = faults.iter().copied().collect();
        self.worker.sends.store(0, Ordering::SeqCst);
        let verdict = self.services.reward().await_verdict();
        let outcome = verify(&verdict, self.request(), ATTEMPTS, PAUSES).await;
        (outcome, self.worker.sends.load(Ordering::SeqCst))
    }

    fn request(&self) -> VerifyRequest {
        let task = Task::math(["1".to_owned()]).unwrap();
        let id = self.items.fetch_add(1, Ordering::Relaxed).to_string();
        let item = VerifyItem { id, task: Some(task.message()), ..VerifyItem::default() };
        VerifyRequest { item, with_tests: Some(task) }
    }
}

fn retries(outcome: &VerificationOutcome) -> u32 {
    match outcome {
        VerificationOutcome::Verdict { retries, .. } | VerificationOutcome::Invalid { retries, .. } => *retries,
    }
}

#[tokio::test]
async fn failures_of_all_kinds_share_the_attempts_of_a_sample() {
    let fixture = Fixture::start(Duration::from_secs(60)).await;
    let all = [WorkerFault::Internal, WorkerFault::Lost, WorkerFault::Late, WorkerFault::Violation];
    for (first, second, third) in all.iter().flat_map(|a| all.iter().flat_map(move |b| all.map(|c| (*a, *b, c)))) {
        let (outcome, sends) = fixture.verify(&[first, second, third]).await;
        assert!(matches!(outcome, VerificationOutcome::Invalid { .. }), "{first:?} {second:?} {third:?}: {outcome:?}");
        assert_eq!((sends, retries(&outcome)), (3, 2), "{first:?} {second:?} {third:?}");
        let (outcome, sends) = fixture.verify(&[first, second]).await;
        assert!(matches!(outcome, VerificationOutcome::Verdict { .. }), "{first:?} {second:?}: {outcome:?}");
        assert_eq!((sends, retries(&outcome)), (3, 2), "{first:?} {second:?}");
    }
    let (outcome, sends) = fixture.verify(&[]).await;
    assert_eq!((sends, retries(&outcome)), (1, 0));
}

#[tokio::test]
async fn an_item_that_is_not_answered_in_time_has_used_an_attempt() {
    let fixture = Fixture::start(Duration::from_millis(200)).await;
    for faults in [[WorkerFault::Silent; 3], [WorkerFault::Lost, WorkerFault::Silent, WorkerFault::Internal]] {
        let (outcome, sends) = fixture.verify(&faults).await;
        assert!(matches!(outcome, VerificationOutcome::Invalid { late: true, .. }), "{faults:?}: {outcome:?}");
        assert_eq!((sends, retries(&outcome)), (3, 2), "{faults:?}");
    }
}

#[tokio::test]
async fn tests_are_sent_once_free_of_charge() {
    let fixture = Fixture::start(Duration::from_secs(60)).await;
    for faults in [
        [WorkerFault::UnknownTests, WorkerFault::Internal, WorkerFault::Late, WorkerFault::Violation],
        [WorkerFault::Internal, WorkerFault::UnknownTests, WorkerFault::Lost, WorkerFault::Internal],
        [WorkerFault::Lost, WorkerFault::Internal, WorkerFault::UnknownTests, WorkerFault::Late],
        [WorkerFault::UnknownTests, WorkerFault::UnknownTests, WorkerFault::Late, WorkerFault::UnknownTests],
    ] {
        let (outcome, sends) = fixture.verify(&faults).await;
        assert!(matches!(outcome, VerificationOutcome::Invalid { .. }), "{faults:?}: {outcome:?}");
        assert_eq!((sends, retries(&outcome)), (ATTEMPTS + 1, 2), "{faults:?}");
    }
}

#[tokio::test]
async fn a_worker_that_is_away_is_an_outage_as_long_as_a_verdict_is_awaited() {
    let fixture = Fixture::start(Duration::from_secs(60)).await;
    let services = Arc::clone(&fixture.services);
    let request = fixture.request();
    *fixture.worker.faults.lock().unwrap() = [WorkerFault::Silent].into();
    let verifying = tokio::spawn(async move {
        let verdict = services.reward().await_verdict();
        verify(&verdict, request, ATTEMPTS, PAUSES).await
    });
    while fixture.worker.sends.load(Ordering::SeqCst) == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let client = fixture.services.reward();
    assert!(client.awaited() == 1 && client.is_connected());
    // It has the item when it is lost, and does not come back.
    fixture.server.kill().await.unwrap();
    while client.is_connected() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let mut outage = client.outage();
    let error = loop {
        assert_eq!(client.awaited(), 1, "it waits for another worker");
        if let Err(halt) = outage.observe(client.awaited() == 0 || client.is_connected(), fixture.services.stop()) {
            break halt;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    };
    assert!(matches!(error, Halt::Error(RunError::ServiceLost { service: Dependency::Reward, .. })), "{error:?}");
    verifying.abort();
    assert!(verifying.await.unwrap_err().is_cancelled());
    assert_eq!(client.awaited(), 0);
}
