//! The rules of the board, step by step, without a network or a clock.

use std::sync::Arc;

use evenkeel_proto::v1::{InvalidReason, Outcome, Verdict, VerifyItem, VerifyRequest, verify_request};
use tokio::sync::Semaphore;

use super::*;
use crate::items::VerifyItems;

type Reply = oneshot::Receiver<Result<Verdict, DispatchError>>;

struct Fixture {
    board: Board<VerifyItems>,
    places: Arc<Semaphore>,
    now: Instant,
    tickets: u64,
}

impl Fixture {
    fn new(change: impl FnOnce(&mut DispatchOptions)) -> Self {
        let mut options = DispatchOptions {
            max_outstanding: 2,
            max_attempts: 2,
            abandon_timeout: Duration::from_secs(1),
            ..DispatchOptions::default()
        };
        change(&mut options);
        Self { board: Board::new(options), places: Arc::new(Semaphore::new(100)), now: Instant::now(), tickets: 0 }
    }

    fn worker(&mut self, key: u64) -> mpsc::Receiver<VerifyRequest> {
        self.board.add_worker(key, format!("worker-{key}"));
        self.up(key)
    }

    fn up(&mut self, key: u64) -> mpsc::Receiver<VerifyRequest> {
        let (link, requests) = mpsc::channel(100);
        self.board.link_up(key, link);
        requests
    }

    fn submit(&mut self, id: &str) -> (u64, Reply) {
        let (reply, receiver) = oneshot::channel();
        let item = VerifyItem { id: id.into(), ..VerifyItem::default() };
        let place = Arc::clone(&self.places).try_acquire_owned().unwrap();
        let ticket = self.tickets;
        self.tickets += 1;
        let budget = Duration::from_secs(60);
        self.board.submit(Submission { ticket, item, submitted: self.now, budget, reply, place });
        self.board.assign(self.now);
        (ticket, receiver)
    }

    fn answer(&mut self, worker: u64, verdict: Verdict) {
        self.board.answer(worker, verdict, self.now);
        self.board.assign(self.now);
    }

    fn lose(&mut self, worker: u64) {
        self.board.link_down(worker, "reset", self.now);
        self.board.assign(self.now);
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.board.expire(self.now);
        self.board.assign(self.now);
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
    let mut at = Fixture::new(|options| options.max_outstanding = 10);
    let (mut a, mut b) = (at.worker(0), at.worker(1));
    let _replies: Vec<_> = ["1", "2", "3", "4"].map(|id| at.submit(id)).into();
    assert_eq!((sent(&mut a), sent(&mut b)), (vec!["1".into(), "3".into()], vec!["2".into(), "4".into()]));
    at.answer(1, correct("2"));
    at.answer(1, correct("4"));
    let _reply = at.submit("5");
    assert_eq!(sent(&mut b), ["5"]);
}

#[test]
fn a_worker_never_has_more_than_its_limit() {
    let mut at = Fixture::new(|_| {});
    let mut a = at.worker(0);
    let _replies: Vec<_> = ["1", "2", "3"].map(|id| at.submit(id)).into();
    assert_eq!(sent(&mut a), ["1", "2"]);
    at.answer(0, correct("1"));
    assert_eq!(sent(&mut a), ["3"]);
}

#[test]
fn a_deadline_that_begins_with_a_worker_counts_no_time_in_the_queue() {
    let mut at = Fixture::new(|options| {
        (options.deadline_start, options.max_outstanding) = (DeadlineStart::Assigned, 1);
    });
    let (_, mut first) = at.submit("1");
    let (_, mut second) = at.submit("2");
    at.pass(Duration::from_secs(600));
    assert!(first.try_recv().is_err(), "nobody had it, so that it cannot be late");
    let mut a = at.worker(0);
    at.pass(Duration::from_secs(59));
    assert_eq!(sent(&mut a), ["1"]);
    at.pass(Duration::from_secs(59));
    at.answer(0, correct("1"));
    assert!(first.try_recv().unwrap().is_ok());
    // Another worker has all the time again.
    at.pass(Duration::from_secs(50));
    at.lose(0);
    at.pass(Duration::from_secs(600));
    let _a = at.up(0);
    at.board.assign(at.now);
    at.pass(Duration::from_secs(59));
    assert!(second.try_recv().is_err());
    at.pass(Duration::from_secs(2));
    assert!(matches!(second.try_recv().unwrap(), Err(DispatchError::Deadline { .. })));
    assert_eq!(at.places.available_permits(), 100);
}

#[test]
fn what_a_lost_worker_had_goes_to_another_in_order() {
    let mut at = Fixture::new(|_| {});
    let mut a = at.worker(0);
    let (_, mut first) = at.submit("1");
    let (_, _second) = at.submit("2");
    sent(&mut a);
    let mut b = at.worker(1);
    at.lose(0);
    assert_eq!(sent(&mut b), ["1", "2"]);
    at.answer(1, correct("1"));
    assert!(first.try_recv().unwrap().unwrap().is_valid());
}

#[test]
fn an_item_is_given_up_after_its_attempts() {
    let mut at = Fixture::new(|_| {});
    let _a = at.worker(0);
    let (_, mut reply) = at.submit("1");
    at.lose(0);
    let _a = at.up(0);
    at.board.assign(at.now);
    at.lose(0);
    let error = reply.try_recv().unwrap().unwrap_err();
    assert_eq!(error.to_string(), "item `1` was lost with its worker 2 times, last: reset");
    assert_eq!(at.places.available_permits(), 100);
}

#[test]
fn a_second_answer_to_an_item_is_dropped() {
    let mut at = Fixture::new(|_| {});
    let _a = at.worker(0);
    let (_, mut reply) = at.submit("1");
    at.answer(0, correct("1"));
    at.answer(0, Verdict::judged("1", Outcome::Incorrect, "other", 0.0));
    assert_eq!(reply.try_recv().unwrap().unwrap().outcome(), Outcome::Correct);
    assert_eq!(at.board.status()[0].answered, 1);
}

#[test]
fn an_answer_to_nothing_is_dropped() {
    let mut at = Fixture::new(|_| {});
    let _a = at.worker(0);
    at.answer(0, correct("never asked"));
    assert!(at.board.is_empty());
}

#[test]
fn two_items_of_one_id_are_never_in_work_together() {
    let mut at = Fixture::new(|_| {});
    let _a = at.worker(0);
    let (_, _first) = at.submit("1");
    let (_, mut second) = at.submit("1");
    assert_eq!(second.try_recv().unwrap(), Err(DispatchError::InWork { id: "1".into() }));
}

#[test]
fn a_withdrawn_item_is_cancelled_and_keeps_its_slot_until_the_worker_says_so() {
    let mut at = Fixture::new(|options| options.max_outstanding = 1);
    let mut a = at.worker(0);
    let (ticket, _reply) = at.submit("1");
    at.board.withdraw(ticket, at.now);
    assert_eq!(at.places.available_permits(), 100, "its place is free at once");
    let (_, _reply) = at.submit("2");
    assert_eq!(sent(&mut a), ["1", "cancel 1"]);
    at.answer(0, Verdict::invalid("1", InvalidReason::Cancelled, ""));
    assert_eq!(sent(&mut a), ["2"]);
}

#[test]
fn an_id_waits_while_a_worker_still_has_it_cancelled_and_others_pass_it() {
    let mut at = Fixture::new(|_| {});
    let mut a = at.worker(0);
    let (ticket, _gone) = at.submit("1");
    at.board.withdraw(ticket, at.now);
    let (_, mut again) = at.submit("1");
    let (_, _other) = at.submit("2");
    assert_eq!(sent(&mut a), ["1", "cancel 1", "2"]);
    at.answer(0, Verdict::invalid("1", InvalidReason::Cancelled, ""));
    assert!(again.try_recv().is_err(), "the answer to the cancelled one is not the answer to this one");
    assert_eq!(sent(&mut a), ["1"]);
}

#[test]
fn a_worker_that_leaves_cancelled_items_unanswered_is_stuck() {
    let mut at = Fixture::new(|_| {});
    let _a = at.worker(0);
    let (ticket, _reply) = at.submit("1");
    at.board.withdraw(ticket, at.now);
    assert_eq!(at.board.next_wake(), Some(at.now + Duration::from_secs(1)));
    at.pass(Duration::from_millis(999));
    assert!(at.board.stuck(at.now).is_empty());
    at.pass(Duration::from_millis(1));
    assert_eq!(at.board.stuck(at.now), [0]);
}

#[test]
fn a_deadline_answers_and_cancels() {
    let mut at = Fixture::new(|_| {});
    let mut a = at.worker(0);
    let (_, mut reply) = at.submit("1");
    at.pass(Duration::from_secs(60));
    assert_eq!(reply.try_recv().unwrap(), Err(DispatchError::Deadline { id: "1".into(), waited_ms: 60_000 }));
    assert_eq!(sent(&mut a), ["1", "cancel 1"]);
}

#[test]
fn the_worker_is_told_what_is_left_of_the_deadline() {
    let mut at = Fixture::new(|_| {});
    let (_, _reply) = at.submit("1");
    at.pass(Duration::from_secs(20));
    let mut a = at.worker(0);
    at.board.assign(at.now);
    let Some(verify_request::Kind::Item(item)) = a.try_recv().unwrap().kind else { panic!("an item") };
    assert_eq!(item.deadline_ms, Some(40_000));
}

#[test]
fn a_full_worker_rests_and_the_attempt_does_not_count() {
    let mut at = Fixture::new(|options| options.max_attempts = 1);
    let mut a = at.worker(0);
    let (_, mut reply) = at.submit("1");
    for _ in 0..5 {
        assert_eq!(sent(&mut a), ["1"]);
        at.answer(0, Verdict::invalid("1", InvalidReason::Overloaded, ""));
        assert_eq!(sent(&mut a), Vec::<String>::new(), "it rests");
        let wake = at.board.next_wake().unwrap();
        assert!(wake > at.now && wake <= at.now + Duration::from_secs(1));
        at.pass(wake - at.now);
    }
    assert!(reply.try_recv().is_err());
}

#[test]
fn what_a_worker_refuses_teaches_what_it_takes() {
    let mut at = Fixture::new(|options| options.max_outstanding = 8);
    let mut a = at.worker(0);
    let ids: Vec<String> = (0..8).map(|id| id.to_string()).collect();
    let _replies: Vec<_> = ids.iter().map(|id| at.submit(id)).collect();
    for id in &ids[2..] {
        at.board.answer(0, Verdict::invalid(id, InvalidReason::Overloaded, ""), at.now);
    }
    at.board.assign(at.now);
    assert_eq!(sent(&mut a).len(), 8, "the six that it refused wait");
    at.answer(0, correct("0"));
    assert_eq!(sent(&mut a).len(), 1, "one out, one in, without a rest");
}

#[test]
fn a_draining_worker_gets_nothing_until_its_next_stream() {
    let mut at = Fixture::new(|_| {});
    let mut a = at.worker(0);
    let (_, _reply) = at.submit("1");
    at.answer(0, Verdict::invalid("1", InvalidReason::Draining, ""));
    assert_eq!(sent(&mut a), ["1"]);
    at.lose(0);
    let mut a = at.up(0);
    at.board.assign(at.now);
    assert_eq!(sent(&mut a), ["1"]);
}

#[test]
fn a_worker_that_failed_at_an_item_is_the_last_to_get_it_again() {
    let mut at = Fixture::new(|options| options.max_outstanding = 10);
    let (mut a, mut b) = (at.worker(0), at.worker(1));
    let (_, _one) = at.submit("1");
    let _others: Vec<_> = ["2", "3", "4"].map(|id| at.submit(id)).into();
    at.answer(0, correct("3"));
    sent(&mut a);
    sent(&mut b);
    at.answer(0, Verdict::invalid("1", InvalidReason::Internal, "broke"));
    assert_eq!(sent(&mut b), ["1"], "although the other has less to do");
}

#[test]
fn a_failure_that_stays_is_the_answer() {
    let mut at = Fixture::new(|_| {});
    let _a = at.worker(0);
    let (_, mut reply) = at.submit("1");
    at.answer(0, Verdict::invalid("1", InvalidReason::Internal, "broke"));
    at.answer(0, Verdict::invalid("1", InvalidReason::Internal, "broke again"));
    assert_eq!(reply.try_recv().unwrap().unwrap().detail, "broke again");
}

#[test]
fn a_leaving_worker_finishes_and_is_forgotten() {
    let mut at = Fixture::new(|_| {});
    let mut a = at.worker(0);
    let (_, mut reply) = at.submit("1");
    at.board.set_leaving(0, true);
    let (_, _waiting) = at.submit("2");
    assert_eq!(sent(&mut a), ["1"]);
    assert!(at.board.take_departed().is_empty());
    at.answer(0, correct("1"));
    assert!(reply.try_recv().unwrap().is_ok());
    assert_eq!(at.board.take_departed(), [0]);
}
