//! What a service does with engines of the second protocol: everything that it does with the first.

use evenkeel_generation::{BindOptions, GenerationSettings, bind_with};
use evenkeel_proto::v1::{
    EngineUpdateOutcome, FailureCode, FinishReason, GenerateItem, ProveWeightsRequest, SleepLevel, SleepRequest,
    TokenSequence,
};

use super::WITH_ABACUS;
use super::server::{Abacus, next, scores};
use crate::support::{Service, bounded, content, item, items, label, settings_of, weights};

fn settings(engines: &[&Abacus], protocol: Option<&str>) -> GenerationSettings {
    let mut settings = settings_of(engines.iter().map(|engine| engine.url.clone()).collect());
    settings.engine.protocol = protocol.map(str::to_owned);
    settings
}

fn options() -> BindOptions {
    BindOptions { protocols: WITH_ABACUS, ..BindOptions::default() }
}

async fn start(engines: &[&Abacus]) -> Service {
    Service::of(bind_with(settings(engines, Some("abacus")), options()).await.unwrap()).await
}

/// The eight tokens of an item of these weights.
fn drawn(weights: &str, seed: u64) -> (Vec<u32>, Vec<f32>) {
    let mut ids = vec![3, 4, 5];
    let tokens = (0..8).map(|_| {
        let (id, log) = next(weights, &ids, seed);
        ids.push(id);
        (id, log)
    });
    tokens.collect::<Vec<_>>().into_iter().unzip()
}

#[tokio::test]
async fn groups_are_sampled_before_and_after_an_update_and_the_version_is_proven_by_scores() {
    bounded(async {
        let one = Abacus::start().await;
        let two = Abacus::start().await;
        let service = start(&[&one, &two]).await;
        for (version, weights_label) in [(0, "first".to_owned()), (3, label(3))] {
            if version == 3 {
                let response = service.update(weights(3)).await.unwrap();
                assert!(response.engines.iter().all(|engine| engine.outcome() == EngineUpdateOutcome::Updated));
                for engine in [&one, &two] {
                    let folder = r#"load {"from":"/weights/step-3"}"#.to_owned();
                    let named = format!(r#"load {{"label":"{}"}}"#, label(3));
                    assert_eq!(engine.take_log(), ["/hold".to_owned(), folder, named, "/go".to_owned()]);
                }
            }
            let rollouts = service.draw_all(items(32)).await;
            for seed in 0..32 {
                let rollout = &rollouts[&format!("s/{seed}")];
                assert_eq!((rollout.finish_reason(), &rollout.failure), (FinishReason::Length, &None));
                assert_eq!((rollout.engine_version.as_str(), rollout.attempts), ("abacus 1", 1));
                assert_eq!(rollout.segments[0].policy_version, Some(version));
                assert_eq!(content(rollout), drawn(&weights_label, seed), "drawn from the weights of its version");
            }
        }
        let sequences = [vec![4, 5, 6], vec![7, 8]];
        let request = ProveWeightsRequest {
            version: Some(3),
            sequences: sequences.clone().map(|token_ids| TokenSequence { token_ids }).to_vec(),
            temperature: Some(1.0),
            deadline_ms: None,
        };
        let proof = service.client.clone().prove_weights(request).await.unwrap().into_inner();
        assert_eq!(proof.engines.len(), 2);
        for engine in &proof.engines {
            assert_eq!(engine.failure, None);
            for (found, ids) in engine.scores.iter().zip(&sequences) {
                assert_eq!(found.log_probabilities, scores(&label(3), ids));
                assert_ne!(found.log_probabilities, scores("first", ids), "earlier weights would be seen");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn what_an_engine_cannot_do_is_its_own_to_say() {
    bounded(async {
        let engine = Abacus::start().await;
        let service = start(&[&engine]).await;
        let mut cold: GenerateItem = item("cold", 1);
        cold.sampling.as_mut().unwrap().temperature = Some(0.25);
        let failure = service.draw(cold).await.failure.unwrap();
        assert_eq!(failure.code(), FailureCode::InvalidArgument);
        assert!(failure.message.contains("temperature is 0.25") && failure.message.contains("at least 0.5"));
        let request = SleepRequest { level: SleepLevel::Offload.into(), ..SleepRequest::default() };
        let slept = service.client.clone().sleep(request).await.unwrap().into_inner().engines;
        let failure = slept[0].failure.as_ref().unwrap();
        assert_eq!(failure.reason, "SLEEP_UNSUPPORTED");
        assert!(failure.message.ends_with("an abacus never sleeps"), "{}", failure.message);
        let status = service.status().await;
        assert!(!status.takes_adapters && status.adapters_missing.contains("which no abacus has"));
    })
    .await;
}

#[tokio::test]
async fn the_setting_chooses_the_protocol() {
    bounded(async {
        let engine = Abacus::start().await;
        let refused = async |protocol| bind_with(settings(&[&engine], protocol), options()).await.err().unwrap();
        let error = refused(Some("sglang")).await.to_string();
        assert!(error.contains(r#"generation.engine.protocol is "sglang", allowed: "vllm", "abacus""#), "{error}");
        let error = refused(None).await.to_string();
        assert!(error.contains("no engine answered") && error.contains("/health"), "spoken to as vLLM: {error}");
    })
    .await;
}
