//! The balancer without engines: which one gets a sample, in which order, and which requests are rejected.

use std::time::Duration;

use tokio::sync::oneshot::Receiver;

use super::*;
use crate::settings::EngineSettings;

const AFTER: Duration = Duration::from_secs(5);

fn balancer(engines: usize, max_in_flight: usize, affinity_samples: u32) -> Balancer {
    let engine = EngineSettings { unavailable_after: AFTER, ..EngineSettings::default() };
    let settings = GenerationSettings { max_in_flight, affinity_samples, engine, ..GenerationSettings::default() };
    let mut balancer = Balancer::new(WeightsVersion::initial(None), Arc::new(settings));
    for _ in 0..engines {
        let engine = balancer.add(Instant::now());
        assert!(admit(&mut balancer, engine, EngineState::Healthy).send().is_empty());
    }
    balancer
}

fn admit(balancer: &mut Balancer, engine: EngineId, state: EngineState) -> Replies {
    balancer.update(engine, Instant::now(), |backend, weights| backend.admit(state, weights))
}

fn request(tokens: u64) -> LeaseRequest {
    LeaseRequest { tokens, ..LeaseRequest::default() }
}

fn assigned(balancer: &mut Balancer, request: LeaseRequest) -> Assignment {
    balancer.acquire(request, Instant::now()).unwrap_or_else(|_| panic!("it should have got an engine"))
}

fn queued(balancer: &mut Balancer, request: LeaseRequest) -> Receiver<Reply> {
    let Err(reply) = balancer.acquire(request, Instant::now()) else { panic!("it should have to wait") };
    reply
}

fn loads(balancer: &mut Balancer) -> Vec<(usize, u64)> {
    let statuses = balancer.statuses(Instant::now());
    statuses.iter().map(|backend| (backend.in_flight, backend.outstanding_tokens)).collect()
}

#[test]
fn the_least_loaded_engine_comes_first_and_equals_take_turns() {
    let mut balancer = balancer(2, 10, 0);
    let order: Vec<usize> =
        [100, 10, 10, 90, 10, 10].into_iter().map(|tokens| assigned(&mut balancer, request(tokens)).engine).collect();
    // 0: 100; 1: 10, 20, 110; then 0, which has less; then they are equal and 1 had its turn longer ago.
    assert_eq!(order, [0, 1, 1, 1, 0, 1]);
    assert_eq!(loads(&mut balancer), [(2, 110), (4, 120)]);
}

#[test]
fn requests_wait_for_a_full_pool_in_order_of_arrival() {
    let mut balancer = balancer(1, 1, 0);
    let first = assigned(&mut balancer, request(5));
    let (mut second, mut third) = (queued(&mut balancer, request(6)), queued(&mut balancer, request(7)));
    assert!(balancer.release(first.engine, first.tokens).send().is_empty());
    let granted = second.try_recv().unwrap().unwrap();
    assert!(third.try_recv().is_err());
    assert!(balancer.release(granted.engine, granted.tokens).send().is_empty());
    assert_eq!(third.try_recv().unwrap().unwrap().tokens, 7);
}

#[test]
fn abandoned_requests_are_skipped_and_removed() {
    let mut balancer = balancer(1, 1, 0);
    let first = assigned(&mut balancer, request(1));
    for _ in 0..10_000 {
        drop(queued(&mut balancer, request(1)));
    }
    let mut last = queued(&mut balancer, request(2));
    assert!(balancer.release(first.engine, first.tokens).send().is_empty());
    assert_eq!(last.try_recv().unwrap().unwrap().tokens, 2);
    assert_eq!(loads(&mut balancer), [(1, 2)]);
}

#[test]
fn a_group_stays_on_one_engine_until_that_is_much_busier() {
    let mut balancer = balancer(3, 100, 4);
    let grouped = || LeaseRequest { tokens: 10, group: "train/0/7".into(), ..LeaseRequest::default() };
    let home = assigned(&mut balancer, grouped()).engine;
    for _ in 0..4 {
        assert_eq!(assigned(&mut balancer, grouped()).engine, home);
    }
    assert_ne!(assigned(&mut balancer, grouped()).engine, home, "50 tokens are more than 4 samples above 0");
}

#[test]
fn the_engine_that_failed_is_the_last_choice() {
    let mut balancer = balancer(2, 1, 8);
    let avoiding =
        |engine| LeaseRequest { tokens: 1, group: "g".into(), avoid: Some(engine), ..LeaseRequest::default() };
    assert_eq!(assigned(&mut balancer, avoiding(0)).engine, 1);
    assert_eq!(assigned(&mut balancer, avoiding(1)).engine, 0);
    let mut balancer = self::balancer(1, 1, 8);
    assert_eq!(assigned(&mut balancer, avoiding(0)).engine, 0, "better the same one than none");
}

#[test]
fn an_engine_on_probation_gets_few_samples() {
    let mut balancer = balancer(1, 16, 0);
    assert!(admit(&mut balancer, 0, EngineState::Suspect).send().is_empty());
    let _assignments = [assigned(&mut balancer, request(1)), assigned(&mut balancer, request(1))];
    queued(&mut balancer, request(1));
}

#[test]
fn new_weights_pause_every_engine_and_reject_old_versions() {
    let mut balancer = balancer(2, 1, 0);
    let _busy = [assigned(&mut balancer, request(1)), assigned(&mut balancer, request(1))];
    let mut any = queued(&mut balancer, request(1));
    let mut old = queued(&mut balancer, LeaseRequest { version: Some(0), ..request(1) });
    let weights = Arc::new(WeightsVersion { number: 3, label: Some("3".into()), ..WeightsVersion::initial(None) });
    assert!(balancer.set_weights(Arc::clone(&weights), Instant::now()).send().is_empty());
    assert_eq!(old.try_recv().unwrap().unwrap_err(), Rejection::Version { requested: 0, current: 3 });
    let mut new = queued(&mut balancer, LeaseRequest { version: Some(3), ..request(1) });
    assert!(balancer.release(1, 1).send().is_empty());
    assert!(any.try_recv().is_err(), "nobody has the new weights yet");
    assert!(admit(&mut balancer, 1, EngineState::Healthy).send().is_empty());
    assert_eq!(any.try_recv().unwrap().unwrap().session.weights(), &*weights);
    assert!(new.try_recv().is_err());
    assert_eq!(balancer.backend(0).session().weights().number, 0, "what is in flight there belongs to the old weights");
}

#[test]
fn without_an_engine_for_long_every_request_is_rejected() {
    let mut balancer = balancer(1, 1, 0);
    let start = Instant::now();
    let ejected = balancer.update(0, start, |backend, _| backend.eject(EngineState::Open, "gone"));
    assert!(ejected.send().is_empty() && balancer.has_no_engine());
    let mut waiting = balancer.acquire(request(1), start).err().unwrap();
    assert!(balancer.expire(start + AFTER / 2).send().is_empty());
    assert!(waiting.try_recv().is_err());
    assert!(balancer.expire(start + AFTER).send().is_empty());
    assert_eq!(waiting.try_recv().unwrap().unwrap_err(), Rejection::NoEngine);
    let mut late = balancer.acquire(request(1), start + AFTER).err().unwrap();
    assert_eq!(late.try_recv().unwrap().unwrap_err(), Rejection::NoEngine);
}
