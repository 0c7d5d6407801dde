//! Engines asleep while a learner on the same GPU trains: no sample is lost by it, and none is drawn from other
//! weights.

use std::sync::atomic::Ordering;
use std::time::Duration;

use evenkeel_proto::v1::{
    EngineHealth, EngineSleep, EngineUpdateOutcome, FailureCode, SleepLevel, SleepRequest, WakeUpRequest,
};

use crate::support::{FakeEngine, Reply, Service, bounded, item, items, settings, until, weights};

async fn sleep(service: &Service, level: SleepLevel) -> Vec<EngineSleep> {
    let request = SleepRequest { level: level.into(), ..SleepRequest::default() };
    service.client.clone().sleep(request).await.unwrap().into_inner().engines
}

async fn wake_up(service: &Service) -> Vec<EngineSleep> {
    service.client.clone().wake_up(WakeUpRequest::default()).await.unwrap().into_inner().engines
}

#[tokio::test]
async fn samples_in_flight_end_before_sleep_and_new_ones_get_the_weights_that_end_it() {
    bounded(async {
        let engine = FakeEngine::start();
        engine.script(|_| Reply::Tick(Duration::from_millis(10)));
        let service = Service::start(&[&engine]).await;
        let mut stream = service.stream().await;
        stream.send(item("before", 1)).await;
        until(|| engine.live() == 1).await;
        engine.take_log();
        let slept = sleep(&service, SleepLevel::Offload).await;
        assert!(slept[0].asleep && slept[0].failure.is_none(), "{slept:?}");
        assert_eq!(engine.take_log(), ["sleep level=1 live=0"]);
        assert_eq!(stream.next().await.sample_id, "before");
        assert!(service.status().await.engines[0].asleep);

        stream.send(item("during", 2)).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_eq!(engine.asked().len(), 1, "nothing is sent to an engine that sleeps");
        assert!(sleep(&service, SleepLevel::Offload).await[0].asleep, "twice is once");
        assert_eq!(engine.take_log(), ["sleep level=1 live=0"], "asked again: it may have restarted");

        let updated = service.update(weights(1)).await.unwrap();
        assert_eq!(updated.engines[0].outcome(), EngineUpdateOutcome::Updated, "{updated:?}");
        let log = engine.take_log();
        let words: Vec<&str> = log.iter().map(|line| line.split_whitespace().next().unwrap()).collect();
        assert_eq!(words, ["wake_up", "reload_weights", "version", "wake_up", "resume"], "{log:?}");
        assert_eq!((log[0].as_str(), log[3].as_str()), ("wake_up weights", "wake_up kv_cache"));
        let during = stream.next().await;
        assert_eq!((during.segments[0].policy_version, during.attempts), (Some(1), 1));
        assert!(!service.status().await.engines[0].asleep);
    })
    .await;
}

#[tokio::test]
async fn engines_wake_with_the_weights_that_they_went_to_sleep_with() {
    bounded(async {
        let one = FakeEngine::start();
        let two = FakeEngine::start();
        let service = Service::start(&[&one, &two]).await;
        let error = service
            .client
            .clone()
            .sleep(SleepRequest { level: SleepLevel::Discard.into(), ..SleepRequest::default() })
            .await
            .unwrap_err();
        assert!(error.message().contains("level is SLEEP_LEVEL_DISCARD, allowed: SLEEP_LEVEL_OFFLOAD"), "{error}");
        service.update(weights(1)).await.unwrap();
        for (level, reloads) in [(SleepLevel::Offload, false), (SleepLevel::Discard, true)] {
            assert!(sleep(&service, level).await.iter().all(|engine| engine.asleep));
            engine_logs(&one, &two);
            let woken = wake_up(&service).await;
            assert!(woken.iter().all(|engine| !engine.asleep && engine.failure.is_none()), "{woken:?}");
            assert!(engine_logs(&one, &two).iter().all(|log| log.contains("reload_weights") == reloads), "{level:?}");
            let rollouts = service.draw_all(items(64)).await;
            assert!(rollouts.values().all(|rollout| rollout.segments[0].policy_version == Some(1)));
            assert!(!one.shared.asleep.load(Ordering::SeqCst) && !two.shared.asleep.load(Ordering::SeqCst));
        }
        assert!(wake_up(&service).await.iter().all(|engine| engine.failure.is_none()), "awake is awake");
    })
    .await;
}

fn engine_logs(one: &FakeEngine, two: &FakeEngine) -> [String; 2] {
    [one.take_log().join(";"), two.take_log().join(";")]
}

#[tokio::test]
async fn an_engine_that_cannot_sleep_is_reported_and_samples_again() {
    bounded(async {
        let engine = FakeEngine::start();
        let service = Service::start(&[&engine]).await;
        for (status, code, reason) in [
            (404, FailureCode::FailedPrecondition, "SLEEP_UNSUPPORTED"),
            (500, FailureCode::Unavailable, "ENGINE_FAILED"),
        ] {
            engine.fail("/sleep", status, 1);
            let slept = sleep(&service, SleepLevel::Offload).await;
            let failure = slept[0].failure.clone().unwrap();
            assert!(!slept[0].asleep);
            assert_eq!((failure.code(), failure.reason.as_str()), (code, reason), "{failure:?}");
            wake_up(&service).await;
            service.until_health(&[EngineHealth::Healthy]).await;
            assert_eq!(service.draw(item("after", 1)).await.failure, None);
        }
    })
    .await;
}

#[tokio::test]
async fn an_engine_that_cannot_be_woken_is_woken_later() {
    bounded(async {
        let engine = FakeEngine::start();
        let service = Service::start(&[&engine]).await;
        service.update(weights(1)).await.unwrap();
        sleep(&service, SleepLevel::Offload).await;
        engine.fail("/wake_up", 500, 2);
        let woken = wake_up(&service).await;
        assert!(woken[0].failure.is_some(), "{woken:?}");
        let rollout = service.draw(item("after", 1)).await;
        assert_eq!((rollout.failure, rollout.segments[0].policy_version), (None, Some(1)));
    })
    .await;
}

#[tokio::test]
async fn an_engine_that_was_left_asleep_is_woken_and_given_weights_first() {
    bounded(async {
        let engine = FakeEngine::start();
        sleep(&Service::start(&[&engine]).await, SleepLevel::Offload).await;
        assert!(engine.shared.asleep.load(Ordering::SeqCst));
        let successor = Service::with(settings(&[&engine])).await;
        assert_eq!(successor.health().await, [EngineHealth::Stale]);
        successor.update(weights(4)).await.unwrap();
        assert_eq!(successor.draw(item("after", 1)).await.segments[0].policy_version, Some(4));
    })
    .await;
}

#[tokio::test]
async fn weights_that_a_failed_sleep_may_have_discarded_are_loaded_again() {
    bounded(async {
        let engine = FakeEngine::start();
        let service = Service::start(&[&engine]).await;
        service.update(weights(1)).await.unwrap();
        engine.fail("/sleep", 500, 1);
        assert!(!sleep(&service, SleepLevel::Discard).await[0].asleep);
        engine.take_log();
        // Without a call: no engine sleeps, so that every engine that can sample should.
        let rollout = service.draw(item("after", 1)).await;
        assert_eq!((rollout.failure, rollout.segments[0].policy_version), (None, Some(1)));
        assert!(engine.take_log().iter().any(|line| line.starts_with("reload_weights")));
    })
    .await;
}

#[tokio::test]
async fn a_deadline_before_sleep_leaves_samples_in_flight_alone() {
    bounded(async {
        let engine = FakeEngine::start();
        engine.script(|_| Reply::Tick(Duration::from_millis(60)));
        let service = Service::start(&[&engine]).await;
        let mut stream = service.stream().await;
        stream.send(item("slow", 1)).await;
        until(|| engine.live() == 1).await;
        let request = SleepRequest { deadline_ms: Some(50), ..SleepRequest::default() };
        let slept = service.client.clone().sleep(request).await.unwrap().into_inner();
        assert_eq!(slept.engines[0].failure.as_ref().unwrap().code(), FailureCode::DeadlineExceeded);
        let slow = stream.next().await;
        assert_eq!((slow.failure, slow.attempts), (None, 1));
        assert_eq!(service.draw(item("after", 2)).await.failure, None);
    })
    .await;
}
