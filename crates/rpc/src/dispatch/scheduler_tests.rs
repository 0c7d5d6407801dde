//! The rules of the scheduler, step by step.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_proto::v1::{InvalidReason, Outcome, Verdict, VerifyItem, VerifyRequest, verify_request};
use tokio::sync::{Semaphore, oneshot};

use super::super::Dispatched;
use super::*;
use crate::items::VerifyItems;

/// Attempts of the items of these tests.
const ATTEMPTS: u32 = 2;

/// The answer to an item, once there is one.
struct Reply(oneshot::Receiver<Dispatched<Verdict>>);

impl Reply {
    fn try_recv(&mut self) -> Result<Result<Verdict, DispatchError>, oneshot::error::TryRecvError> {
        self.0.try_recv().map(|dispatched| dispatched.result)
    }
}

struct Fixture {
    scheduler: Scheduler<VerifyItems>,
    permits: Arc<Semaphore>,
    now: Instant,
    tickets: u64,
}

impl Fixture {
    fn new(change: impl FnOnce(&mut DispatchOptions)) -> Self {
        let mut options = DispatchOptions {
            max_outstanding: 2,
            abandon_timeout: Duration::from_secs(1),
            ..DispatchOptions::default()
        };
        change(&mut options);
        Self {
            scheduler: Scheduler::new(options),
            permits: Arc::new(Semaphore::new(100)),
            now: Instant::now(),
            tickets: 0,
        }
    }

    fn worker(&mut self, key: u64) -> mpsc::Receiver<VerifyRequest> {
        self.scheduler.add_worker(key, format!("worker-{key}"));
        self.up(key)
    }

    fn up(&mut self, key: u64) -> mpsc::Receiver<VerifyRequest> {
        let (requests, receiver) = mpsc::channel(100);
        self.scheduler.connected_to(key, requests);
        receiver
    }

    fn submit(&mut self, id: &str) -> (u64, Reply) {
        self.submit_with(id, ATTEMPTS)
    }

    fn submit_with(&mut self, id: &str, max_attempts: u32) -> (u64, Reply) {
        let (reply, receiver) = oneshot::channel();
        let item = VerifyItem { id: id.into(), ..VerifyItem::default() };
        let permit = Arc::clone(&self.permits).try_acquire_owned().unwrap();
        let ticket = self.tickets;
        self.tickets += 1;
        let budget = Duration::from_secs(60);
        let queued = QueuedItem { ticket, item, submitted: self.now, budget, max_attempts, reply, permit };
        self.scheduler.submit(queued);
        self.scheduler.assign(self.now);
        (ticket, Reply(receiver))
    }

    fn answer(&mut self, worker: u64, verdict: Verdict) {
        self.scheduler.response(worker, verdict, self.now);
        self.scheduler.assign(self.now);
    }

    fn lose(&mut self, worker: u64) {
        let reset = DisconnectReason::Unreachable("reset".to_owned());
        self.scheduler.disconnected_from(worker, &reset, self.now);
        self.scheduler.assign(self.now);
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.scheduler.expire(self.now);
        self.scheduler.assign(self.now);
    }
}

fn correct(id: &str) -> Verdict {
    Verdict::judged(id, Outcome::Correct, "equal", 1.0)
}

fn sent(requests: &mut mpsc::Receiver<VerifyRequest>) -> Vec<String> {
    let mut all = Vec::new();
    while let Ok(request) = requests.try_recv() {
        all.push(match request.kind.unwrap() {
            verify_request::Kind::Item(item) => item.id,
            verify_request::Kind::Cancel(cancel) => format!("cancel {}", cancel.id),
        });
    }
    all
}

#[test]
fn items_go_to_the_least_loaded_and_equals_take_turns() {
    let mut fixture = Fixture::new(|options| options.max_outstanding = 10);
    let mut a = fixture.worker(0);
    let mut b = fixture.worker(1);
    let _replies: Vec<_> = ["1", "2", "3", "4"].map(|id| fixture.submit(id)).into();
    assert_eq!((sent(&mut a), sent(&mut b)), (vec!["1".into(), "3".into()], vec!["2".into(), "4".into()]));
    fixture.answer(1, correct("2"));
    fixture.answer(1, correct("4"));
    let _reply = fixture.submit("5");
    assert_eq!(sent(&mut b), ["5"]);
}

#[test]
fn a_worker_never_has_more_than_its_limit() {
    let mut fixture = Fixture::new(|_| {});
    let mut a = fixture.worker(0);
    let _replies: Vec<_> = ["1", "2", "3"].map(|id| fixture.submit(id)).into();
    assert_eq!(sent(&mut a), ["1", "2"]);
    fixture.answer(0, correct("1"));
    assert_eq!(sent(&mut a), ["3"]);
}

#[test]
fn a_deadline_that_begins_with_a_worker_counts_no_time_in_the_queue() {
    let mut fixture = Fixture::new(|options| {
        (options.deadline_start, options.max_outstanding) = (DeadlineStart::Assigned, 1);
    });
    let (_, mut first) = fixture.submit("1");
    let (_, mut second) = fixture.submit("2");
    fixture.pass(Duration::from_secs(600));
    assert!(first.try_recv().is_err(), "it cannot be late while it has no worker");
    let mut a = fixture.worker(0);
    fixture.pass(Duration::from_secs(59));
    assert_eq!(sent(&mut a), ["1"]);
    fixture.pass(Duration::from_secs(59));
    fixture.answer(0, correct("1"));
    assert!(first.try_recv().unwrap().is_ok());
    // The next attempt has the whole deadline.
    fixture.pass(Duration::from_secs(50));
    fixture.lose(0);
    fixture.pass(Duration::from_secs(600));
    let _a = fixture.up(0);
    fixture.scheduler.assign(fixture.now);
    fixture.pass(Duration::from_secs(59));
    assert!(second.try_recv().is_err());
    fixture.pass(Duration::from_secs(2));
    assert!(matches!(second.try_recv().unwrap(), Err(DispatchError::Deadline { .. })));
    assert_eq!(fixture.permits.available_permits(), 100);
}

#[test]
fn items_of_a_lost_worker_go_to_another_in_order() {
    let mut fixture = Fixture::new(|_| {});
    let mut a = fixture.worker(0);
    let (_, mut first) = fixture.submit("1");
    let (_, _second) = fixture.submit("2");
    sent(&mut a);
    let mut b = fixture.worker(1);
    fixture.lose(0);
    assert_eq!(sent(&mut b), ["1", "2"]);
    fixture.answer(1, correct("1"));
    assert!(first.try_recv().unwrap().unwrap().is_valid());
}

#[test]
fn an_item_fails_after_its_last_attempt() {
    let mut fixture = Fixture::new(|_| {});
    let _a = fixture.worker(0);
    let (_, mut reply) = fixture.submit("1");
    fixture.lose(0);
    let _a = fixture.up(0);
    fixture.scheduler.assign(fixture.now);
    fixture.lose(0);
    let error = reply.try_recv().unwrap().unwrap_err();
    assert_eq!(error.to_string(), "item `1` was lost with its worker 2 times, last: reset");
    assert_eq!(fixture.permits.available_permits(), 100);
}

#[test]
fn a_second_response_to_an_item_is_dropped() {
    let mut fixture = Fixture::new(|_| {});
    let _a = fixture.worker(0);
    let (_, mut reply) = fixture.submit("1");
    fixture.answer(0, correct("1"));
    fixture.answer(0, Verdict::judged("1", Outcome::Incorrect, "other", 0.0));
    assert_eq!(reply.try_recv().unwrap().unwrap().outcome(), Outcome::Correct);
    assert_eq!(fixture.scheduler.status()[0].answered, 1);
}

#[test]
fn a_response_to_no_item_is_dropped() {
    let mut fixture = Fixture::new(|_| {});
    let _a = fixture.worker(0);
    fixture.answer(0, correct("unknown"));
    assert!(fixture.scheduler.is_empty());
}

#[test]
fn two_items_of_one_id_are_never_in_flight_together() {
    let mut fixture = Fixture::new(|_| {});
    let _a = fixture.worker(0);
    let (_, _first) = fixture.submit("1");
    let (_, mut second) = fixture.submit("1");
    assert_eq!(second.try_recv().unwrap(), Err(DispatchError::InFlight { id: "1".into() }));
}

#[test]
fn an_item_that_its_caller_drops_is_cancelled_and_keeps_its_slot_until_the_worker_answers() {
    let mut fixture = Fixture::new(|options| options.max_outstanding = 1);
    let mut a = fixture.worker(0);
    let (ticket, _reply) = fixture.submit("1");
    fixture.scheduler.cancel(ticket, fixture.now);
    assert_eq!(fixture.permits.available_permits(), 100, "its permit is free at once");
    let (_, _reply) = fixture.submit("2");
    assert_eq!(sent(&mut a), ["1", "cancel 1"]);
    fixture.answer(0, Verdict::invalid("1", InvalidReason::Cancelled, ""));
    assert_eq!(sent(&mut a), ["2"]);
}

#[test]
fn an_id_waits_while_a_worker_has_it_cancelled_and_other_items_overtake_it() {
    let mut fixture = Fixture::new(|_| {});
    let mut a = fixture.worker(0);
    let (ticket, _gone) = fixture.submit("1");
    fixture.scheduler.cancel(ticket, fixture.now);
    let (_, mut again) = fixture.submit("1");
    let (_, _other) = fixture.submit("2");
    assert_eq!(sent(&mut a), ["1", "cancel 1", "2"]);
    fixture.answer(0, Verdict::invalid("1", InvalidReason::Cancelled, ""));
    assert!(again.try_recv().is_err(), "the response to the cancelled item is not for this one");
    assert_eq!(sent(&mut a), ["1"]);
}

#[test]
fn a_worker_that_leaves_cancelled_items_unanswered_is_stuck() {
    let mut fixture = Fixture::new(|_| {});
    let _a = fixture.worker(0);
    let (ticket, _reply) = fixture.submit("1");
    fixture.scheduler.cancel(ticket, fixture.now);
    assert_eq!(fixture.scheduler.next_wake(), Some(fixture.now + Duration::from_secs(1)));
    fixture.pass(Duration::from_millis(999));
    assert!(fixture.scheduler.stuck(fixture.now).is_empty());
    fixture.pass(Duration::from_millis(1));
    assert_eq!(fixture.scheduler.stuck(fixture.now), [0]);
}

#[test]
fn a_deadline_answers_and_cancels() {
    let mut fixture = Fixture::new(|_| {});
    let mut a = fixture.worker(0);
    let (_, mut reply) = fixture.submit("1");
    fixture.pass(Duration::from_secs(60));
    assert_eq!(reply.try_recv().unwrap(), Err(DispatchError::Deadline { id: "1".into(), waited_ms: 60_000 }));
    assert_eq!(sent(&mut a), ["1", "cancel 1"]);
}

#[test]
fn the_worker_gets_the_rest_of_the_deadline() {
    let mut fixture = Fixture::new(|_| {});
    let (_, _reply) = fixture.submit("1");
    fixture.pass(Duration::from_secs(20));
    let mut a = fixture.worker(0);
    fixture.scheduler.assign(fixture.now);
    let Some(verify_request::Kind::Item(item)) = a.try_recv().unwrap().kind else { panic!("an item") };
    assert_eq!(item.deadline_ms, Some(40_000));
}

#[test]
fn a_full_worker_gets_nothing_for_a_while_and_the_attempt_does_not_count() {
    let mut fixture = Fixture::new(|_| {});
    let mut a = fixture.worker(0);
    let (_, mut reply) = fixture.submit_with("1", 1);
    for _ in 0..5 {
        assert_eq!(sent(&mut a), ["1"]);
        fixture.answer(0, Verdict::invalid("1", InvalidReason::Overloaded, ""));
        assert_eq!(sent(&mut a), Vec::<String>::new(), "it backs off");
        let wake = fixture.scheduler.next_wake().unwrap();
        assert!(wake > fixture.now && wake <= fixture.now + Duration::from_secs(1));
        fixture.pass(wake - fixture.now);
    }
    assert!(reply.try_recv().is_err());
}

#[test]
fn refusals_lower_the_limit_of_a_worker() {
    let mut fixture = Fixture::new(|options| options.max_outstanding = 8);
    let mut a = fixture.worker(0);
    let ids: Vec<String> = (0..8).map(|id| id.to_string()).collect();
    let _replies: Vec<_> = ids.iter().map(|id| fixture.submit(id)).collect();
    for id in &ids[2..] {
        fixture.scheduler.response(0, Verdict::invalid(id, InvalidReason::Overloaded, ""), fixture.now);
    }
    fixture.scheduler.assign(fixture.now);
    assert_eq!(sent(&mut a).len(), 8, "the six refused ones wait");
    fixture.answer(0, correct("0"));
    assert_eq!(sent(&mut a).len(), 1, "one more for each response, without backoff");
}

#[test]
fn a_draining_worker_gets_nothing_until_its_next_stream() {
    let mut fixture = Fixture::new(|_| {});
    let mut a = fixture.worker(0);
    let (_, _reply) = fixture.submit("1");
    fixture.answer(0, Verdict::invalid("1", InvalidReason::Draining, ""));
    assert_eq!(sent(&mut a), ["1"]);
    fixture.lose(0);
    let mut a = fixture.up(0);
    fixture.scheduler.assign(fixture.now);
    assert_eq!(sent(&mut a), ["1"]);
}

#[test]
fn a_worker_that_failed_at_an_item_is_the_last_to_get_it_again() {
    let mut fixture = Fixture::new(|options| options.max_outstanding = 10);
    let mut a = fixture.worker(0);
    let mut b = fixture.worker(1);
    let (_, _one) = fixture.submit("1");
    let _others: Vec<_> = ["2", "3", "4"].map(|id| fixture.submit(id)).into();
    fixture.answer(0, correct("3"));
    sent(&mut a);
    sent(&mut b);
    fixture.answer(0, Verdict::invalid("1", InvalidReason::Internal, "broke"));
    assert_eq!(sent(&mut b), ["1"], "although the other has less work");
}

#[test]
fn a_failure_of_the_last_attempt_is_the_response() {
    let mut fixture = Fixture::new(|_| {});
    let _a = fixture.worker(0);
    let (_, mut reply) = fixture.submit("1");
    fixture.answer(0, Verdict::invalid("1", InvalidReason::Internal, "broke"));
    fixture.answer(0, Verdict::invalid("1", InvalidReason::Internal, "broke again"));
    assert_eq!(reply.try_recv().unwrap().unwrap().detail, "broke again");
}

#[test]
fn an_answer_says_how_many_attempts_it_took() {
    let mut fixture = Fixture::new(|_| {});
    let _a = fixture.worker(0);
    let (_, mut first) = fixture.submit_with("1", 5);
    fixture.answer(0, Verdict::invalid("1", InvalidReason::Internal, "broke"));
    fixture.answer(0, Verdict::invalid("1", InvalidReason::Overloaded, ""));
    fixture.pass(Duration::from_secs(1));
    fixture.lose(0);
    let _a = fixture.up(0);
    fixture.scheduler.assign(fixture.now);
    fixture.answer(0, correct("1"));
    assert_eq!(first.0.try_recv().unwrap(), Dispatched { result: Ok(correct("1")), attempts: 3 });
    let (_, mut late) = fixture.submit_with("2", 5);
    fixture.pass(Duration::from_secs(60));
    assert_eq!(late.0.try_recv().unwrap().attempts, 1);
    fixture.answer(0, Verdict::invalid("2", InvalidReason::Cancelled, ""));
    let (_, mut lost) = fixture.submit_with("3", 1);
    fixture.lose(0);
    assert_eq!(lost.0.try_recv().unwrap().attempts, 1);
    let (_, mut queued) = fixture.submit_with("4", 1);
    fixture.pass(Duration::from_secs(60));
    assert_eq!(queued.0.try_recv().unwrap().attempts, 0, "no worker was given it");
}

#[test]
fn a_leaving_worker_finishes_and_is_forgotten() {
    let mut fixture = Fixture::new(|_| {});
    let mut a = fixture.worker(0);
    let (_, mut reply) = fixture.submit("1");
    fixture.scheduler.set_leaving(0, true);
    let (_, _waiting) = fixture.submit("2");
    assert_eq!(sent(&mut a), ["1"]);
    assert!(fixture.scheduler.take_departed().is_empty());
    fixture.answer(0, correct("1"));
    assert!(reply.try_recv().unwrap().is_ok());
    assert_eq!(fixture.scheduler.take_departed(), [0]);
}

#[test]
fn a_worker_that_answers_under_other_ids_is_believed_for_none_of_its_items() {
    let mut fixture = Fixture::new(|_| {});
    let _a = fixture.worker(0);
    let mut replies = ["1", "2"].map(|id| fixture.submit(id).1);
    fixture.answer(0, correct("x"));
    assert!(replies.iter_mut().all(|reply| reply.try_recv().is_err()), "one of the two may still be answered");
    fixture.answer(0, correct("y"));
    for (reply, id) in replies.iter_mut().zip(["1", "2"]) {
        let error = DispatchError::UnexpectedId { id: id.to_owned(), answered: "y".to_owned() };
        assert_eq!(reply.try_recv().unwrap(), Err(error));
    }
    // The worker may have other items at once.
    let mut reply = fixture.submit("3").1;
    fixture.answer(0, correct("3"));
    assert_eq!(reply.try_recv().unwrap(), Ok(correct("3")));
}

#[test]
fn an_item_that_is_answered_twice_costs_no_other() {
    let mut fixture = Fixture::new(|_| {});
    let _a = fixture.worker(0);
    let mut first = fixture.submit("1").1;
    let mut second = fixture.submit("2").1;
    for _ in 0..3 {
        fixture.answer(0, correct("1"));
    }
    assert_eq!(first.try_recv().unwrap(), Ok(correct("1")));
    assert!(second.try_recv().is_err());
    fixture.answer(0, correct("2"));
    assert_eq!(second.try_recv().unwrap(), Ok(correct("2")));
}

#[test]
fn an_item_whose_deadline_ends_after_an_answer_under_another_id_is_not_late() {
    let mut fixture = Fixture::new(|_| {});
    let _a = fixture.worker(0);
    let mut replies = ["1", "2"].map(|id| fixture.submit(id).1);
    fixture.answer(0, correct("x"));
    fixture.answer(0, correct("2"));
    fixture.pass(Duration::from_secs(61));
    let error = DispatchError::UnexpectedId { id: "1".to_owned(), answered: "x".to_owned() };
    assert_eq!(replies[0].try_recv().unwrap(), Err(error));
    assert_eq!(replies[1].try_recv().unwrap(), Ok(correct("2")));
}
