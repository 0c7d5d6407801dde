//! Engines that die, hang, come back or restart: no sample is lost, duplicated or attributed to another version.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::support::{FakeEngine, Reply, Service, bounded, content, item, items, label, settings, until, weights};
use evenkeel_proto::v1::{EngineHealth, FailureCode, FinishReason, GenerateItem};

const TICK: Reply = Reply::Tick(Duration::from_millis(3));

#[tokio::test]
async fn an_engine_that_is_killed_gives_its_samples_to_the_others() {
    bounded(async {
        let mut one = FakeEngine::start();
        let two = FakeEngine::start();
        let alone = FakeEngine::start();
        one.script(|_| TICK);
        two.script(|_| TICK);
        let expected = Service::start(&[&alone]).await.draw_all(items(512)).await;
        let service = Service::start(&[&one, &two]).await;
        let drawing = tokio::spawn(async move { (service.draw_all(items(512)).await, service) });
        until(|| one.asked().len() > 100).await;
        one.kill();
        let (rollouts, service) = drawing.await.unwrap();
        assert_eq!(rollouts.len(), 512);
        for (id, rollout) in &rollouts {
            assert_eq!(rollout.finish_reason(), FinishReason::Length, "{:?}", rollout.failure);
            assert_eq!(content(rollout), content(&expected[id]));
        }
        assert!(rollouts.values().any(|rollout| rollout.attempts > 1));
        service.until_health(&[EngineHealth::CircuitOpen, EngineHealth::Healthy]).await;
        one.script(|_| Reply::Answer);
        one.restart();
        service.until_health(&[EngineHealth::Healthy, EngineHealth::Healthy]).await;
    })
    .await;
}

#[tokio::test]
async fn an_engine_that_hangs_is_detected() {
    bounded(async {
        let one = FakeEngine::start();
        let two = FakeEngine::start();
        one.script(|_| Reply::Hang);
        let service = Service::start(&[&one, &two]).await;
        let drawing = tokio::spawn(async move { (service.draw_all(items(64)).await, service) });
        until(|| one.live() > 0).await;
        one.shared.frozen.store(true, Ordering::SeqCst);
        let (rollouts, service) = drawing.await.unwrap();
        assert!(rollouts.values().all(|rollout| rollout.engine == two.name() && rollout.failure.is_none()));
        assert_eq!(service.health().await[0], EngineHealth::CircuitOpen);
        until(|| one.live() == 0).await;
        one.script(|_| Reply::Answer);
        one.shared.frozen.store(false, Ordering::SeqCst);
        service.until_health(&[EngineHealth::Healthy, EngineHealth::Healthy]).await;
    })
    .await;
}

#[tokio::test]
async fn without_any_engine_samples_fail_as_unavailable_before_their_deadline() {
    bounded(async {
        let mut engine = FakeEngine::start();
        let mut config = settings(&[&engine]);
        config.engine.unavailable_after = Duration::from_millis(300);
        let service = Service::with(config).await;
        engine.script(|_| Reply::Hang);
        let mut stream = service.stream().await;
        stream.send(item("in work", 1)).await;
        until(|| engine.live() == 1).await;
        engine.kill();
        let assert_no_engine = |rollout: evenkeel_proto::v1::Rollout| {
            let failure = rollout.failure.unwrap();
            assert_eq!((failure.code(), failure.reason.as_str()), (FailureCode::Unavailable, "NO_ENGINE"));
            assert!(failure.message.contains(&engine.name()), "{}", failure.message);
            assert_eq!(rollout.finish_reason, FinishReason::Failed as i32);
        };
        assert_no_engine(stream.next().await);
        stream.send(item("later", 2)).await;
        assert_no_engine(stream.next().await);
    })
    .await;
}

#[tokio::test]
async fn a_short_deadline_without_any_engine_has_the_same_reason() {
    bounded(async {
        let mut engine = FakeEngine::start();
        let mut config = settings(&[&engine]);
        // Longer than any test may take.
        config.engine.unavailable_after = Duration::from_secs(3600);
        let service = Service::with(config).await;
        engine.kill();
        let rollout = service.draw(GenerateItem { deadline_ms: Some(400), ..item("a", 1) }).await;
        assert_eq!(rollout.failure.unwrap().code(), FailureCode::Unavailable);
    })
    .await;
}

#[tokio::test]
async fn samples_wait_for_an_engine_that_comes_back() {
    bounded(async {
        let mut engine = FakeEngine::start();
        let service = Service::start(&[&engine]).await;
        engine.kill();
        let drawing = tokio::spawn(async move { (service.draw_all(items(20)).await, service) });
        tokio::time::sleep(Duration::from_millis(300)).await;
        engine.restart();
        let (rollouts, _service) = drawing.await.unwrap();
        assert!(rollouts.values().all(|rollout| rollout.finish_reason() == FinishReason::Length));
    })
    .await;
}

#[tokio::test]
async fn an_engine_that_restarts_with_old_weights_is_detected_and_updated() {
    bounded(async {
        let mut engine = FakeEngine::start();
        let mut config = settings(&[&engine]);
        // Nobody looks after it: only the samples themselves can find out.
        config.engine.health_interval = Duration::from_secs(60);
        let service = Service::with(config).await;
        let updated = service.update(weights(3)).await.unwrap();
        assert_eq!(updated.engines[0].version, Some(3));
        let before = service.draw(item("before", 1)).await;
        engine.take_log();
        engine.restart();
        let after = service.draw(item("after", 1)).await;
        assert_eq!(after.segments[0].policy_version, Some(3));
        assert_eq!(content(&after), content(&before), "sampled from the same weights");
        assert!(after.attempts > 1);
        assert_eq!(engine.label(), label(3));
        assert!(engine.take_log().iter().any(|entry| entry.starts_with("reload_weights /weights/step-3")));
    })
    .await;
}

#[tokio::test]
async fn weights_changed_by_another_program_make_an_engine_stale() {
    bounded(async {
        let one = FakeEngine::start();
        let two = FakeEngine::start();
        let service = Service::start(&[&one, &two]).await;
        *one.shared.label.lock().unwrap() = "somebody else's".into();
        service.until_health(&[EngineHealth::Stale, EngineHealth::Healthy]).await;
        let rollouts = service.draw_all(items(50)).await;
        assert!(rollouts.values().all(|rollout| rollout.engine == two.name()));
        assert!(service.status().await.engines[0].last_error.contains("somebody else's"));
    })
    .await;
}

#[tokio::test]
async fn a_service_that_drains_answers_what_it_has() {
    bounded(async {
        let engine = FakeEngine::start();
        engine.script(|_| Reply::Tick(Duration::from_millis(20)));
        let service = Service::start(&[&engine]).await;
        let mut stream = service.stream().await;
        stream.send(item("a", 1)).await;
        until(|| engine.live() == 1).await;
        let stopping = tokio::spawn(service.server.stop());
        assert_eq!(stream.next().await.finish_reason(), FinishReason::Length);
        stopping.await.unwrap().unwrap();
    })
    .await;
}

#[tokio::test]
async fn an_engine_with_a_long_queue_gets_fewer_samples() {
    bounded(async {
        let full = FakeEngine::start();
        let free = FakeEngine::start();
        full.shared.waiting.store(1_000, Ordering::SeqCst);
        full.script(|_| TICK);
        free.script(|_| TICK);
        let mut config = settings(&[&full, &free]);
        config.engine.max_waiting = 4;
        let service = Service::with(config).await;
        let heard = |status: evenkeel_proto::v1::GenerationGetStatusResponse| status.engines[0].waiting_requests;
        while heard(service.status().await) != Some(1_000) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let drawing = tokio::spawn(async move { (service.draw_all(items(256)).await, service) });
        let mut most = 0;
        while !drawing.is_finished() {
            most = most.max(full.live());
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert!(most <= 1, "{most} samples at once in an engine that is full");
        let (rollouts, service) = drawing.await.unwrap();
        assert!(rollouts.values().all(|rollout| rollout.failure.is_none()));

        full.shared.waiting.store(4, Ordering::SeqCst);
        while heard(service.status().await) != Some(4) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let rollouts = service.draw_all(items(256)).await;
        assert!(rollouts.values().filter(|rollout| rollout.engine == full.name()).count() > 64);
    })
    .await;
}

#[tokio::test]
async fn unreadable_metrics_limit_nothing() {
    bounded(async {
        let engine = FakeEngine::start();
        engine.fail("/metrics", 500, usize::MAX);
        let service = Service::start(&[&engine]).await;
        assert!(service.draw_all(items(64)).await.values().all(|rollout| rollout.failure.is_none()));
        assert_eq!(service.status().await.engines[0].waiting_requests, None);
    })
    .await;
}
