//! Updates with a loss or gradient that is not finite.

use candle_core::Device;
use evenkeel_learner::{Learner, PublishOptions, TrainingSettings};
use evenkeel_model::Parameters;
use evenkeel_proto::v1::{SupervisedBatch, SupervisedExample, TrainKind, train_request};
use tonic::Code;

use super::start_from;
use crate::support::{config, learner, settings};

#[tokio::test]
async fn the_batch_of_a_skipped_update_is_written_and_too_many_skips_in_a_row_fail_the_step() {
    let folder = tempfile::tempdir().unwrap();
    let settings = TrainingSettings { max_skipped_updates: 2, ..settings() };
    let healthy = learner(settings.clone());
    let names: Vec<String> = healthy.parameters().specs().iter().map(|spec| spec.name.clone()).collect();
    let mut values = healthy.parameters().values().to_vec();
    // Finite weights, with which the logits are not.
    let norm = names.iter().position(|name| name == "model.norm.weight").unwrap();
    values[norm] = (values[norm].ones_like().unwrap() * 3e38).unwrap();
    let parameters = Parameters::new(&config(), values, &Device::Cpu).unwrap();
    let poisoned = Learner::new(config(), parameters, settings.clone()).unwrap();
    let model = poisoned.publish(folder.path(), PublishOptions::default()).unwrap().path;
    let mut service = start_from(folder, &model, settings).await;

    let report = service.step(1, 0).await.unwrap();
    assert!(report.skipped && report.skip_reason.starts_with("non_finite"), "{report:?}");
    let path = service.folder.path().join("checkpoints/skipped/run-step-000001.jsonl");
    assert_eq!(std::fs::read_to_string(path).unwrap().lines().count(), 2);
    let error = service.step(2, 1).await.unwrap_err();
    assert_eq!(error.code(), Code::DataLoss);
    assert!(error.message().contains("allowed: fewer than max_skipped_updates = 2"), "{}", error.message());
    assert!(service.folder.path().join("checkpoints/skipped/run-step-000002.jsonl").exists());

    let example =
        SupervisedExample { example_id: "e".into(), prompt_token_ids: vec![2, 3], response_token_ids: vec![4, 1] };
    let batch = train_request::Kind::Examples(SupervisedBatch { examples: vec![example] });
    let error = service.train(service.header(TrainKind::Supervised, 2, 1, 1), vec![batch]).await.unwrap_err();
    assert_eq!(error.code(), Code::DataLoss, "{error}");
    let path = service.folder.path().join("checkpoints/skipped/run-supervised-step-000002.jsonl");
    assert_eq!(std::fs::read_to_string(path).unwrap(), "{\"prompt\":[2,3],\"response\":[4,1]}\n");
    assert_eq!(service.version().await, 1);
}
