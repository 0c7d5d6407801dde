//! The start of the service: what is refused, and what it waits for.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::support::{FakeEngine, Reply, Service, bounded, item, items, settings, weights};
use evenkeel_config::Loader;
use evenkeel_generation::{GenerationSettings, LogProbabilitySetting, bind};
use evenkeel_proto::v1::{EngineHealth, LogProbabilityMode};
use evenkeel_rpc::server::ServerSettings;

async fn refused(settings: GenerationSettings) -> String {
    bind(settings).await.expect_err("it should be refused").to_string()
}

#[tokio::test]
async fn invalid_settings_are_refused() {
    bounded(async {
        let error = refused(GenerationSettings::default()).await;
        assert_eq!(
            error,
            "setting `generation.endpoints is empty, allowed: at least one of http://HOST:PORT, https://HOST:PORT, \
             dns://HOST:PORT or dns+tls://HOST:PORT`"
        );
        let misspelt = Loader::new().text("x.toml", "max_itms = 3").unwrap().load::<GenerationSettings>();
        assert!(misspelt.unwrap_err().to_string().contains("nearest allowed: `max_items`"));
        let listed =
            Loader::new().set(["endpoints=http://a:1,http://b:2"]).unwrap().load::<GenerationSettings>().unwrap();
        assert_eq!(listed.settings.endpoints, ["http://a:1", "http://b:2"]);
    })
    .await;
}

#[tokio::test]
async fn a_port_that_is_taken_is_refused_before_engines_are_probed() {
    bounded(async {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let listen = taken.local_addr().unwrap().to_string();
        let settings = GenerationSettings {
            server: ServerSettings::on(&listen),
            endpoints: vec!["http://127.0.0.1:1".into()],
            ..GenerationSettings::default()
        };
        let error = refused(settings).await;
        assert!(error.contains(&listen) && error.contains("generation.server.listen"), "{error}");
    })
    .await;
}

#[tokio::test]
async fn an_engine_with_raw_log_probabilities_is_refused_unless_they_are_configured() {
    bounded(async {
        let engine = FakeEngine::start();
        engine.shared.raw.store(true, Ordering::SeqCst);
        let error = refused(settings(&[&engine])).await;
        assert!(
            error.contains("log_probabilities is raw") && error.contains("--logprobs-mode processed_logprobs"),
            "{error}"
        );
        let raw = GenerationSettings { log_probabilities: LogProbabilitySetting::Raw, ..settings(&[&engine]) };
        let rollout = Service::with(raw).await.draw(item("a", 1)).await;
        assert_eq!(rollout.log_probability_mode(), LogProbabilityMode::Raw);
    })
    .await;
}

/// Samples beside others that probes have asked for.
fn batches_compared(engine: &FakeEngine) -> usize {
    engine.asked().iter().filter(|body| body["cache_salt"] == "probe-beside").count()
}

/// Changes a log-probability in its last bits.
fn computed_otherwise(answer: String) -> String {
    let mut answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
    let value = &mut answer["choices"][0]["logprobs"]["token_logprobs"][5];
    *value = serde_json::json!(value.as_f64().unwrap() - 1e-6);
    answer.to_string()
}

#[tokio::test]
async fn an_engine_that_computes_otherwise_in_a_batch_is_refused_where_batch_invariance_is_asked_for() {
    bounded(async {
        let engine = FakeEngine::start();
        let invariant = GenerationSettings { batch_invariant: true, ..settings(&[&engine]) };
        let rollout = Service::with(invariant.clone()).await.draw(item("a", 1)).await;
        assert_eq!(rollout.engine_version, "vllm 0.32.0, batch-invariant");
        engine.script(|body| match body["cache_salt"].as_str() {
            Some("probe-beside") => Reply::Garble(computed_otherwise),
            _ => Reply::Answer,
        });
        let error = refused(invariant).await;
        assert!(error.contains("token 5 of a sample is id") && error.contains("VLLM_BATCH_INVARIANT=1"), "{error}");
        assert!(Service::with(settings(&[&engine])).await.draw(item("a", 1)).await.engine_version.ends_with("0.32.0"));
    })
    .await;
}

#[tokio::test]
async fn an_engine_that_comes_back_and_computes_otherwise_in_a_batch_is_not_readmitted() {
    bounded(async {
        for updates in [false, true] {
            let mut engine = FakeEngine::start();
            let service = Service::with(GenerationSettings { batch_invariant: true, ..settings(&[&engine]) }).await;
            if updates {
                // It comes back with its first weights, which are updated before it serves.
                service.update(weights(3)).await.unwrap();
            }
            engine.kill();
            service.until_health(&[EngineHealth::CircuitOpen]).await;
            assert_eq!(batches_compared(&engine), 4, "once for each round, before its first sample");
            engine.script(|body| match body["cache_salt"].as_str() {
                Some("probe-beside") => Reply::Garble(computed_otherwise),
                _ => Reply::Answer,
            });
            engine.restart();
            let refused = loop {
                let status = service.status().await.engines.remove(0);
                if status.last_error.contains("token 5 of a sample is id") {
                    break status;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            };
            assert!(matches!(refused.health(), EngineHealth::CircuitOpen | EngineHealth::Stale), "{refused:?}");
            // Started as it should be, it serves again.
            engine.script(|_| Reply::Answer);
            service.until_health(&[EngineHealth::Healthy]).await;
            assert!(service.draw(item("a", 1)).await.failure.is_none());
        }
    })
    .await;
}

#[tokio::test]
async fn an_engine_that_refuses_the_samples_beside_proves_nothing() {
    bounded(async {
        let engine = FakeEngine::start();
        engine.script(|body| match body["cache_salt"].as_str() {
            Some("probe-others") => Reply::Status(400, "one at a time".to_owned()),
            _ => Reply::Answer,
        });
        let error = refused(GenerationSettings { batch_invariant: true, ..settings(&[&engine]) }).await;
        assert!(error.contains("one at a time"), "{error}");
    })
    .await;
}

#[tokio::test]
async fn an_incompatible_engine_is_refused_by_name() {
    bounded(async {
        let engine = FakeEngine::start();
        let short = GenerationSettings { min_context_tokens: 4096, ..settings(&[&engine]) };
        assert!(
            refused(short)
                .await
                .ends_with("max_model_len is 512, allowed: at least generation.min_context_tokens, which is 4096")
        );
        let other = GenerationSettings { model: Some("qwen".into()), ..settings(&[&engine]) };
        assert!(refused(other).await.ends_with("model is qwen, allowed: a model that it serves: fake"));
        engine.fail("/version", 404, 100);
        assert!(
            refused(settings(&[&engine]))
                .await
                .ends_with("/version is absent, required: a server compatible with vLLM")
        );
    })
    .await;
}

#[tokio::test]
async fn an_engine_without_the_routes_of_weight_updates_is_refused_where_they_are_required() {
    bounded(async {
        let engine = FakeEngine::start();
        engine.fail("/is_paused", 404, 100);
        let mut required = settings(&[&engine]);
        required.weights.routes_required = true;
        let error = refused(required).await;
        assert!(
            error.contains("routes for weight updates is absent") && error.contains("VLLM_SERVER_DEV_MODE=1"),
            "{error}"
        );
        Service::with(settings(&[&engine])).await;
        engine.fail_no_more();
        let mut required = settings(&[&engine]);
        required.weights.routes_required = true;
        Service::with(required).await;
    })
    .await;
}

#[tokio::test]
async fn without_any_engine_the_service_does_not_start() {
    bounded(async {
        let mut engine = FakeEngine::start();
        let mut settings = settings(&[&engine]);
        settings.engine.startup_timeout = Duration::from_millis(400);
        engine.kill();
        let error = refused(settings).await;
        assert!(error.starts_with("no engine answered within 4") && error.contains(&engine.endpoint()), "{error}");
    })
    .await;
}

#[tokio::test]
async fn a_half_started_engine_is_waited_for_and_a_late_one_joins() {
    bounded(async {
        let slow = FakeEngine::start();
        let mut late = FakeEngine::start();
        slow.fail("/health", 503, 3);
        late.kill();
        let service = Service::start(&[&slow, &late]).await;
        assert_eq!(service.health().await, [EngineHealth::Healthy, EngineHealth::CircuitOpen]);
        service.update(weights(4)).await.unwrap();
        late.restart();
        service.until_health(&[EngineHealth::Healthy, EngineHealth::Healthy]).await;
        let rollouts = service.draw_all(items(64)).await;
        assert!(rollouts.values().all(|rollout| rollout.segments[0].policy_version == Some(4)));
        assert!(rollouts.values().any(|rollout| rollout.engine == late.name()));
    })
    .await;
}

#[tokio::test]
async fn a_restarted_service_takes_the_version_from_its_engines() {
    bounded(async {
        let one = FakeEngine::start();
        let two = FakeEngine::start();
        let first = Service::start(&[&one]).await;
        first.update(weights(7)).await.unwrap();
        first.server.kill().await.unwrap();
        let second = Service::start(&[&one, &two]).await;
        let status = second.status().await;
        assert_eq!((status.policy_version, status.weights_digest), (7, format!("sha256:{:064x}", 7)));
        assert_eq!(second.health().await, [EngineHealth::Healthy, EngineHealth::Stale]);
        assert_eq!(second.draw(item("a", 1)).await.segments[0].policy_version, Some(7));
        second.update(weights(7)).await.unwrap();
        assert_eq!(second.health().await, [EngineHealth::Healthy, EngineHealth::Healthy]);
    })
    .await;
}

#[tokio::test]
async fn an_engine_that_was_left_paused_is_resumed_and_updated_first() {
    bounded(async {
        let engine = FakeEngine::start();
        let dead = Service::start(&[&engine]).await;
        engine.fail("/resume", 404, 100);
        dead.update(weights(1)).await.unwrap();
        dead.server.kill().await.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
        engine.fail_no_more();
        let service = Service::start(&[&engine]).await;
        assert_eq!(service.health().await, [EngineHealth::Stale]);
        service.update(weights(1)).await.unwrap();
        assert_eq!(service.draw(item("a", 1)).await.segments[0].policy_version, Some(1));
    })
    .await;
}
