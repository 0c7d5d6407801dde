//! LoRA adapters on engines that take them by name, as vLLM does: no pause, several versions at a time, and never an
//! answer of the base.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

use evenkeel_proto::v1::{
    EngineHealth, EngineUpdateOutcome, FinishReason, GenerateItem, PauseMode, ProveWeightsRequest, Rollout, SleepLevel,
    SleepRequest, TokenSequence, UpdateWeightsRequest, WakeUpRequest, WeightsRef,
};
use serde_json::{Value, json};
use tonic::Code;

use crate::support::completions::token;
use crate::support::{
    FakeEngine, Reply, Service, bounded, content, item, items, label, settings, until, weights, with_tokens,
};

const SLOW: Reply = Reply::Tick(Duration::from_millis(10));

/// Folders with adapters, one for each version.
struct Adapters(tempfile::TempDir);

impl Adapters {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn folder(&self, version: u64, rank: u64) -> PathBuf {
        let folder = self.0.path().join(label(version));
        std::fs::create_dir_all(&folder).unwrap();
        let config = json!({"peft_type": "LORA", "r": rank, "lora_alpha": 16, "target_modules": ["q_proj"]});
        std::fs::write(folder.join("adapter_config.json"), config.to_string()).unwrap();
        folder
    }

    fn of_rank(&self, version: u64, rank: u64) -> UpdateWeightsRequest {
        let path = self.folder(version, rank).display().to_string();
        let weights = WeightsRef::at_path(version, format!("sha256:{version:064x}"), path, 0);
        UpdateWeightsRequest { weights: Some(weights), ..UpdateWeightsRequest::default() }
    }

    fn version(&self, version: u64) -> UpdateWeightsRequest {
        self.of_rank(version, 8)
    }

    fn with_mode(&self, version: u64, mode: PauseMode) -> UpdateWeightsRequest {
        UpdateWeightsRequest { pause_mode: mode.into(), ..self.version(version) }
    }
}

/// A sample with a seed of its own.
fn pinned(name: &str, version: u64) -> GenerateItem {
    let seed = name.bytes().fold(0, |seed, byte| 31 * seed + u64::from(byte));
    GenerateItem { policy_version: Some(version), ..item(name, seed) }
}

/// The last request with the seed of a sample.
fn request_of(engine: &FakeEngine, rollout: &Rollout) -> Value {
    let seed = rollout.sampling.as_ref().unwrap().seed;
    engine.asked().iter().rfind(|body| body["seed"].as_u64() == seed).unwrap().clone()
}

/// Asserts that a rollout was sampled by that version: it says so, the request named its adapter, and the tokens are
/// those of the adapter.
fn assert_sampled_by(rollout: &Rollout, engine: &FakeEngine, version: u64) {
    assert_eq!(rollout.failure, None, "{}", rollout.sample_id);
    assert!(rollout.segments.iter().all(|segment| segment.policy_version == Some(version)), "{rollout:?}");
    let request = request_of(engine, rollout);
    let (model, said) =
        if version == 0 { ("fake".to_owned(), "default".to_owned()) } else { (label(version), label(version)) };
    assert_eq!(request["model"], model);
    assert_eq!(content(rollout).0[0], token(&request, &said, 0).0 as u32, "{}", rollout.sample_id);
}

#[tokio::test]
async fn an_adapter_is_loaded_under_its_version_without_a_pause_and_requests_name_it() {
    bounded(async {
        let engine = FakeEngine::with_adapters(2, 16);
        let adapters = Adapters::new();
        engine.script(|_| SLOW);
        let service = Service::start(&[&engine]).await;
        let status = service.status().await;
        assert_eq!((status.takes_adapters, status.max_adapters, status.max_adapter_rank), (true, 2, 16));
        let mut stream = service.stream().await;
        stream.send(with_tokens(item("before", 1), 100)).await;
        until(|| engine.live() == 1).await;
        let response = service.update(adapters.version(1)).await.unwrap();
        let update = &response.engines[0];
        assert_eq!((update.outcome(), update.version, update.resumed), (EngineUpdateOutcome::Updated, Some(1), true));
        assert_eq!(update.paused_us, 0);
        assert_eq!(engine.live(), 1, "what is in flight goes on");
        assert_eq!(engine.take_log(), [format!("load {} live=1 paused=false", label(1))]);
        stream.send(item("after", 2)).await;
        let after = stream.next().await;
        assert_eq!(after.sample_id, "after");
        assert_sampled_by(&after, &engine, 1);
        assert_eq!(request_of(&engine, &after)["cache_salt"], label(1));
        assert_sampled_by(&stream.next().await, &engine, 0);
        let again = service.update(adapters.version(1)).await.unwrap();
        assert_eq!(again.engines[0].outcome(), EngineUpdateOutcome::Current);
        assert!(engine.take_log().is_empty());
    })
    .await;
}

#[tokio::test]
async fn an_earlier_adapter_goes_on_for_samples_that_ask_for_it_and_is_unloaded_after_the_last() {
    bounded(async {
        let engine = FakeEngine::with_adapters(3, 16);
        let adapters = Adapters::new();
        engine.script(|_| SLOW);
        let service = Service::start(&[&engine]).await;
        service.update(adapters.version(1)).await.unwrap();
        let mut stream = service.stream().await;
        stream.send(with_tokens(pinned("one", 1), 100)).await;
        until(|| engine.live() == 1).await;
        service.update(adapters.version(2)).await.unwrap();
        stream.send(with_tokens(pinned("two", 2), 60)).await;
        until(|| engine.live() == 2).await;
        service.update(adapters.version(3)).await.unwrap();
        assert_eq!(engine.adapters(), [label(1), label(2), label(3)]);
        // All three at a time, also those that come late.
        stream.send(pinned("late one", 1)).await;
        stream.send(pinned("late two", 2)).await;
        stream.send(pinned("three", 3)).await;
        for _ in 0..5 {
            let rollout = stream.next().await;
            let version = match rollout.sample_id.rsplit(' ').next() {
                Some("one") => 1,
                Some("two") => 2,
                _ => 3,
            };
            assert_sampled_by(&rollout, &engine, version);
            assert_eq!(rollout.attempts, 1);
        }
        until(|| engine.adapters() == [label(3)]).await;
        let log = engine.take_log();
        assert!(log.iter().all(|entry| !entry.starts_with("pause") && !entry.starts_with("reload")), "{log:?}");
        let gone = service.draw(pinned("too late", 1)).await;
        assert!(gone.failure.unwrap().message.contains("policy_version is 1"));
    })
    .await;
}

#[tokio::test]
async fn an_adapter_stays_for_a_sample_between_two_of_its_attempts() {
    bounded(async {
        let engine = FakeEngine::with_adapters(2, 16);
        let adapters = Adapters::new();
        let failures = std::sync::atomic::AtomicUsize::new(0);
        engine.script(move |body| {
            if body["model"] == label(1) && failures.fetch_add(1, Ordering::SeqCst) < 3 {
                Reply::Status(500, "out of memory".into())
            } else {
                Reply::Answer
            }
        });
        let mut config = settings(&[&engine]);
        (config.retry_initial, config.retry_max) = (Duration::from_millis(300), Duration::from_millis(300));
        let service = Service::with(config).await;
        service.update(adapters.version(1)).await.unwrap();
        let mut stream = service.stream().await;
        stream.send(pinned("retried", 1)).await;
        until(|| !engine.asked().is_empty()).await;
        service.update(adapters.version(2)).await.unwrap();
        let rollout = stream.next().await;
        assert!(rollout.attempts > 1);
        assert_sampled_by(&rollout, &engine, 1);
        until(|| engine.adapters() == [label(2)]).await;
    })
    .await;
}

#[tokio::test]
async fn an_update_waits_for_the_oldest_samples_where_an_engine_computes_no_more_adapters() {
    bounded(async {
        let engine = FakeEngine::with_adapters(1, 16);
        let adapters = Adapters::new();
        engine.script(|_| SLOW);
        let service = Service::start(&[&engine]).await;
        service.update(adapters.version(1)).await.unwrap();
        let mut stream = service.stream().await;
        stream.send(with_tokens(pinned("old", 1), 200)).await;
        until(|| engine.live() == 1).await;
        engine.take_log();
        service.update(adapters.version(2)).await.unwrap();
        assert_eq!(
            engine.take_log(),
            [format!("unload {}", label(1)), format!("load {} live=0 paused=false", label(2))]
        );
        assert_sampled_by(&stream.next().await, &engine, 1);
        assert_sampled_by(&service.draw(pinned("new", 2)).await, &engine, 2);
    })
    .await;
}

#[tokio::test]
async fn samples_in_flight_are_taken_back_on_request_and_go_on_under_the_new_adapter_or_end() {
    bounded(async {
        for live in [1, 2] {
            for mode in [PauseMode::Keep, PauseMode::Abort] {
                let engine = FakeEngine::with_adapters(live, 16);
                let adapters = Adapters::new();
                engine.script(|_| SLOW);
                let service = Service::start(&[&engine]).await;
                service.update(adapters.version(1)).await.unwrap();
                let mut stream = service.stream().await;
                stream.send(GenerateItem { keep_partial: true, ..with_tokens(item("a", 1), 60) }).await;
                until(|| engine.live() == 1).await;
                tokio::time::sleep(Duration::from_millis(100)).await;
                engine.take_log();
                service.update(adapters.with_mode(2, mode)).await.unwrap();
                let log = engine.take_log();
                assert!(log.iter().any(|entry| entry.starts_with("pause mode=abort")), "{log:?}");
                assert_eq!(log.iter().filter(|entry| *entry == "resume").count(), 1, "{log:?}");
                let rollout = stream.next().await;
                let versions: Vec<_> = rollout.segments.iter().map(|segment| segment.policy_version.unwrap()).collect();
                match mode {
                    PauseMode::Keep => {
                        assert_eq!((versions, content(&rollout).0.len()), (vec![1, 2], 60));
                        assert_eq!(engine.asked().last().unwrap()["model"], label(2));
                    }
                    _ => assert_eq!((rollout.finish_reason(), versions), (FinishReason::Aborted, vec![1])),
                }
                until(|| engine.adapters() == [label(2)]).await;
            }
        }
    })
    .await;
}

#[tokio::test]
async fn an_engine_that_lost_its_adapter_gets_it_again_and_never_answers_as_the_base() {
    bounded(async {
        let mut engine = FakeEngine::with_adapters(2, 16);
        let adapters = Adapters::new();
        let mut config = settings(&[&engine]);
        config.max_attempts = 50;
        let service = Service::with(config).await;
        service.update(adapters.version(1)).await.unwrap();
        for restarts in [true, false] {
            if restarts {
                engine.restart()
            } else {
                engine.shared.adapters.lock().unwrap().clear()
            }
            for rollout in service.draw_all(items(32)).await.values() {
                assert_sampled_by(rollout, &engine, 1);
            }
            assert_eq!(engine.adapters(), [label(1)]);
        }
        assert!(engine.asked().iter().all(|body| body["model"] == label(1)), "nobody asked the base");
    })
    .await;
}

#[tokio::test]
async fn an_engine_that_cannot_load_an_adapter_is_stale_alone_until_it_can() {
    bounded(async {
        let bad = FakeEngine::with_adapters(2, 16);
        let good = FakeEngine::with_adapters(2, 16);
        let adapters = Adapters::new();
        let service = Service::start(&[&bad, &good]).await;
        service.update(adapters.version(1)).await.unwrap();
        bad.fail("/v1/load_lora_adapter", 500, 3);
        let response = service.update(adapters.version(2)).await.unwrap();
        assert_eq!(response.engines[0].outcome(), EngineUpdateOutcome::Failed);
        assert!(response.engines[0].failure.as_ref().unwrap().message.contains("/v1/load_lora_adapter: HTTP 500"));
        assert_eq!(response.engines[1].outcome(), EngineUpdateOutcome::Updated);
        for rollout in service.draw_all(items(32)).await.values() {
            assert_eq!(rollout.segments[0].policy_version, Some(2));
        }
        service.until_health(&[EngineHealth::Healthy; 2]).await;
        until(|| bad.adapters() == [label(2)] && good.adapters() == [label(2)]).await;
    })
    .await;
}

#[tokio::test]
async fn a_proof_scores_with_the_adapter_and_shows_an_engine_that_answers_as_the_base() {
    bounded(async {
        let engine = FakeEngine::with_adapters(2, 16);
        let adapters = Adapters::new();
        let service = Service::start(&[&engine]).await;
        service.update(adapters.version(3)).await.unwrap();
        let scores = async || {
            let request = ProveWeightsRequest {
                version: Some(3),
                sequences: vec![TokenSequence { token_ids: vec![4, 5, 6] }],
                temperature: Some(1.0),
                deadline_ms: None,
            };
            let proof = service.client.clone().prove_weights(request).await.unwrap().into_inner();
            proof.engines[0].scores[0].log_probabilities.clone()
        };
        let expected = |label: &str| [1, 2].map(|at| token(&json!({"seed": 0, "prompt": [4, 5, 6]}), label, at).1);
        assert_eq!(scores().await, expected(&label(3)));
        assert_eq!(engine.asked().pop().unwrap()["model"], label(3));
        engine.shared.ignores_adapters.store(true, Ordering::SeqCst);
        assert_eq!(scores().await, expected("default"), "as the learner's scores of the base");
    })
    .await;
}

#[tokio::test]
async fn an_adapter_is_loaded_again_after_sleep_and_weights_beside_it_are_not_discarded() {
    bounded(async {
        let engine = FakeEngine::with_adapters(2, 16);
        let adapters = Adapters::new();
        let service = Service::start(&[&engine]).await;
        service.update(adapters.version(1)).await.unwrap();
        let sleep = async |level: SleepLevel| {
            let request = SleepRequest { level: level.into(), ..SleepRequest::default() };
            service.client.clone().sleep(request).await
        };
        let refused = sleep(SleepLevel::Discard).await.unwrap_err();
        assert_eq!(refused.code(), Code::FailedPrecondition);
        assert!(refused.message().contains("compute an adapter beside the weights"), "{refused}");
        let words = |engine: &FakeEngine| {
            let log = engine.take_log();
            log.iter().map(|entry| entry.split_whitespace().next().unwrap().to_owned()).collect::<Vec<_>>()
        };
        sleep(SleepLevel::Offload).await.unwrap();
        engine.take_log();
        let woken = service.client.clone().wake_up(WakeUpRequest::default()).await.unwrap().into_inner();
        assert_eq!(woken.engines[0].failure, None);
        assert_eq!(words(&engine), ["wake_up", "wake_up", "unload", "load"]);
        assert_sampled_by(&service.draw(item("awake", 1)).await, &engine, 1);

        sleep(SleepLevel::Offload).await.unwrap();
        engine.take_log();
        service.update(adapters.version(2)).await.unwrap();
        assert_eq!(words(&engine), ["wake_up", "wake_up", "unload", "load"], "the old one is not needed any more");
        assert_eq!(engine.adapters(), [label(2)]);
        assert_sampled_by(&service.draw(item("updated", 1)).await, &engine, 2);
    })
    .await;
}

#[tokio::test]
async fn what_an_engine_lacks_for_adapters_is_named_and_nothing_is_loaded() {
    bounded(async {
        let adapters = Adapters::new();
        let plain = FakeEngine::start();
        let without_routes = FakeEngine::with_adapters(1, 16);
        without_routes.fail("/v1/load_lora_adapter", 404, usize::MAX);
        for (engine, words) in [(&plain, "--enable-lora"), (&without_routes, "VLLM_ALLOW_RUNTIME_LORA_UPDATING=1")] {
            let service = Service::start(&[engine]).await;
            let status = service.status().await;
            assert!(!status.takes_adapters && status.adapters_missing.contains(words), "{status:?}");
            let response = service.update(adapters.version(1)).await.unwrap();
            let message = &response.engines[0].failure.as_ref().unwrap().message;
            assert!(message.contains(words), "{message}");
            assert!(!engine.take_log().iter().any(|entry| entry.starts_with("reload_weights")));
            assert_eq!(service.health().await, [EngineHealth::Stale]);
        }
    })
    .await;
}

#[tokio::test]
async fn a_rank_above_that_of_an_engine_is_refused_before_any_is_touched() {
    bounded(async {
        let adapters = Adapters::new();
        let small = FakeEngine::with_adapters(2, 16);
        let large = FakeEngine::with_adapters(2, 64);
        let service = Service::start(&[&small, &large]).await;
        let refused = service.update(adapters.of_rank(1, 32)).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument);
        let words = ["the adapter's rank is 32", "at most 16", "--max-lora-rank"];
        assert!(words.iter().all(|words| refused.message().contains(words)), "{refused}");
        assert!(small.take_log().is_empty() && large.take_log().is_empty());
        assert_eq!(service.draw(item("a", 1)).await.segments[0].policy_version, Some(0), "it goes on as before");
    })
    .await;
}

#[tokio::test]
async fn all_weights_of_a_model_end_its_adapters_and_no_adapter_is_loaded_beside_them() {
    bounded(async {
        let engine = FakeEngine::with_adapters(2, 16);
        let adapters = Adapters::new();
        let service = Service::start(&[&engine]).await;
        service.update(adapters.version(1)).await.unwrap();
        service.update(weights(2)).await.unwrap();
        assert!(engine.adapters().is_empty());
        let rollout = service.draw(item("full", 1)).await;
        assert_eq!(
            (rollout.segments[0].policy_version, &request_of(&engine, &rollout)["model"]),
            (Some(2), &json!("fake"))
        );
        let response = service.update(adapters.version(3)).await.unwrap();
        let message = &response.engines[0].failure.as_ref().unwrap().message;
        assert!(message.contains("weight_version is 2-sha256:") && message.contains("restart it"), "{message}");
    })
    .await;
}

#[tokio::test]
async fn adapters_that_another_service_has_left_are_unloaded_and_those_of_others_are_not() {
    bounded(async {
        let engine = FakeEngine::with_adapters(4, 16);
        let adapters = Adapters::new();
        Service::start(&[&engine]).await.update(adapters.version(7)).await.unwrap();
        engine.shared.adapters.lock().unwrap().insert("sql-lora".into(), "/theirs".into());
        let service = Service::start(&[&engine]).await;
        assert_eq!(service.status().await.policy_version, 0, "what it serves by itself is the model");
        assert_sampled_by(&service.draw(item("base", 1)).await, &engine, 0);
        service.update(adapters.version(1)).await.unwrap();
        assert_eq!(engine.adapters(), [label(1), "sql-lora".to_owned()]);
        // The same service goes back to a version that it has unloaded.
        service.update(adapters.version(2)).await.unwrap();
        service.update(adapters.version(1)).await.unwrap();
        assert_sampled_by(&service.draw(item("back", 1)).await, &engine, 1);
    })
    .await;
}

#[tokio::test]
async fn an_adapter_that_was_there_before_is_loaded_anew() {
    bounded(async {
        let engine = FakeEngine::with_adapters(2, 16);
        let adapters = Adapters::new();
        Service::start(&[&engine]).await.update(adapters.version(1)).await.unwrap();
        engine.take_log();
        let service = Service::start(&[&engine]).await;
        let response = service.update(adapters.version(1)).await.unwrap();
        assert_eq!(response.engines[0].outcome(), EngineUpdateOutcome::Updated);
        let load = format!("load {} live=0 paused=false", label(1));
        assert_eq!(engine.take_log(), [format!("unload {}", label(1)), load], "what it is nobody knows");
        // In this service's own hands it is known.
        service.update(adapters.version(2)).await.unwrap();
        let again = service.update(adapters.version(2)).await.unwrap();
        assert_eq!(again.engines[0].outcome(), EngineUpdateOutcome::Current);
    })
    .await;
}
