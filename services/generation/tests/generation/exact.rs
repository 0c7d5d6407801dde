//! The exact proof: digests that an engine's worker extension gives, against the folder that it was given.

use std::path::Path;

use crate::support::{FakeEngine, Service, bounded};
use evenkeel_model_folder::{FloatType, Folder, TensorPart, WeightFiles, tensor_digest};
use evenkeel_proto::v1::{
    ExactProof, ExactProofState, ProveWeightsRequest, TokenSequence, UpdateWeightsRequest, WeightsRef,
};
use serde_json::{Value, json};

/// A folder with two tensors of eight values.
fn published(value: f32) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let header = r#"{"a.weight":{"dtype":"F32","shape":[4,2],"data_offsets":[0,32]},"b.weight":{"dtype":"F32","shape":[8],"data_offsets":[32,64]}}"#;
    let values = (0..16).flat_map(|at| (value + at as f32).to_le_bytes());
    let bytes: Vec<u8> = (header.len() as u64).to_le_bytes().into_iter().chain(header.bytes()).chain(values).collect();
    std::fs::write(folder.path().join("model.safetensors"), bytes).unwrap();
    std::fs::write(folder.path().join("config.json"), r#"{"architectures":["Qwen2ForCausalLM"],"vocab_size":64}"#)
        .unwrap();
    folder
}

/// What an engine answers that computes with the weights of a folder in bf16.
fn tensors(folder: &Path) -> Vec<Value> {
    let stored = WeightFiles::read(&Folder::new(folder)).unwrap().tensors().unwrap();
    let answer = stored.iter().map(|(name, tensor)| {
        let part = TensorPart::whole(tensor);
        let sha256 = tensor_digest(tensor, &part, FloatType::Bf16).unwrap();
        json!({"name": name, "dtype": "bfloat16", "shape": part.shape, "start": part.start, "sha256": sha256})
    });
    answer.collect()
}

fn answer(tensors: &[Value]) -> Value {
    json!({"protocol": 1, "dtype": "bfloat16", "tied_head": "own", "tensors": tensors, "unread": []})
}

async fn updated(service: &Service, version: u64, folder: &Path) {
    let path = folder.to_str().unwrap();
    let weights = WeightsRef::at_path(version, format!("sha256:{version:064x}"), path, 0);
    service.update(UpdateWeightsRequest { weights: Some(weights), ..UpdateWeightsRequest::default() }).await.unwrap();
}

async fn prove(service: &Service, version: u64) -> Option<ExactProof> {
    let sequences = vec![TokenSequence { token_ids: vec![4, 5, 6] }];
    let request = ProveWeightsRequest { version: Some(version), sequences, temperature: Some(1.0), deadline_ms: None };
    let mut engines = service.client.clone().prove_weights(request).await.unwrap().into_inner().engines;
    assert!(engines[0].failure.is_none(), "{engines:?}");
    engines.remove(0).exact
}

fn with_extension(name: &str) -> FakeEngine {
    let engine = FakeEngine::start();
    *engine.shared.server_info.lock().unwrap() =
        json!({"vllm_config": {"parallel_config": {"worker_extension_cls": name}}});
    *engine.shared.extension.lock().unwrap() = answer(&[]);
    engine
}

#[tokio::test]
async fn an_engine_with_the_extension_is_compared_with_the_folder_that_it_was_given() {
    bounded(async {
        let old = published(1.0);
        let new = published(2.0);
        let engine = with_extension("evenkeel_worker.WeightDigests");
        let service = Service::start(&[&engine]).await;
        updated(&service, 1, new.path()).await;
        *engine.shared.extension.lock().unwrap() = answer(&tensors(new.path()));
        let exact = prove(&service, 1).await.unwrap();
        assert_eq!((exact.state(), exact.tensors, exact.dtype.as_str()), (ExactProofState::Equal, 2, "bfloat16"));
        // One tensor of the version before.
        let stale = [tensors(new.path()).remove(0), tensors(old.path()).remove(1)];
        *engine.shared.extension.lock().unwrap() = answer(&stale);
        let exact = prove(&service, 1).await.unwrap();
        assert_eq!((exact.state(), exact.different_names), (ExactProofState::Different, vec!["b.weight".to_owned()]));
        // One that is not answered for.
        *engine.shared.extension.lock().unwrap() = answer(&stale[..1]);
        let exact = prove(&service, 1).await.unwrap();
        assert_eq!((exact.state(), exact.unread), (ExactProofState::Incomplete, 1));
        assert_eq!(exact.unread_reasons, ["b.weight: no worker has all of it"]);
    })
    .await;
}

#[tokio::test]
async fn the_first_weights_are_compared_with_the_folder_that_the_engine_was_started_on() {
    bounded(async {
        let folder = published(1.0);
        let engine = with_extension("evenkeel_worker.WeightDigests");
        *engine.shared.root.lock().unwrap() = folder.path().to_str().unwrap().to_owned();
        let service = Service::start(&[&engine]).await;
        *engine.shared.extension.lock().unwrap() = answer(&tensors(folder.path()));
        assert_eq!(prove(&service, 0).await.unwrap().state(), ExactProofState::Equal);
    })
    .await;
}

#[tokio::test]
async fn an_engine_without_the_extension_has_no_exact_proof_and_one_that_answers_nonsense_none_either() {
    bounded(async {
        let folder = published(1.0);
        let plain = FakeEngine::start();
        let service = Service::start(&[&plain]).await;
        updated(&service, 1, folder.path()).await;
        assert_eq!(prove(&service, 1).await, None);

        let other = with_extension("another.Extension");
        *other.shared.extension.lock().unwrap() = Value::Null;
        let service = Service::start(&[&other]).await;
        updated(&service, 1, folder.path()).await;
        assert_eq!(prove(&service, 1).await, None, "an extension of somebody else");

        let engine = with_extension("evenkeel_worker.WeightDigests");
        let service = Service::start(&[&engine]).await;
        updated(&service, 1, folder.path()).await;
        for nonsense in [json!({"tensors": "many"}), json!([1, 2]), json!(null)] {
            *engine.shared.extension.lock().unwrap() = nonsense;
            assert_eq!(prove(&service, 1).await, None);
        }
    })
    .await;
}
