//! The board without engines: who gets what, in which order, and who is refused.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot::Receiver;
use tokio::time::Instant;

use super::board::{Board, Grant, Refusal, Want};
use super::seat::Standing;
use crate::weights::Target;

const AFTER: Duration = Duration::from_secs(5);

fn board(engines: usize, limit: usize, affinity: u32) -> Board {
    let mut board = Board::new(engines, Target::initial(None), limit, affinity, AFTER);
    for engine in 0..engines {
        let given = board.change(engine, Instant::now(), |seat, target| seat.begin(Standing::Healthy, target));
        assert!(given.send().is_empty());
    }
    board
}

fn want(tokens: u64) -> Want {
    Want { tokens, ..Want::default() }
}

fn now(board: &mut Board, want: Want) -> Grant {
    board.ask(want, Instant::now()).unwrap_or_else(|_| panic!("it should have got an engine"))
}

fn later(board: &mut Board, want: Want) -> Receiver<Result<Grant, Refusal>> {
    let Err(ticket) = board.ask(want, Instant::now()) else { panic!("it should have to wait") };
    ticket
}

fn loads(board: &Board) -> Vec<(usize, u64)> {
    board.seats.iter().map(|seat| (seat.in_flight, seat.tokens)).collect()
}

#[test]
fn the_least_outstanding_tokens_come_first_and_equals_take_turns() {
    let mut board = board(2, 10, 0);
    let order: Vec<usize> =
        [100, 10, 10, 90, 10, 10].into_iter().map(|tokens| now(&mut board, want(tokens)).engine).collect();
    // 0: 100; 1: 10, 20, 110; then 0, which has less; then they are equal and 1 had its turn longer ago.
    assert_eq!(order, [0, 1, 1, 1, 0, 1]);
    assert_eq!(loads(&board), [(2, 110), (4, 120)]);
}

#[test]
fn a_full_fleet_makes_wait_in_order_of_arrival() {
    let mut board = board(1, 1, 0);
    let first = now(&mut board, want(5));
    let (mut second, mut third) = (later(&mut board, want(6)), later(&mut board, want(7)));
    assert!(board.release(first.engine, first.tokens).send().is_empty());
    let given = second.try_recv().unwrap().unwrap();
    assert!(third.try_recv().is_err());
    assert!(board.release(given.engine, given.tokens).send().is_empty());
    assert_eq!(third.try_recv().unwrap().unwrap().tokens, 7);
}

#[test]
fn who_no_longer_waits_is_passed_over_and_forgotten() {
    let mut board = board(1, 1, 0);
    let first = now(&mut board, want(1));
    for _ in 0..10_000 {
        drop(later(&mut board, want(1)));
    }
    let mut last = later(&mut board, want(2));
    assert!(board.release(first.engine, first.tokens).send().is_empty());
    assert_eq!(last.try_recv().unwrap().unwrap().tokens, 2);
    assert_eq!(loads(&board), [(1, 2)]);
}

#[test]
fn a_group_stays_together_until_its_engine_is_much_busier() {
    let mut board = board(3, 100, 4);
    let grouped = || Want { tokens: 10, group: "train/0/7".into(), ..Want::default() };
    let home = now(&mut board, grouped()).engine;
    for _ in 0..4 {
        assert_eq!(now(&mut board, grouped()).engine, home);
    }
    assert_ne!(now(&mut board, grouped()).engine, home, "50 tokens are more than 4 samples above 0");
}

#[test]
fn the_engine_that_failed_is_asked_last() {
    let mut board = board(2, 1, 8);
    let avoiding = |engine| Want { tokens: 1, group: "g".into(), avoid: Some(engine), ..Want::default() };
    assert_eq!(now(&mut board, avoiding(0)).engine, 1);
    assert_eq!(now(&mut board, avoiding(1)).engine, 0);
    let mut board = self::board(1, 1, 8);
    assert_eq!(now(&mut board, avoiding(0)).engine, 0, "better the same one than none");
}

#[test]
fn an_engine_on_probation_gets_little() {
    let mut board = board(1, 16, 0);
    let given = board.change(0, Instant::now(), |seat, _| seat.standing = Standing::Suspect);
    assert!(given.send().is_empty());
    let _grants = [now(&mut board, want(1)), now(&mut board, want(1))];
    later(&mut board, want(1));
}

#[test]
fn new_weights_close_every_gate_and_refuse_old_versions() {
    let mut board = board(2, 1, 0);
    let _busy = [now(&mut board, want(1)), now(&mut board, want(1))];
    let mut any = later(&mut board, want(1));
    let mut old = later(&mut board, Want { version: Some(0), ..want(1) });
    let target = Arc::new(Target { version: 3, label: Some("3".into()), ..Target::initial(None) });
    assert!(board.aim(Arc::clone(&target), Instant::now()).send().is_empty());
    assert_eq!(old.try_recv().unwrap().unwrap_err(), Refusal::Version { wanted: 0, current: 3 });
    let mut new = later(&mut board, Want { version: Some(3), ..want(1) });
    assert!(board.release(1, 1).send().is_empty());
    assert!(any.try_recv().is_err(), "nobody has the new weights yet");
    assert!(board.change(1, Instant::now(), |seat, target| seat.begin(Standing::Healthy, target)).send().is_empty());
    assert_eq!(any.try_recv().unwrap().unwrap().session.target, target);
    assert!(new.try_recv().is_err());
    assert_eq!(board.seats[0].session.target.version, 0, "what is still in work there belongs to the old weights");
}

#[test]
fn without_an_engine_for_long_everything_is_refused() {
    let mut board = board(1, 1, 0);
    let start = Instant::now();
    let lost = board.change(0, start, |seat, _| seat.lose(Standing::Open, "gone"));
    assert!(lost.send().is_empty() && board.has_none());
    let mut waiting = board.ask(want(1), start).err().unwrap();
    assert!(board.expire(start + AFTER / 2).send().is_empty());
    assert!(waiting.try_recv().is_err());
    assert!(board.expire(start + AFTER).send().is_empty());
    assert_eq!(waiting.try_recv().unwrap().unwrap_err(), Refusal::NoEngine);
    let mut late = board.ask(want(1), start + AFTER).err().unwrap();
    assert_eq!(late.try_recv().unwrap().unwrap_err(), Refusal::NoEngine);
}
