//! Weight updates: in order, on every engine, and never a sample under the wrong version.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::support::completions::token;
use crate::support::{
    FakeEngine, Reply, Service, bounded, content, item, items, label, settings, until, weights, with_tokens,
};
use evenkeel_generation::{GenerationSettings, WeightsSettings};
use evenkeel_proto::v1::{
    EngineHealth, EngineUpdateOutcome, FailureCode, FinishReason, GenerateItem, LoraWeights, NcclWeights, PauseMode,
    UpdateWeightsRequest, WeightsRef, weights_ref,
};
use tonic::Code;

const SLOW: Reply = Reply::Tick(Duration::from_millis(10));

fn with_mode(version: u64, mode: PauseMode) -> UpdateWeightsRequest {
    UpdateWeightsRequest { pause_mode: mode.into(), ..weights(version) }
}

#[tokio::test]
async fn every_engine_pauses_loads_reports_its_version_and_resumes() {
    bounded(async {
        let one = FakeEngine::start();
        let two = FakeEngine::start();
        let service = Service::start(&[&one, &two]).await;
        let response = service.update(with_mode(3, PauseMode::Wait)).await.unwrap();
        assert_eq!(response.version, 3);
        for (engine, update) in [&one, &two].into_iter().zip(&response.engines) {
            let expected = [
                "pause mode=wait clear_cache=true".to_owned(),
                "reload_weights /weights/step-3 live=0 paused=true".to_owned(),
                format!("version {}", label(3)),
                "resume".to_owned(),
            ];
            assert_eq!(engine.take_log(), expected);
            assert_eq!(
                (update.engine.as_str(), update.outcome()),
                (engine.name().as_str(), EngineUpdateOutcome::Updated)
            );
            assert_eq!((update.version, update.resumed, &update.failure), (Some(3), true, &None));
            assert!(update.paused_us >= update.load_us);
        }
        let status = service.status().await;
        assert_eq!((status.policy_version, status.weights_digest), (3, format!("sha256:{:064x}", 3)));
        let rollout = service.draw(item("a", 1)).await;
        assert_eq!(rollout.segments[0].policy_version, Some(3));
        let asked = [one.asked(), two.asked()].concat();
        assert_eq!(asked[0]["cache_salt"], label(3));

        let again = service.update(weights(3)).await.unwrap();
        assert!(again.engines.iter().all(|update| update.outcome() == EngineUpdateOutcome::Current));
        assert!(one.take_log().is_empty(), "an engine that has them is left alone");
        let back = service.update(weights(1)).await.unwrap();
        assert_eq!((back.version, back.engines[0].version), (1, Some(1)));
    })
    .await;
}

#[tokio::test]
async fn samples_in_flight_are_finished_with_the_old_weights_and_queued_ones_get_the_new() {
    bounded(async {
        let engine = FakeEngine::start();
        engine.script(|_| SLOW);
        let mut settings = settings(&[&engine]);
        settings.max_in_flight = 4;
        let service = Service::with(settings).await;
        let mut stream = service.stream().await;
        for item in items(8) {
            stream.send(item).await;
        }
        stream.send(GenerateItem { policy_version: Some(2), ..item("pinned", 101) }).await;
        until(|| engine.live() == 4).await;
        // A version that is neither current nor being loaded is refused.
        assert_eq!(stream.next().await.failure.unwrap().code(), FailureCode::FailedPrecondition);
        let updating = service.update(with_mode(2, PauseMode::Wait));
        let (response, ()) = tokio::join!(updating, async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            stream.send(GenerateItem { policy_version: Some(2), ..item("pinned again", 102) }).await;
        });
        assert_eq!(response.unwrap().engines[0].outcome(), EngineUpdateOutcome::Updated);
        assert_eq!(engine.take_log()[1], "reload_weights /weights/step-2 live=0 paused=true");
        let mut versions = Vec::new();
        for _ in 0..9 {
            let rollout = stream.next().await;
            let version = rollout.segments[0].policy_version.unwrap();
            let seed = rollout.sampling.as_ref().unwrap().seed;
            let request = engine.asked().into_iter().find(|asked| asked["seed"].as_u64() == seed).unwrap();
            let said = if version == 2 { label(2) } else { "default".into() };
            assert_eq!(
                rollout.segments[0].token_ids[0],
                token(&request, &said, 0).0 as u32,
                "tagged with what sampled it"
            );
            versions.push(version);
        }
        versions.sort_unstable();
        assert_eq!(versions, [0, 0, 0, 0, 2, 2, 2, 2, 2]);
    })
    .await;
}

#[tokio::test]
async fn accepted_samples_that_ask_for_the_old_weights_are_finished_with_them() {
    bounded(async {
        let slow = FakeEngine::start();
        let quick = FakeEngine::start();
        slow.script(|_| Reply::Tick(Duration::from_millis(60)));
        quick.script(|_| SLOW);
        let mut settings = settings(&[&slow, &quick]);
        settings.max_in_flight = 2;
        settings.affinity_samples = 0;
        let service = Service::with(settings).await;
        let mut stream = service.stream().await;
        let pinned = |name: String, version| GenerateItem { policy_version: Some(version), ..item(&name, 1) };
        for number in 0..12 {
            stream.send(pinned(format!("old-{number}"), 0)).await;
        }
        until(|| slow.live() + quick.live() == 4).await;
        let (response, ()) = tokio::join!(service.update(with_mode(2, PauseMode::Wait)), async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            for number in 0..4 {
                stream.send(pinned(format!("new-{number}"), 2)).await;
            }
            // It comes late, and engines still have the weights that it asks for.
            stream.send(pinned("old-late".into(), 0)).await;
        });
        assert!(response.unwrap().engines.iter().all(|update| update.outcome() == EngineUpdateOutcome::Updated));
        for _ in 0..17 {
            let rollout = stream.next().await;
            assert_eq!((&rollout.failure, rollout.attempts), (&None, 1), "{}", rollout.sample_id);
            let expected = if rollout.sample_id.starts_with("old") { 0 } else { 2 };
            assert_eq!(rollout.segments[0].policy_version, Some(expected), "{}", rollout.sample_id);
        }
    })
    .await;
}

#[tokio::test]
async fn a_sample_that_loses_its_engine_while_weights_change_goes_on_where_the_old_ones_still_are() {
    bounded(async {
        let mut lost = FakeEngine::start();
        let kept = FakeEngine::start();
        lost.script(|_| Reply::Tick(Duration::from_millis(20)));
        kept.script(|_| Reply::Tick(Duration::from_millis(50)));
        let mut settings = settings(&[&lost, &kept]);
        settings.affinity_samples = 0;
        let service = Service::with(settings).await;
        let mut stream = service.stream().await;
        for name in ["a", "b", "c", "d"] {
            stream.send(GenerateItem { policy_version: Some(0), ..with_tokens(item(name, 1), 20) }).await;
        }
        until(|| lost.live() == 2 && kept.live() == 2).await;
        let updating = service.update(with_mode(2, PauseMode::Wait));
        let (response, ()) = tokio::join!(updating, async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            lost.kill();
        });
        use EngineUpdateOutcome::{Failed, Updated};
        let outcomes: Vec<_> = response.unwrap().engines.iter().map(|update| update.outcome()).collect();
        assert_eq!(outcomes, [Failed, Updated]);
        for _ in 0..4 {
            let rollout = stream.next().await;
            assert_eq!(rollout.failure, None, "{}", rollout.sample_id);
            assert_eq!(rollout.segments[0].policy_version, Some(0));
            assert_eq!(rollout.engine, kept.name());
        }
    })
    .await;
}

#[tokio::test]
async fn samples_in_flight_are_aborted_on_request() {
    bounded(async {
        let engine = FakeEngine::start();
        engine.script(|_| SLOW);
        let service = Service::start(&[&engine]).await;
        let mut stream = service.stream().await;
        stream.send(with_tokens(item("plain", 1), 400)).await;
        stream.send(GenerateItem { keep_partial: true, ..with_tokens(item("kept", 2), 400) }).await;
        until(|| engine.live() == 2).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        service.update(with_mode(1, PauseMode::Abort)).await.unwrap();
        for _ in 0..2 {
            let rollout = stream.next().await;
            assert_eq!((rollout.finish_reason(), &rollout.failure), (FinishReason::Aborted, &None));
            let kept = rollout.sample_id == "kept";
            assert_eq!(content(&rollout).0.is_empty(), !kept);
            assert!(rollout.segments.iter().all(|segment| segment.policy_version == Some(0)));
        }
    })
    .await;
}

#[tokio::test]
async fn samples_in_flight_continue_with_the_new_weights_on_request() {
    bounded(async {
        let engine = FakeEngine::start();
        engine.script(|_| SLOW);
        let service = Service::start(&[&engine]).await;
        let mut stream = service.stream().await;
        stream.send(with_tokens(item("a", 1), 40)).await;
        stream.send(GenerateItem { keep_partial: true, ..with_tokens(item("b", 2), 40) }).await;
        until(|| engine.live() == 2).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        service.update(with_mode(1, PauseMode::Keep)).await.unwrap();
        for _ in 0..2 {
            let rollout = stream.next().await;
            let versions: Vec<_> = rollout.segments.iter().map(|segment| segment.policy_version.unwrap()).collect();
            assert_eq!((versions, content(&rollout).0.len()), (vec![0, 1], 40));
            assert_eq!((rollout.finish_reason(), rollout.attempts), (FinishReason::Length, 1));
            let first = &rollout.segments[0].token_ids;
            let asked = engine.asked();
            let so_far = serde_json::json!([&rollout.prompt_token_ids[..], &first[..]].concat());
            let rest = asked.iter().find(|body| body["prompt"] == so_far).unwrap();
            assert_ne!(rest["seed"].as_u64(), rollout.sampling.as_ref().unwrap().seed);
            assert_eq!(rest["max_tokens"].as_u64(), Some(40 - first.len() as u64));
            assert_eq!(rollout.segments[1].token_ids[0], token(rest, &label(1), 0).0 as u32);
        }
    })
    .await;
}

#[tokio::test]
async fn if_any_step_fails_the_engine_resumes_gets_no_sample_and_recovers() {
    bounded(async {
        for route in ["/pause", "/collective_rpc", "/update_weight_version"] {
            let bad = FakeEngine::start();
            let good = FakeEngine::start();
            let service = Service::start(&[&bad, &good]).await;
            bad.fail(route, 500, 3);
            let response = service.update(weights(2)).await.unwrap();
            let failed = &response.engines[0];
            assert_eq!((failed.outcome(), failed.resumed), (EngineUpdateOutcome::Failed, true), "{route}");
            assert!(failed.failure.as_ref().unwrap().message.contains(&format!("{route}: HTTP 500")));
            assert_eq!(response.engines[1].outcome(), EngineUpdateOutcome::Updated);
            let log = bad.take_log();
            assert!(log.iter().any(|entry| entry == "resume"), "{route}: {log:?}");
            let rollouts = service.draw_all(items(32)).await;
            for rollout in rollouts.values() {
                assert_eq!(rollout.segments[0].policy_version, Some(2), "{route}");
            }
            service.until_health(&[EngineHealth::Healthy, EngineHealth::Healthy]).await;
            assert_eq!(bad.label(), label(2), "{route}");
            // Nobody asked it while it had other weights.
            assert!(bad.asked().iter().all(|asked| asked["cache_salt"] == label(2)), "{route}");
        }
    })
    .await;
}

#[tokio::test]
async fn resuming_is_retried_and_its_failure_is_reported() {
    bounded(async {
        let engine = FakeEngine::start();
        let service = Service::start(&[&engine]).await;
        engine.fail("/resume", 500, 2);
        let updated = service.update(weights(1)).await.unwrap();
        assert_eq!((updated.engines[0].outcome(), updated.engines[0].resumed), (EngineUpdateOutcome::Updated, true));
        engine.fail("/resume", 500, 4);
        let failed = service.update(weights(2)).await.unwrap();
        assert_eq!((failed.engines[0].outcome(), failed.engines[0].resumed), (EngineUpdateOutcome::Failed, false));
        // It recovers once the route works again.
        assert_eq!(service.draw(item("a", 1)).await.segments[0].policy_version, Some(2));
    })
    .await;
}

#[tokio::test]
async fn an_engine_that_reports_other_weights_than_it_loaded_is_stale() {
    bounded(async {
        let odd = FakeEngine::start();
        let good = FakeEngine::start();
        let service = Service::start(&[&odd, &good]).await;
        // It answers well and does nothing.
        odd.shared.deaf.store(true, Ordering::SeqCst);
        let response = service.update(weights(2)).await.unwrap();
        let failed = &response.engines[0];
        assert_eq!((failed.outcome(), failed.resumed), (EngineUpdateOutcome::Failed, true));
        assert!(failed.failure.as_ref().unwrap().message.contains("its weights are `default`"));
        assert_eq!(response.engines[1].outcome(), EngineUpdateOutcome::Updated);
        service.until_health(&[EngineHealth::Stale, EngineHealth::Healthy]).await;
        let rollouts = service.draw_all(items(20)).await;
        assert!(rollouts.values().all(|rollout| rollout.engine == good.name()));
    })
    .await;
}

/// Updates may take longer than any test.
fn slow_updates(mut settings: GenerationSettings) -> GenerationSettings {
    settings.weights.update_timeout = Duration::from_secs(3600);
    settings
}

#[tokio::test]
async fn a_dead_or_hung_engine_does_not_hold_up_the_others() {
    bounded(async {
        let mut dead = FakeEngine::start();
        let hung = FakeEngine::start();
        let good = FakeEngine::start();
        let service = Service::with(slow_updates(settings(&[&dead, &hung, &good]))).await;
        dead.kill();
        hung.shared.frozen.store(true, Ordering::SeqCst);
        let response = service.update(weights(1)).await.unwrap();
        let outcomes: Vec<_> = response.engines.iter().map(|update| update.outcome()).collect();
        use EngineUpdateOutcome::{Failed, Updated};
        assert_eq!(outcomes, [Failed, Failed, Updated]);
        hung.shared.frozen.store(false, Ordering::SeqCst);
        dead.restart();
        service.until_health(&[EngineHealth::Healthy; 3]).await;
        assert_eq!((dead.label(), hung.label()), (label(1), label(1)));
    })
    .await;
}

#[tokio::test]
async fn an_update_ends_at_its_deadline_and_the_engine_resumes() {
    bounded(async {
        let engine = FakeEngine::start();
        engine.script(|_| Reply::Hang);
        let service = Service::with(slow_updates(settings(&[&engine]))).await;
        let stream = service.stream().await;
        stream.send(item("a", 1)).await;
        until(|| engine.live() == 1).await;
        let request = UpdateWeightsRequest { deadline_ms: Some(300), ..with_mode(1, PauseMode::Wait) };
        let response = service.update(request).await.unwrap();
        let failure = response.engines[0].failure.as_ref().unwrap();
        assert_eq!(failure.code(), FailureCode::DeadlineExceeded);
        assert!(response.engines[0].resumed);
        engine.script(|_| Reply::Answer);
        assert_eq!(service.draw(item("b", 1)).await.segments[0].policy_version, Some(1));
    })
    .await;
}

#[tokio::test]
async fn an_update_whose_caller_went_away_is_finished() {
    bounded(async {
        let engine = FakeEngine::start();
        engine.script(|_| SLOW);
        let service = Service::start(&[&engine]).await;
        let mut stream = service.stream().await;
        stream.send(item("a", 1)).await;
        until(|| engine.live() == 1).await;
        let updating = tokio::time::timeout(Duration::from_millis(20), service.update(with_mode(1, PauseMode::Wait)));
        assert!(updating.await.is_err());
        assert_eq!(stream.next().await.finish_reason(), FinishReason::Length);
        until(|| engine.take_log().iter().any(|entry| entry == "resume")).await;
        until(|| engine.label() == label(1)).await;
    })
    .await;
}

#[tokio::test]
async fn unimplemented_sources_are_refused_by_name() {
    bounded(async {
        let engine = FakeEngine::start();
        let service = Service::start(&[&engine]).await;
        let sources = [
            (weights_ref::Source::Lora(LoraWeights::default()), "weights.lora"),
            (weights_ref::Source::Nccl(NcclWeights::default()), "weights.nccl"),
        ];
        for (source, name) in sources {
            let reference = WeightsRef {
                version: 1,
                digest: format!("sha256:{:064x}", 1),
                source: Some(source),
                ..WeightsRef::default()
            };
            let request = UpdateWeightsRequest { weights: Some(reference), ..UpdateWeightsRequest::default() };
            let status = service.update(request).await.unwrap_err();
            assert_eq!(status.code(), Code::Unimplemented);
            assert!(status.message().contains(name), "{}", status.message());
        }
        let nothing = service.update(UpdateWeightsRequest::default()).await.unwrap_err();
        assert_eq!(
            (nothing.code(), nothing.message()),
            (Code::InvalidArgument, "weights is absent, required: a reference to weights")
        );
        assert!(engine.take_log().is_empty());
    })
    .await;
}

#[tokio::test]
async fn a_missing_or_incomplete_folder_is_refused_before_an_engine_is_paused() {
    bounded(async {
        let engine = FakeEngine::start();
        let mut settings = settings(&[&engine]);
        settings.weights = WeightsSettings { check_folder: true, ..settings.weights };
        let service = Service::with(settings).await;
        let missing = service.update(weights(1)).await.unwrap_err();
        assert_eq!(missing.code(), Code::InvalidArgument);
        assert!(
            missing.message().contains("weights.path.path is `/weights/step-1`, which is not a folder here"),
            "{}",
            missing.message()
        );
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_str().unwrap().to_owned();
        std::fs::write(folder.path().join("model.safetensors"), b"half").unwrap();
        let reference = || WeightsRef::at_path(1, format!("sha256:{:064x}", 1), path.clone(), 0);
        let request = || UpdateWeightsRequest { weights: Some(reference()), ..UpdateWeightsRequest::default() };
        let unfinished = service.update(request()).await.unwrap_err();
        assert!(unfinished.message().contains("without evenkeel-version.json"), "{}", unfinished.message());
        assert!(engine.take_log().is_empty());
        assert_eq!(service.draw(item("a", 1)).await.segments[0].policy_version, Some(0), "it goes on as before");
        std::fs::write(folder.path().join("evenkeel-version.json"), b"{}").unwrap();
        assert_eq!(service.update(request()).await.unwrap().engines[0].outcome(), EngineUpdateOutcome::Updated);
    })
    .await;
}

#[tokio::test]
async fn weights_come_from_below_the_roots_only() {
    bounded(async {
        let engine = FakeEngine::start();
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("weights");
        let other = dir.path().join("other");
        for folder in [&root.join("step-1"), &other] {
            std::fs::create_dir_all(folder).unwrap();
            std::fs::write(folder.join("model.safetensors"), b"").unwrap();
            std::fs::write(folder.join("evenkeel-version.json"), b"{}").unwrap();
        }
        std::os::unix::fs::symlink(&other, root.join("step-2")).unwrap();
        let mut settings = settings(&[&engine]);
        settings.weights = WeightsSettings { check_folder: true, roots: vec![root.clone()], ..settings.weights };
        let service = Service::with(settings).await;
        let request = |path: &std::path::Path| {
            let path = path.to_str().unwrap().to_owned();
            let reference = WeightsRef::at_path(1, format!("sha256:{:064x}", 1), path, 0);
            UpdateWeightsRequest { weights: Some(reference), ..UpdateWeightsRequest::default() }
        };
        for path in [other, root.join("../other"), root.join("step-2"), "/nowhere".into()] {
            let status = service.update(request(&path)).await.unwrap_err();
            assert_eq!(status.code(), Code::InvalidArgument, "{}", path.display());
            assert!(status.message().contains("below weights.roots"), "{}", status.message());
        }
        assert!(engine.take_log().is_empty(), "no engine was paused");
        let response = service.update(request(&root.join("step-1"))).await.unwrap();
        assert_eq!(response.engines[0].outcome(), EngineUpdateOutcome::Updated);
    })
    .await;
}
