//! Many workers as the caller sees them: no item is lost, none counted twice, nothing hangs.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{Setup, Worker, bounded, item, until};
use evenkeel_proto::v1::Verdict;
use evenkeel_proto::v1::reward_server::RewardServer;
use evenkeel_rpc::client::{ClientSettings, Connector};
use evenkeel_rpc::dispatch::{DispatchError, DispatchOptions, Dispatcher, Endpoints, Resolve};
use evenkeel_rpc::items::{ItemLimits, VerifyItems};
use evenkeel_rpc::server::{ServerSettings, ShutdownOutcome};
use tokio::net::UnixListener;
use tokio::task::JoinSet;
use tokio_stream::wrappers::UnixListenerStream;

type Verifier = Dispatcher<VerifyItems>;

/// Attempts at an item, where a test does not say another number.
const ATTEMPTS: u32 = 3;

fn options() -> DispatchOptions {
    DispatchOptions {
        max_outstanding: 16,
        resolve_interval: Duration::from_millis(20),
        backoff_initial: Duration::from_millis(10),
        backoff_max: Duration::from_millis(100),
        item_deadline: Duration::from_secs(20),
        ..DispatchOptions::default()
    }
}

fn connector() -> Connector {
    Connector::new("client", ClientSettings::default()).unwrap()
}

fn dispatcher(options: DispatchOptions, workers: &[&Worker]) -> Verifier {
    let urls: Vec<_> = workers.iter().map(|worker| worker.server.endpoint().to_owned()).collect();
    Dispatcher::start(&options, Endpoints::parse(&urls).unwrap(), connector())
}

async fn workers(names: &[&str]) -> Vec<Worker> {
    let mut all = Vec::new();
    for name in names {
        all.push(Setup::default().start(name).await);
    }
    all
}

/// Hands over `count` items at once.
fn submit_all(
    dispatcher: &Verifier,
    count: usize,
    completion: &'static str,
) -> JoinSet<Result<Verdict, DispatchError>> {
    let mut calls = JoinSet::new();
    for id in 0..count {
        let dispatcher = dispatcher.clone();
        calls.spawn(async move { dispatcher.call(item(id.to_string(), completion), ATTEMPTS).await.result });
    }
    calls
}

/// Every verdict must be there once and stand; says how many each worker gave.
async fn exactly_once(calls: JoinSet<Result<Verdict, DispatchError>>, count: usize) -> BTreeMap<String, usize> {
    let verdicts: Vec<Verdict> = calls.join_all().await.into_iter().map(Result::unwrap).collect();
    let ids: BTreeSet<&str> = verdicts.iter().map(|verdict| verdict.id.as_str()).collect();
    assert_eq!((verdicts.len(), ids.len()), (count, count));
    let mut by_worker = BTreeMap::new();
    for verdict in &verdicts {
        assert!(verdict.is_valid(), "{verdict:?}");
        *by_worker.entry(verdict.worker.clone()).or_default() += 1;
    }
    by_worker
}

#[tokio::test]
async fn all_workers_share_the_work() {
    bounded(async {
        let all = workers(&["a", "b", "c"]).await;
        let dispatcher = dispatcher(options(), &all.iter().collect::<Vec<_>>());
        assert!(dispatcher.ready(3, Duration::from_secs(60)).await);
        let by_worker = exactly_once(submit_all(&dispatcher, 300, "sleep 2"), 300).await;
        assert!(by_worker.len() == 3 && by_worker.values().all(|&count| count > 50), "{by_worker:?}");
        assert_eq!(dispatcher.pending(), 0);
    })
    .await;
}

#[tokio::test]
async fn a_slow_worker_gets_less() {
    bounded(async {
        let fast = Setup::default().start("fast").await;
        let limits = ItemLimits {
            max_items: 1024,
            max_memory: ItemLimits::DEFAULT_MEMORY,
            max_running: 1,
            grace: Duration::ZERO,
        };
        let slow = Setup { limits, ..Setup::default() }.start("slow").await;
        let dispatcher = dispatcher(options(), &[&fast, &slow]);
        assert!(dispatcher.ready(2, Duration::from_secs(60)).await);
        let by_worker = exactly_once(submit_all(&dispatcher, 400, "sleep 5"), 400).await;
        assert!(by_worker["fast"] > 3 * by_worker["slow"], "{by_worker:?}");
    })
    .await;
}

#[tokio::test]
async fn a_worker_killed_in_the_middle_loses_nothing() {
    bounded(async {
        let mut all = workers(&["a", "b", "c"]).await;
        let dispatcher = dispatcher(options(), &all.iter().collect::<Vec<_>>());
        assert!(dispatcher.ready(3, Duration::from_secs(60)).await);
        let calls = submit_all(&dispatcher, 600, "sleep 10");
        let victim = all.pop().unwrap();
        until(|| victim.begun() > 40).await;
        assert_eq!(victim.server.kill().await.unwrap(), ShutdownOutcome::Aborted);
        let by_worker = exactly_once(calls, 600).await;
        assert!(by_worker["c"] < 300, "{by_worker:?}");
        let begun: usize = all.iter().map(Worker::begun).sum::<usize>()
            + victim.reward.seen.begun.load(std::sync::atomic::Ordering::SeqCst);
        assert!(begun > 600, "what the killed worker had was begun again");
    })
    .await;
}

#[tokio::test]
async fn a_worker_that_comes_back_is_used_again() {
    bounded(async {
        let worker = Setup::default().start("first").await;
        let address = worker.server.address();
        let dispatcher = dispatcher(options(), &[&worker]);
        exactly_once(submit_all(&dispatcher, 10, ""), 10).await;
        let calls = submit_all(&dispatcher, 30, "sleep 50");
        until(|| worker.begun() > 10).await;
        worker.server.kill().await.unwrap();
        let server = ServerSettings { drain: Duration::from_secs(5), ..ServerSettings::on(address.to_string()) };
        let _second = Setup { server, ..Setup::default() }.start("second").await;
        let by_worker = exactly_once(calls, 30).await;
        assert_eq!(by_worker["second"], 30);
    })
    .await;
}

#[tokio::test]
async fn a_draining_worker_finishes_and_the_rest_goes_elsewhere() {
    bounded(async {
        let mut all = workers(&["stays", "goes"]).await;
        let dispatcher = dispatcher(options(), &all.iter().collect::<Vec<_>>());
        assert!(dispatcher.ready(2, Duration::from_secs(60)).await);
        let calls = submit_all(&dispatcher, 300, "sleep 10");
        let goes = all.pop().unwrap();
        until(|| goes.begun() > 20).await;
        assert_eq!(goes.server.stop().await.unwrap(), ShutdownOutcome::Drained);
        assert_eq!(
            goes.reward.seen.stopped.load(std::sync::atomic::Ordering::SeqCst),
            0,
            "nothing that it had was cut"
        );
        exactly_once(calls, 300).await;
    })
    .await;
}

#[tokio::test]
async fn an_item_is_given_up_after_its_attempts() {
    bounded(async {
        let worker = Setup::default().start("only").await;
        let dispatcher = dispatcher(options(), &[&worker]);
        let pending = dispatcher.submit(item("a", "hang"), 1).await.unwrap();
        until(|| worker.begun() == 1).await;
        worker.server.kill().await.unwrap();
        let error = pending.await.result.unwrap_err();
        assert!(matches!(&error, DispatchError::WorkerLost { id, attempts: 1, .. } if id == "a"), "{error}");
    })
    .await;
}

#[tokio::test]
async fn workers_that_appear_behind_a_name_are_noticed_and_those_that_go_finish() {
    #[derive(Default)]
    struct Scripted(Mutex<Vec<SocketAddr>>);

    impl Resolve for Scripted {
        fn resolve<'a>(
            &'a self,
            host: &'a str,
            _: u16,
        ) -> Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send + 'a>> {
            assert_eq!(host, "reward");
            Box::pin(std::future::ready(Ok(self.0.lock().unwrap().clone())))
        }
    }

    bounded(async {
        let all = workers(&["a", "b", "c"]).await;
        let addresses: Vec<_> = all.iter().map(|worker| worker.server.address()).collect();
        let resolver = Arc::new(Scripted(Mutex::new(addresses[..1].to_vec())));
        let endpoints = Endpoints::parse(&["dns://reward:50051"]).unwrap().with_resolver(resolver.clone());
        let dispatcher: Verifier = Dispatcher::start(&options(), endpoints, connector());
        assert!(dispatcher.ready(1, Duration::from_secs(60)).await);
        assert_eq!(exactly_once(submit_all(&dispatcher, 30, "sleep 1"), 30).await.len(), 1);

        *resolver.0.lock().unwrap() = addresses.clone();
        assert!(dispatcher.ready(3, Duration::from_secs(60)).await);
        assert_eq!(exactly_once(submit_all(&dispatcher, 300, "sleep 2"), 300).await.len(), 3);

        let calls = submit_all(&dispatcher, 48, "sleep 100");
        let before = all[0].begun();
        until(|| all[0].begun() > before).await;
        *resolver.0.lock().unwrap() = addresses[1..].to_vec();
        let by_worker = exactly_once(calls, 48).await;
        assert!(by_worker.contains_key("a"), "it finished what it had");
        while dispatcher.workers().await.len() != 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(all[0].stopped(), 0);
    })
    .await;
}

#[tokio::test]
async fn dropping_the_answer_to_come_frees_the_worker() {
    bounded(async {
        let worker = Setup::default().start("only").await;
        let dispatcher = dispatcher(DispatchOptions { max_outstanding: 1, ..options() }, &[&worker]);
        let pending = dispatcher.submit(item("a", "hang"), ATTEMPTS).await.unwrap();
        until(|| worker.begun() == 1).await;
        drop(pending);
        until(|| worker.stopped() == 1).await;
        assert!(
            dispatcher.call(item("a", ""), ATTEMPTS).await.result.unwrap().is_valid(),
            "the id and the worker are free"
        );
        assert_eq!(dispatcher.pending(), 0);
    })
    .await;
}

#[tokio::test]
async fn a_deadline_ends_the_item_here_and_there() {
    bounded(async {
        let worker = Setup::default().start("only").await;
        let dispatcher = dispatcher(options(), &[&worker]);
        assert!(dispatcher.ready(1, Duration::from_secs(60)).await);
        let mut late = item("a", "hang");
        late.deadline_ms = Some(300);
        let result = dispatcher.call(late, ATTEMPTS).await.result;
        // Either may notice first: the worker, which answers INVALID, or the dispatcher.
        match result {
            Ok(verdict) => assert!(!verdict.is_valid()),
            Err(error) => assert!(matches!(error, DispatchError::Deadline { .. }), "{error}"),
        }
        until(|| worker.stopped() == worker.begun()).await;
    })
    .await;
}

#[tokio::test]
async fn an_item_without_a_worker_ends_at_its_deadline() {
    bounded(async {
        let endpoints = Endpoints::parse(&["http://127.0.0.1:1"]).unwrap();
        let dispatcher: Verifier = Dispatcher::start(
            &DispatchOptions { item_deadline: Duration::from_millis(50), ..options() },
            endpoints,
            connector(),
        );
        let error = dispatcher.call(item("a", ""), ATTEMPTS).await.result.unwrap_err();
        assert!(matches!(error, DispatchError::Deadline { .. }), "{error}");
        assert!(!dispatcher.ready(1, Duration::from_millis(10)).await);
        let workers = dispatcher.workers().await;
        let error = workers[0].last_error.as_ref().unwrap().to_string();
        assert!(!workers[0].connected && error.contains("127.0.0.1:1"), "{workers:?}");
    })
    .await;
}

#[tokio::test]
async fn who_submits_more_than_fits_waits() {
    bounded(async {
        let worker = Setup::default().start("only").await;
        let dispatcher = dispatcher(DispatchOptions { max_pending: 2, ..options() }, &[&worker]);
        let first = dispatcher.submit(item("1", "hang"), ATTEMPTS).await.unwrap();
        let _second = dispatcher.submit(item("2", "hang"), ATTEMPTS).await.unwrap();
        assert_eq!(dispatcher.pending(), 2);
        let waiting = tokio::spawn({
            let dispatcher = dispatcher.clone();
            async move { dispatcher.call(item("4", ""), ATTEMPTS).await.result }
        });
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(!waiting.is_finished());
        drop(first);
        assert!(waiting.await.unwrap().unwrap().is_valid());
    })
    .await;
}

#[tokio::test]
async fn a_worker_that_takes_less_than_it_is_given_still_does_everything() {
    bounded(async {
        let limits =
            ItemLimits { max_items: 2, max_memory: ItemLimits::DEFAULT_MEMORY, max_running: 2, grace: Duration::ZERO };
        let worker = Setup { limits, ..Setup::default() }.start("small").await;
        let dispatcher = dispatcher(options(), &[&worker]);
        exactly_once(submit_all(&dispatcher, 60, "sleep 1"), 60).await;
    })
    .await;
}

#[tokio::test]
async fn an_id_in_work_is_refused_and_an_id_that_is_none_too() {
    bounded(async {
        let worker = Setup::default().start("only").await;
        let dispatcher = dispatcher(options(), &[&worker]);
        let _first = dispatcher.submit(item("a", "hang"), ATTEMPTS).await.unwrap();
        assert_eq!(
            dispatcher.call(item("a", ""), ATTEMPTS).await.result.unwrap_err(),
            DispatchError::InFlight { id: "a".into() }
        );
        assert_eq!(dispatcher.call(item("", ""), ATTEMPTS).await.result.unwrap_err(), DispatchError::NoId);
    })
    .await;
}

#[tokio::test]
async fn a_panic_in_one_worker_is_tried_elsewhere_and_then_said() {
    bounded(async {
        let all = workers(&["a", "b"]).await;
        let dispatcher = dispatcher(options(), &all.iter().collect::<Vec<_>>());
        assert!(dispatcher.ready(2, Duration::from_secs(60)).await);
        let answer = dispatcher.call(item("a", "panic"), 2).await;
        assert!(!answer.result.unwrap().is_valid());
        assert_eq!(answer.attempts, 2);
        assert_eq!(all.iter().map(Worker::begun).collect::<Vec<_>>(), [1, 1]);
    })
    .await;
}

#[tokio::test]
async fn a_program_that_this_process_has_started_is_reached_at_its_socket() {
    bounded(async {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("worker");
        let (_unused, reward) = Setup::default().bind("worker").await;
        let incoming = UnixListenerStream::new(UnixListener::bind(&socket).unwrap());
        let serving = tonic::transport::Server::builder().add_service(RewardServer::new(reward));
        let _serving = tokio::spawn(serving.serve_with_incoming(incoming));
        let address = format!("unix:{}", socket.display());
        let dispatcher = Dispatcher::start(&options(), Endpoints::with_sockets(&[address]).unwrap(), connector());
        let by_worker = exactly_once(submit_all(&dispatcher, 8, ""), 8).await;
        assert_eq!(by_worker["worker"], 8);
    })
    .await;
}
