//! A gateway: one address, the verdicts of many workers.

use std::collections::BTreeSet;

use crate::support::{Occupied, Stream, Worker, bounded, item, long_item};
use evenkeel_proto::v1::{CancelItem, InvalidReason, Outcome};
use evenkeel_reward::RewardSettings;
use evenkeel_reward::gateway::{GatewaySettings, bind};

async fn worker(name: &str) -> Worker {
    Worker::with(RewardSettings { name: name.to_owned(), ..RewardSettings::default() }).await
}

/// A gateway in front of workers; it is called like one.
async fn gateway(workers: &[&Worker]) -> Worker {
    let endpoints = workers.iter().map(|worker| worker.server.endpoint().to_owned()).collect();
    Worker { server: bind(GatewaySettings { endpoints, ..GatewaySettings::default() }).await.unwrap().spawn() }
}

/// Waits until the gateway has found all of its workers.
async fn found(gateway: &Worker, workers: usize) {
    let mut names = BTreeSet::new();
    while names.len() < workers {
        names.insert(gateway.one(item("x", "1", "\\boxed{1}")).await.worker);
    }
}

#[test]
fn single_calls_and_streams_are_spread_over_all_workers() {
    bounded(async {
        let a = worker("a").await;
        let b = worker("b").await;
        let gateway = gateway(&[&a, &b]).await;
        let mut names = BTreeSet::new();
        let mut calls = 0;
        while calls < 20 || names.len() < 2 {
            calls += 1;
            let verdict = gateway.one(item("x", "1", "\\boxed{1}")).await;
            assert_eq!((verdict.id.as_str(), verdict.outcome()), ("x", Outcome::Correct));
            names.insert(verdict.worker);
        }
        assert_eq!(names, ["a", "b"].map(str::to_owned).into());

        let stream = Stream::open(&gateway).await;
        for id in 0..200 {
            stream.send(item(id.to_string(), "1", "\\boxed{2}")).await;
        }
        let mut verdicts = stream.half_close();
        let mut ids = BTreeSet::new();
        let mut names = BTreeSet::new();
        while let Some(verdict) = verdicts.message().await.unwrap() {
            assert_eq!(verdict.outcome(), Outcome::Incorrect);
            assert!(ids.insert(verdict.id), "an item is answered once");
            names.insert(verdict.worker);
        }
        assert_eq!((ids.len(), names.len()), (200, 2));

        let status = gateway.status().await;
        assert_eq!((status.verdicts["correct"], status.verdicts["incorrect"]), (calls, 200));
        assert_eq!(status.server.unwrap().name, "gateway");
        assert!(status.math && status.code);
    });
}

#[test]
fn two_clients_may_use_the_same_id_and_each_gets_its_own_verdict() {
    bounded(async {
        let only = worker("only").await;
        let gateway = gateway(&[&only]).await;
        let mut right = Stream::open(&gateway).await;
        let mut wrong = Stream::open(&gateway).await;
        let occupied = Occupied::thread().await;
        right.send(long_item("same", "1", "\\boxed{1}")).await;
        wrong.send(long_item("same", "1", "\\boxed{2}")).await;
        only.running(2).await;
        drop(occupied);
        let right = right.verdict().await;
        let wrong = wrong.verdict().await;
        assert_eq!((right.id.as_str(), right.outcome()), ("same", Outcome::Correct));
        assert_eq!((wrong.id.as_str(), wrong.outcome()), ("same", Outcome::Incorrect));
    });
}

#[test]
fn an_item_that_is_cancelled_is_cancelled_at_its_worker() {
    bounded(async {
        let only = worker("only").await;
        let gateway = gateway(&[&only]).await;
        let mut stream = Stream::open(&gateway).await;
        let _occupied = Occupied::thread().await;
        stream.send(long_item("a", "1", "\\boxed{1}")).await;
        only.running(1).await;
        stream.send(CancelItem::new("a")).await;
        assert_eq!(stream.verdict().await.invalid_reason(), InvalidReason::Cancelled);
        only.running(0).await;
    });
}

#[test]
fn an_item_whose_worker_is_lost_gets_its_verdict_from_another() {
    bounded(async {
        let lost = worker("lost").await;
        let other = worker("other").await;
        let gateway = gateway(&[&lost, &other]).await;
        found(&gateway, 2).await;
        let mut stream = Stream::open(&gateway).await;
        let occupied = Occupied::thread().await;
        for id in ["a", "b"] {
            stream.send(long_item(id, "1", "\\boxed{1}")).await;
        }
        lost.running(1).await;
        other.running(1).await;
        lost.server.kill().await.unwrap();
        drop(occupied);
        for _ in 0..2 {
            let verdict = stream.verdict().await;
            assert_eq!((verdict.outcome(), verdict.worker.as_str()), (Outcome::Correct, "other"));
        }
    });
}

#[test]
fn a_gateway_without_a_worker_says_so() {
    bounded(async {
        let gone = worker("gone").await;
        let gateway = gateway(&[&gone]).await;
        gone.server.kill().await.unwrap();
        let status = gateway.client().await.get_status(evenkeel_proto::v1::RewardGetStatusRequest {}).await;
        let error = status.unwrap_err();
        assert_eq!((error.code(), error.message()), (tonic::Code::Unavailable, "no reward worker answers"));
        let late = evenkeel_proto::v1::VerifyItem { deadline_ms: Some(50), ..item("a", "1", "\\boxed{1}") };
        assert_eq!(gateway.one(late).await.invalid_reason(), InvalidReason::Deadline);
    });
}
