//! Scores of the same tokens by every engine.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::support::completions::token;
use crate::support::{FakeEngine, Reply, Service, bounded, item, label, settings, weights};
use evenkeel_proto::v1::{
    EngineHealth, FailureCode, LogProbabilityMode, ProveWeightsRequest, ProveWeightsResponse, TokenSequence,
};
use serde_json::json;
use tonic::{Code, Status};

fn request(version: u64) -> ProveWeightsRequest {
    let sequences = [vec![4, 5, 6], vec![7, 8]].map(|token_ids| TokenSequence { token_ids }).to_vec();
    ProveWeightsRequest { version: Some(version), sequences, temperature: Some(0.5), deadline_ms: None }
}

async fn prove(service: &Service, request: ProveWeightsRequest) -> Result<ProveWeightsResponse, Status> {
    service.client.clone().prove_weights(request).await.map(tonic::Response::into_inner)
}

#[tokio::test]
async fn every_engine_scores_the_tokens_under_the_weights_that_it_has() {
    bounded(async {
        let one = FakeEngine::start();
        let two = FakeEngine::start();
        let service = Service::start(&[&one, &two]).await;
        service.update(weights(3)).await.unwrap();
        let proof = prove(&service, request(3)).await.unwrap();
        let names: Vec<&str> = proof.engines.iter().map(|engine| engine.engine.as_str()).collect();
        assert_eq!(names, [one.name(), two.name()]);
        for engine in &proof.engines {
            assert_eq!((&engine.failure, engine.log_probability_mode()), (&None, LogProbabilityMode::Processed));
            let body = json!({"seed": 0, "prompt": [4, 5, 6]});
            let expected = [1, 2].map(|at| token(&body, &label(3), at).1);
            assert_eq!(engine.scores[0].log_probabilities, expected);
            assert_eq!(engine.scores[1].log_probabilities.len(), 1);
            assert_eq!((engine.scores[0].sampled_token_id, engine.scores[0].sampled_log_probability), (5, -0.25));
        }
        let asked = one.asked().pop().unwrap();
        assert_eq!((&asked["prompt_logprobs"], &asked["temperature"]), (&json!(0), &json!(0.5)));
        assert_ne!(asked["cache_salt"], label(3), "no prefix of a sample answers for it");
    })
    .await;
}

#[tokio::test]
async fn no_id_of_a_request_says_what_it_is_for() {
    bounded(async {
        let engine = FakeEngine::start();
        let service = Service::start(&[&engine]).await;
        for id in ["train/1/2/3", "train/1/2/3", "eval/0/2/3"] {
            service.draw(item(id, 7)).await;
        }
        prove(&service, request(0)).await.unwrap();
        let asked = engine.asked();
        let ids: BTreeSet<_> = asked.iter().map(|request| request["request_id"].as_str().unwrap()).collect();
        assert_eq!((asked.len(), ids.len()), (4, 4), "nor that it is the same sample again: {ids:?}");
        for id in ids {
            assert!(id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
        }
        assert!(!engine.shared.is_traced.load(Ordering::SeqCst), "a trace follows from the sample's id");
    })
    .await;
}

#[tokio::test]
async fn an_engine_without_scores_fails_alone_and_says_why() {
    bounded(async {
        let one = FakeEngine::start();
        let two = FakeEngine::start();
        let service = Service::start(&[&one, &two]).await;
        service.update(weights(1)).await.unwrap();
        two.script(|_| Reply::Status(400, "prompt_logprobs is not supported".to_owned()));
        let proof = prove(&service, request(1)).await.unwrap();
        assert!(proof.engines[0].failure.is_none() && proof.engines[1].scores.is_empty());
        let failure = proof.engines[1].failure.as_ref().unwrap();
        assert_eq!((failure.code(), failure.reason.as_str()), (FailureCode::FailedPrecondition, "NO_SCORES"));
        two.script(|_| Reply::Hang);
        let proof = prove(&service, request(1)).await.unwrap();
        let failure = proof.engines[1].failure.as_ref().unwrap();
        assert_eq!((failure.code(), failure.reason.as_str()), (FailureCode::Unavailable, "ENGINE_LOST"));
    })
    .await;
}

/// A machine that has much else to do: without this it would be asked in vain until the run ends.
#[tokio::test]
async fn an_engine_that_was_too_slow_with_its_scores_has_twice_the_time_for_the_next() {
    bounded(async {
        let engine = FakeEngine::start();
        let mut settings = settings(&[&engine]);
        settings.engine.control_timeout = Duration::from_millis(100);
        let service = Service::with(settings).await;
        service.update(weights(1)).await.unwrap();
        // Five tokens have 350 ms, and then 700.
        engine.script(|_| Reply::Tick(Duration::from_millis(500)));
        let proof = prove(&service, request(1)).await.unwrap();
        assert_eq!(proof.engines[0].failure.as_ref().unwrap().reason, "ENGINE_LOST");
        let proof = prove(&service, request(1)).await.unwrap();
        assert_eq!((&proof.engines[0].failure, proof.engines[0].scores.len()), (&None, 2));
    })
    .await;
}

#[tokio::test]
async fn what_an_engine_scores_that_restarted_unnoticed_proves_nothing() {
    bounded(async {
        let one = FakeEngine::start();
        let mut two = FakeEngine::start();
        let mut config = settings(&[&one, &two]);
        // Nobody looks after it: only the proof itself can find out.
        config.engine.health_interval = Duration::from_secs(60);
        let service = Service::with(config).await;
        service.update(weights(3)).await.unwrap();
        for _ in 0..5 {
            // It serves its first weights again.
            two.restart();
            let proof = prove(&service, request(3)).await.unwrap();
            assert!(proof.engines[0].failure.is_none());
            let failure = proof.engines[1].failure.as_ref().unwrap();
            assert_eq!((failure.code(), proof.engines[1].scores.len()), (FailureCode::Unavailable, 0), "{failure:?}");
            service.until_health(&[EngineHealth::Healthy; 2]).await;
            assert_eq!(two.label(), label(3));
            let proof = prove(&service, request(3)).await.unwrap();
            assert_eq!(proof.engines[1].failure, None);
        }
    })
    .await;
}

#[tokio::test]
async fn a_proof_of_another_version_or_of_nothing_is_refused() {
    bounded(async {
        let engine = FakeEngine::start();
        let service = Service::start(&[&engine]).await;
        service.update(weights(2)).await.unwrap();
        let refused = async |request| prove(&service, request).await.unwrap_err();
        let status = refused(request(1)).await;
        assert_eq!(status.code(), Code::FailedPrecondition);
        assert!(status.message().contains("version is 1, the engines' is 2"), "{status}");
        for (wrong, words) in [
            (ProveWeightsRequest { sequences: Vec::new(), ..request(2) }, "sequences is absent"),
            (ProveWeightsRequest { temperature: Some(0.0), ..request(2) }, "temperature is 0"),
            (ProveWeightsRequest { version: None, ..request(2) }, "version is absent"),
            (
                ProveWeightsRequest { sequences: vec![TokenSequence { token_ids: vec![4] }], ..request(2) },
                "sequences[0].token_ids is 1 ids",
            ),
        ] {
            let status = refused(wrong).await;
            assert_eq!(status.code(), Code::InvalidArgument);
            assert!(status.message().contains(words), "{status}");
        }
    })
    .await;
}
