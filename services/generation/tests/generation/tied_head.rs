//! Models whose head is the embedding: which engines are given their weights, and in which form.

use std::path::Path;

use crate::support::{FakeEngine, Service, bounded, settings};
use evenkeel_proto::v1::{EngineHealth, EngineUpdateOutcome, HeadForm, UpdateWeightsRequest, WeightsRef};
use serde_json::json;

fn config(tied: bool, written_out: bool) -> String {
    let architectures = ["Qwen2ForCausalLM"];
    json!({"architectures": architectures, "vocab_size": 64, "tie_word_embeddings": tied, "tied_head_written_out": written_out})
        .to_string()
}

fn update(version: u64, folder: &Path) -> UpdateWeightsRequest {
    let path = folder.to_str().unwrap();
    let weights = WeightsRef::at_path(version, format!("sha256:{version:064x}"), path, 0);
    UpdateWeightsRequest { weights: Some(weights), ..UpdateWeightsRequest::default() }
}

fn folder(config: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("config.json"), config).unwrap();
    folder
}

#[tokio::test]
async fn a_folder_without_a_head_is_not_loaded_into_an_engine_that_would_keep_its_old_one() {
    bounded(async {
        let engine = FakeEngine::start();
        let service = Service::start(&[&engine]).await;
        assert!(!service.status().await.takes_tied_head);
        let tied = folder(&config(true, false));
        let response = service.update(update(1, tied.path())).await.unwrap();
        assert_eq!(response.engines[0].outcome(), EngineUpdateOutcome::Failed);
        let message = &response.engines[0].failure.as_ref().unwrap().message;
        assert!(
            message.contains("tie_word_embeddings is true") && message.contains("`evenkeel model untie`"),
            "{message}"
        );
        assert_eq!(service.health().await, [EngineHealth::Stale], "it gets no samples");
        assert!(!engine.take_log().iter().any(|entry| entry.starts_with("reload_weights")), "nothing was loaded");

        let written_out = folder(&config(false, true));
        let response = service.update(update(2, written_out.path())).await.unwrap();
        assert_eq!(response.engines[0].outcome(), EngineUpdateOutcome::Updated);
    })
    .await;
}

#[tokio::test]
async fn an_engine_that_says_so_takes_a_folder_without_a_head() {
    bounded(async {
        let tied = folder(&config(true, false));
        let says = json!({"vllm_config": {"model_config": {"takes_tied_head": true}}});
        // By the head of a tied model that is the very memory of the embedding, as on a GPU, a worker extension says
        // so, too.
        let extension = json!({"vllm_config": {"parallel_config": {"worker_extension_cls": "a.B"}}});
        for (info, tied_head, takes) in
            [(&says, "packed", true), (&extension, "shared", true), (&extension, "packed", false)]
        {
            let engine = FakeEngine::start();
            *engine.shared.server_info.lock().unwrap() = info.clone();
            *engine.shared.extension.lock().unwrap() =
                json!({"protocol": 1, "dtype": "float32", "tied_head": tied_head});
            let service = Service::start(&[&engine]).await;
            assert_eq!(service.status().await.takes_tied_head, takes);
            let response = service.update(update(1, tied.path())).await.unwrap();
            let outcome = if takes { EngineUpdateOutcome::Updated } else { EngineUpdateOutcome::Failed };
            assert_eq!(response.engines[0].outcome(), outcome, "{info} {tied_head}");
        }
    })
    .await;
}

#[tokio::test]
async fn the_status_says_how_the_served_folder_has_the_head_and_whether_every_engine_takes_it_tied() {
    bounded(async {
        for (tied, written_out, form) in
            [(true, false, HeadForm::Tied), (false, true, HeadForm::WrittenOut), (false, false, HeadForm::Own)]
        {
            let model = folder(&config(tied, written_out));
            let engine = FakeEngine::start();
            let other = FakeEngine::start();
            for engine in [&engine, &other] {
                *engine.shared.root.lock().unwrap() = model.path().to_str().unwrap().to_owned();
            }
            *engine.shared.server_info.lock().unwrap() =
                json!({"vllm_config": {"model_config": {"takes_tied_head": true}}});
            let status = Service::with(settings(&[&engine])).await.status().await;
            assert_eq!((status.model.unwrap().head(), status.takes_tied_head), (form, true));
            let status = Service::with(settings(&[&engine, &other])).await.status().await;
            assert!(!status.takes_tied_head, "one of them does not");
        }
    })
    .await;
}
