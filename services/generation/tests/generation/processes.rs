//! Engines that are processes, which are killed and stopped: every sample is answered once, with the content that its
//! seed determines.

use std::collections::BTreeMap;
use std::time::Duration;

use evenkeel_proto::v1::{EngineHealth, FinishReason, Rollout};

use crate::support::process::EngineProcess;
use crate::support::{FakeEngine, Service, bounded, content, items, settings_of, weights, with_tokens};

const TICK: Duration = Duration::from_millis(2);

/// What engines of version 0 answer.
async fn expected(count: u64) -> BTreeMap<String, Rollout> {
    let alone = FakeEngine::start();
    Service::start(&[&alone]).await.draw_all(items(count)).await
}

fn check(rollouts: &BTreeMap<String, Rollout>, expected: &BTreeMap<String, Rollout>) {
    assert_eq!(rollouts.len(), expected.len());
    for (id, rollout) in rollouts {
        assert_eq!(rollout.finish_reason(), FinishReason::Length, "{id}: {:?}", rollout.failure);
        assert_eq!(content(rollout), content(&expected[id]), "{id}");
    }
}

async fn until_busy(service: &Service, engine: usize, samples: u64) {
    while service.status().await.engines[engine].in_flight_items < samples {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn kill_9_of_one_of_two_engines_in_the_middle_of_512_samples_loses_none() {
    bounded(async {
        let expected = expected(512).await;
        let mut one = EngineProcess::start(TICK);
        let two = EngineProcess::start(TICK);
        let service = Service::with(settings_of(vec![one.endpoint(), two.endpoint()])).await;
        let mut stream = service.stream().await;
        for item in items(512) {
            stream.send(item).await;
        }
        until_busy(&service, 0, 100).await;
        one.kill();
        let mut rollouts = BTreeMap::new();
        for _ in 0..512 {
            let rollout = stream.next().await;
            assert!(rollouts.insert(rollout.sample_id.clone(), rollout).is_none(), "answered once");
        }
        assert_eq!(stream.end().await.unwrap(), None);
        check(&rollouts, &expected);
        assert!(rollouts.values().any(|rollout| rollout.attempts > 1), "it was killed with samples in flight");

        // Its successor begins with old weights, and gets no sample before it has the new ones.
        service.until_health(&[EngineHealth::CircuitOpen, EngineHealth::Healthy]).await;
        service.update(weights(2)).await.unwrap();
        let _again = EngineProcess::on(&one.name(), TICK);
        service.until_health(&[EngineHealth::Healthy, EngineHealth::Healthy]).await;
        let rollouts = service.draw_all(items(128)).await;
        assert!(rollouts.values().any(|rollout| rollout.engine == one.name()));
        assert!(rollouts.values().all(|rollout| rollout.segments[0].policy_version == Some(2)));
    })
    .await;
}

#[tokio::test]
async fn a_stopped_process_gives_its_samples_to_the_other_and_comes_back() {
    bounded(async {
        let expected = expected(256).await;
        let one = EngineProcess::start(TICK);
        let two = EngineProcess::start(TICK);
        let mut config = settings_of(vec![one.endpoint(), two.endpoint()]);
        config.engine.control_timeout = Duration::from_millis(200);
        let service = Service::with(config).await;
        let mut stream = service.stream().await;
        for item in items(256) {
            stream.send(item).await;
        }
        until_busy(&service, 0, 20).await;
        one.signal("STOP");
        let mut rollouts = BTreeMap::new();
        for _ in 0..256 {
            let rollout = stream.next().await;
            assert!(rollouts.insert(rollout.sample_id.clone(), rollout).is_none(), "answered once");
        }
        check(&rollouts, &expected);
        assert_eq!(service.health().await[0], EngineHealth::CircuitOpen);
        one.signal("CONT");
        service.until_health(&[EngineHealth::Healthy, EngineHealth::Healthy]).await;
    })
    .await;
}

#[tokio::test]
async fn a_slow_engine_gets_as_much_as_it_can_do() {
    bounded(async {
        let slow = EngineProcess::start(Duration::from_millis(30));
        let fast = EngineProcess::start(Duration::from_millis(1));
        let mut config = settings_of(vec![slow.endpoint(), fast.endpoint()]);
        (config.max_in_flight, config.affinity_samples) = (16, 0);
        let rollouts = Service::with(config).await.draw_all(items(1024)).await;
        assert!(rollouts.values().all(|rollout| rollout.failure.is_none()));
        let by_the_slow_one = rollouts.values().filter(|rollout| rollout.engine == slow.name()).count();
        let by_the_fast_one = rollouts.len() - by_the_slow_one;
        assert!(
            (1..by_the_fast_one).contains(&by_the_slow_one),
            "{by_the_slow_one} of 1024 by an engine 30 times slower"
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_samples_at_once_are_each_answered_once_while_an_engine_dies() {
    bounded(async {
        let mut engines: Vec<EngineProcess> = (0..3).map(|_| EngineProcess::start(TICK)).collect();
        let config = settings_of(engines.iter().map(EngineProcess::endpoint).collect());
        let service = Service::with(config).await;
        let mut stream = service.stream().await;
        let requests = stream.requests.clone();
        let short = items(10_000);
        let sending = tokio::spawn(async move {
            for item in short {
                requests.send(with_tokens(item, 4).into()).await.unwrap();
            }
        });
        until_busy(&service, 0, 200).await;
        engines[0].kill();
        let mut seen = vec![false; 10_000];
        for _ in 0..10_000 {
            let rollout = stream.next().await;
            assert_eq!(rollout.finish_reason(), FinishReason::Length, "{:?}", rollout.failure);
            let index: usize = rollout.sample_id.strip_prefix("s/").unwrap().parse().unwrap();
            assert!(!std::mem::replace(&mut seen[index], true), "s/{index} was answered twice");
        }
        sending.await.unwrap();
        let queue = service.status().await.queue.unwrap();
        assert_eq!((queue.queued_items, queue.running_items), (0, 0), "nothing is left behind");
    })
    .await;
}
