//! Item streams from the perspective of a client: each item is answered exactly once, and none delays the others.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::support::{Occupied, Stream, Worker, bounded, item, long_item};
use evenkeel_proto::v1::{CancelItem, InvalidReason, Outcome, VerifyItem};
use evenkeel_reward::{RewardError, RewardSettings, bind};
use evenkeel_rpc::server::{ServerSettings, ShutdownOutcome};

#[test]
fn thousands_of_items_are_answered_exactly_once_in_any_order() {
    bounded(async {
        const ITEMS: usize = 3000;
        let worker = Worker::start().await;
        let stream = Stream::open(&worker).await;
        let begun = Instant::now();
        for id in 0..ITEMS {
            let completion = format!("After some thought the answer is $\\boxed{{{}}}$.", id % 2);
            stream.send(item(id.to_string(), "1", &completion)).await;
        }
        let mut verdicts = stream.half_close();
        let mut outcomes = BTreeMap::new();
        while let Some(verdict) = verdicts.message().await.unwrap() {
            assert!(outcomes.insert(verdict.id.clone(), verdict.outcome()).is_none(), "{} twice", verdict.id);
        }
        println!("{:.0} items a second over gRPC", ITEMS as f64 / begun.elapsed().as_secs_f64());
        assert_eq!(outcomes.len(), ITEMS);
        for (id, outcome) in outcomes {
            let right = id.parse::<usize>().unwrap() % 2 == 1;
            assert_eq!(outcome, if right { Outcome::Correct } else { Outcome::Incorrect });
        }
    });
}

#[test]
fn a_verdict_does_not_wait_for_the_end_of_the_stream() {
    bounded(async {
        let worker = Worker::start().await;
        let mut stream = Stream::open(&worker).await;
        for id in ["a", "b"] {
            stream.send(item(id, "1", "\\boxed{1}")).await;
            assert_eq!(stream.verdict().await.id, id);
        }
        // An id may be used again once its item was answered.
        stream.send(item("a", "1", "\\boxed{2}")).await;
        assert_eq!(stream.verdict().await.outcome(), Outcome::Incorrect);
    });
}

#[test]
fn an_item_has_its_own_deadline() {
    bounded(async {
        let worker = Worker::start().await;
        let mut stream = Stream::open(&worker).await;
        let occupied = Occupied::thread().await;
        for deadline_ms in [0, 30] {
            stream.send(VerifyItem { deadline_ms: Some(deadline_ms), ..long_item("late", "1", "\\boxed{1}") }).await;
            let verdict = stream.verdict().await;
            assert_eq!((verdict.outcome(), verdict.invalid_reason()), (Outcome::Invalid, InvalidReason::Deadline));
            assert_eq!(verdict.reward, None);
        }
        drop(occupied);
        stream.send(long_item("next", "1", "\\boxed{1}")).await;
        assert_eq!(stream.verdict().await.outcome(), Outcome::Correct);
    });
}

#[test]
fn an_item_can_be_cancelled() {
    bounded(async {
        let worker = Worker::start().await;
        let mut stream = Stream::open(&worker).await;
        let _occupied = Occupied::thread().await;
        stream.send(long_item("a", "1", "\\boxed{1}")).await;
        worker.running(1).await;
        stream.send(CancelItem::new("unknown")).await;
        stream.send(CancelItem::new("a")).await;
        let verdict = stream.verdict().await;
        assert_eq!((verdict.id.as_str(), verdict.invalid_reason()), ("a", InvalidReason::Cancelled));
        worker.running(0).await;
    });
}

#[test]
fn items_beyond_the_capacity_are_refused_and_may_be_sent_again() {
    bounded(async {
        let worker = Worker::with(RewardSettings { max_items: 2, threads: 1, ..RewardSettings::default() }).await;
        let mut stream = Stream::open(&worker).await;
        let occupied = Occupied::thread().await;
        for id in ["running", "waiting", "refused"] {
            stream.send(long_item(id, "1", "\\boxed{1}")).await;
        }
        let refused = stream.verdict().await;
        assert_eq!((refused.id.as_str(), refused.invalid_reason()), ("refused", InvalidReason::Overloaded));
        assert_eq!(refused.detail, "queue `verify` is full, its capacity is 2 items");
        worker.running(1).await;
        let queue = worker.status().await.queue.unwrap();
        assert_eq!((queue.queued_items, queue.running_items, queue.capacity_items), (1, 1, 2));
        assert_eq!(worker.one(long_item("one", "1", "\\boxed{1}")).await.invalid_reason(), InvalidReason::Overloaded);
        drop(occupied);
        for _ in 0..2 {
            assert_eq!(stream.verdict().await.outcome(), Outcome::Correct);
        }
        stream.send(long_item("refused", "1", "\\boxed{1}")).await;
        assert_eq!(stream.verdict().await.outcome(), Outcome::Correct);
    });
}

#[test]
fn a_client_that_disconnects_frees_its_capacity() {
    bounded(async {
        let worker = Worker::with(RewardSettings { max_items: 8, threads: 4, ..RewardSettings::default() }).await;
        let occupied = Occupied::thread().await;
        let stream = Stream::open(&worker).await;
        for id in 0..8 {
            stream.send(long_item(id.to_string(), "1", "\\boxed{1}")).await;
        }
        worker.running(4).await;
        drop(stream);
        worker.running(0).await;
        drop(occupied);
        assert_eq!(worker.one(long_item("a", "1", "\\boxed{1}")).await.outcome(), Outcome::Correct);
    });
}

#[test]
fn a_completion_of_megabytes_delays_no_other_call() {
    bounded(async {
        let worker = Worker::start().await;
        let mut stream = Stream::open(&worker).await;
        let prose = "Let us see {what} \\frac{1}{2} gives. ".repeat((12 << 20) / 37);
        stream.send(item("long", "1", &format!("{prose}\\boxed{{1}}"))).await;
        // The status is answered whether the item is being sent, in progress or completed.
        worker.status().await;
        assert_eq!(stream.verdict().await.outcome(), Outcome::Correct);
    });
}

#[test]
fn a_drain_completes_items_in_progress_and_nothing_else() {
    bounded(async {
        let server = ServerSettings { drain: Duration::from_secs(20), ..ServerSettings::default() };
        let worker = Worker::with(RewardSettings { server, ..RewardSettings::default() }).await;
        let mut stream = Stream::open(&worker).await;
        let occupied = Occupied::thread().await;
        stream.send(long_item("begun", "1", "\\boxed{1}")).await;
        worker.running(1).await;
        let stopping = tokio::spawn(worker.server.stop());
        tokio::time::sleep(Duration::from_millis(50)).await;
        drop(occupied);
        let verdict = stream.verdict().await;
        assert_eq!((verdict.id.as_str(), verdict.outcome()), ("begun", Outcome::Correct));
        assert!(stream.try_verdict().await.is_err(), "items that crossed with the drain are the client's again");
        drop(stream);
        assert_eq!(stopping.await.unwrap().unwrap(), ShutdownOutcome::Drained);
    });
}

#[test]
fn invalid_settings_and_ports_in_use_are_refused_before_anything_starts() {
    bounded(async {
        let error = bind(RewardSettings { max_items: 0, ..RewardSettings::default() }).await.unwrap_err();
        assert_eq!(error.to_string(), "reward.max_items is 0, allowed: at least 1");
        let worker = Worker::start().await;
        let taken = worker.server.address().to_string();
        let error = bind(RewardSettings::on(&taken)).await.unwrap_err();
        assert!(matches!(error, RewardError::Server(_)));
        assert!(
            error.to_string().starts_with(&format!("cannot listen on {taken} (setting `reward.server.listen`)")),
            "{error}"
        );
    });
}
