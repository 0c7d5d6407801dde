//! The balancer without engines: which one gets a sample, in which order, and which requests are rejected.

use std::time::Duration;

use tokio::sync::oneshot::Receiver;

use super::*;
use crate::settings::EngineClientSettings;

const AFTER: Duration = Duration::from_secs(5);

fn balancer(engines: usize, max_in_flight: usize, affinity_samples: u32) -> Balancer {
    let engine = EngineClientSettings { unavailable_after: AFTER, ..EngineClientSettings::default() };
    let settings = GenerationSettings { max_in_flight, affinity_samples, engine, ..GenerationSettings::default() };
    let mut balancer = Balancer::new(WeightsVersion::initial(None), Arc::new(settings));
    for _ in 0..engines {
        let engine = balancer.add(Instant::now());
        assert!(admit(&mut balancer, engine, EngineState::Healthy).send().is_empty());
    }
    balancer
}

fn admit(balancer: &mut Balancer, engine: EngineId, state: EngineState) -> Replies {
    balancer.update(engine, Instant::now(), |slots, weights| slots.admit(state, weights))
}

fn request(tokens: u64) -> SlotRequest {
    SlotRequest { tokens, ..SlotRequest::default() }
}

fn assigned(balancer: &mut Balancer, request: SlotRequest) -> Assignment {
    balancer.acquire(request, Instant::now()).unwrap_or_else(|_| panic!("it should have got an engine"))
}

fn queued(balancer: &mut Balancer, request: SlotRequest) -> Receiver<Reply> {
    let Err(reply) = balancer.acquire(request, Instant::now()) else { panic!("it should have to wait") };
    reply
}

fn loads(balancer: &mut Balancer) -> Vec<(usize, u64)> {
    let snapshots = balancer.snapshots(Instant::now());
    snapshots.iter().map(|engine| (engine.in_flight, engine.outstanding_tokens)).collect()
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
    let mut second = queued(&mut balancer, request(6));
    let mut third = queued(&mut balancer, request(7));
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
    let grouped = || SlotRequest { tokens: 10, group: Some("train/0/7".into()), ..SlotRequest::default() };
    let home = assigned(&mut balancer, grouped()).engine;
    for _ in 0..4 {
        assert_eq!(assigned(&mut balancer, grouped()).engine, home);
    }
    assert_ne!(assigned(&mut balancer, grouped()).engine, home, "50 tokens are more than 4 samples above 0");
}

#[test]
fn what_goes_on_stays_on_the_engine_that_it_names_while_that_has_room_and_the_version() {
    let mut balancer = balancer(2, 2, 0);
    let turn = |tokens| SlotRequest { tokens, preferred: Some(1), ..SlotRequest::default() };
    let first = assigned(&mut balancer, turn(900));
    assert_eq!((first.engine, assigned(&mut balancer, turn(900)).engine), (1, 1), "though the other one is idle");
    assert_eq!(assigned(&mut balancer, turn(1)).engine, 0, "it is full");
    assert!(balancer.release(1, first.tokens).send().is_empty());
    assert_eq!(assigned(&mut balancer, SlotRequest { avoid: Some(1), ..turn(1) }).engine, 0, "it has failed");
    assert_eq!(assigned(&mut balancer, turn(1)).engine, 1);
    let unknown = SlotRequest { preferred: Some(77), ..request(1) };
    assert!(balancer.acquire(unknown, Instant::now()).is_err(), "a hint is no requirement: it waits as any other");
    assert!(balancer.release(0, 1).send().is_empty());
}

#[test]
fn the_engine_that_failed_is_the_last_choice() {
    let mut balancer = balancer(2, 1, 8);
    let avoiding =
        |engine| SlotRequest { tokens: 1, group: Some("g".into()), avoid: Some(engine), ..SlotRequest::default() };
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
    let mut old = queued(&mut balancer, SlotRequest { version: Some(0), ..request(1) });
    let weights = Arc::new(WeightsVersion { number: 3, label: Some("3".into()), ..WeightsVersion::initial(None) });
    assert!(balancer.set_weights(Arc::clone(&weights), false, Instant::now()).send().is_empty());
    assert_eq!(old.try_recv().unwrap().unwrap_err(), Rejection::Version { requested: 0, current: 3 });
    let mut new = queued(&mut balancer, SlotRequest { version: Some(3), ..request(1) });
    assert!(balancer.release(1, 1).send().is_empty());
    assert!(any.try_recv().is_err(), "nobody has the new weights yet");
    assert!(admit(&mut balancer, 1, EngineState::Healthy).send().is_empty());
    assert_eq!(any.try_recv().unwrap().unwrap().session.weights(), &*weights);
    assert!(new.try_recv().is_err());
    assert_eq!(balancer.slots(0).session().weights().number, 0, "what is in flight there belongs to the old weights");
}

fn of_version(version: u64) -> SlotRequest {
    SlotRequest { version: Some(version), ..request(1) }
}

fn switch(balancer: &mut Balancer, version: u64) -> Arc<WeightsVersion> {
    let weights = WeightsVersion { number: version, label: Some("new".into()), ..WeightsVersion::initial(None) };
    let weights = Arc::new(weights);
    assert!(balancer.set_weights(Arc::clone(&weights), true, Instant::now()).send().is_empty());
    weights
}

#[test]
fn engines_finish_what_asks_for_their_weights_before_they_get_others() {
    let mut balancer = balancer(2, 1, 0);
    let _busy = [assigned(&mut balancer, of_version(0)), assigned(&mut balancer, of_version(0))];
    let mut waiting = queued(&mut balancer, of_version(0));
    let weights = switch(&mut balancer, 1);
    assert!(waiting.try_recv().is_err(), "it is not rejected");
    let mut new = queued(&mut balancer, of_version(1));
    let mut late = queued(&mut balancer, of_version(0));
    assert!(!balancer.finish(0) && !balancer.finish(1));

    // Each takes its share in order of arrival, and the new version waits for an engine that has it.
    assert!(balancer.release(0, 1).send().is_empty());
    assert_eq!(waiting.try_recv().unwrap().unwrap().session.weights().number, 0);
    assert!(!balancer.finish(0));
    assert!(balancer.release(1, 1).send().is_empty());
    assert_eq!(late.try_recv().unwrap().unwrap().engine, 1);
    assert!(balancer.release(0, 1).send().is_empty());
    assert!(new.try_recv().is_err());

    // The first that is through switches while the other still has one.
    assert!(balancer.finish(0) && !balancer.finish(1));
    assert!(admit(&mut balancer, 0, EngineState::Healthy).send().is_empty());
    let granted = new.try_recv().unwrap().unwrap();
    assert_eq!((granted.engine, granted.session.weights()), (0, &*weights));
    let mut after = queued(&mut balancer, of_version(0));
    assert!(balancer.release(1, 1).send().is_empty());
    assert_eq!(after.try_recv().unwrap().unwrap().engine, 1, "the other one still has its weights");
    assert!(balancer.release(1, 1).send().is_empty());
    assert!(balancer.finish(1));
    let mut too_late = queued(&mut balancer, of_version(0));
    assert_eq!(too_late.try_recv().unwrap().unwrap_err(), Rejection::Version { requested: 0, current: 1 });
}

#[test]
fn what_waits_for_old_weights_is_rejected_once_no_engine_has_them() {
    let mut balancer = balancer(2, 1, 0);
    let _busy = [assigned(&mut balancer, of_version(0)), assigned(&mut balancer, of_version(0))];
    let mut waiting = queued(&mut balancer, of_version(0));
    switch(&mut balancer, 1);
    let lose = |balancer: &mut Balancer, engine| {
        balancer.update(engine, Instant::now(), |slots, _| slots.eject(EngineState::CircuitOpen, "gone"))
    };
    assert!(lose(&mut balancer, 0).send().is_empty());
    assert!(waiting.try_recv().is_err(), "the other engine may still take it");
    assert!(lose(&mut balancer, 1).send().is_empty());
    assert_eq!(waiting.try_recv().unwrap().unwrap_err(), Rejection::Version { requested: 0, current: 1 });
}

#[test]
fn an_abandoned_request_for_old_weights_holds_no_engine_up() {
    let mut balancer = balancer(1, 1, 0);
    let _busy = assigned(&mut balancer, of_version(0));
    let waiting = queued(&mut balancer, of_version(0));
    switch(&mut balancer, 1);
    drop(waiting);
    assert!(balancer.release(0, 1).send().is_empty());
    assert!(balancer.finish(0));
}

#[test]
fn weights_that_become_current_again_serve_what_waited_for_them() {
    let mut balancer = balancer(1, 1, 0);
    let _busy = assigned(&mut balancer, of_version(0));
    let mut waiting = queued(&mut balancer, of_version(0));
    switch(&mut balancer, 1);
    let mut new = queued(&mut balancer, of_version(1));
    let back = Arc::new(WeightsVersion::initial(None));
    assert!(balancer.set_weights(back, true, Instant::now()).send().is_empty());
    assert_eq!(new.try_recv().unwrap().unwrap_err(), Rejection::Version { requested: 1, current: 0 });
    assert!(balancer.release(0, 1).send().is_empty());
    assert!(admit(&mut balancer, 0, EngineState::Healthy).send().is_empty());
    assert_eq!(waiting.try_recv().unwrap().unwrap().session.weights().number, 0);
}

#[test]
fn without_an_engine_for_long_every_request_is_rejected() {
    let mut balancer = balancer(1, 1, 0);
    let start = Instant::now();
    let ejected = balancer.update(0, start, |slots, _| slots.eject(EngineState::CircuitOpen, "gone"));
    assert!(ejected.send().is_empty() && balancer.has_no_engine());
    let mut waiting = balancer.acquire(request(1), start).err().unwrap();
    assert!(balancer.expire(start + AFTER / 2).send().is_empty());
    assert!(waiting.try_recv().is_err());
    assert!(balancer.expire(start + AFTER).send().is_empty());
    assert_eq!(waiting.try_recv().unwrap().unwrap_err(), Rejection::NoEngine);
    let mut late = balancer.acquire(request(1), start + AFTER).err().unwrap();
    assert_eq!(late.try_recv().unwrap().unwrap_err(), Rejection::NoEngine);
}
