//! Several runs and one learner.

use std::path::Path;
use std::time::Duration;

use evenkeel_proto::v1::{
    LearnerGetStatusRequest, LoadCheckpointRequest, PublishRequest, SaveCheckpointRequest, load_checkpoint_request,
};
use tonic::Code;

use super::{load_path, save, start_with};

#[tokio::test]
async fn calls_that_change_the_learner_are_refused_to_runs_without_the_lease() {
    let mut service = start_with(|settings| settings.lease = Duration::from_secs(600)).await;
    service.step(1, 0).await.unwrap();
    service.client.save_checkpoint(save("run", 1)).await.unwrap();
    let publish = PublishRequest { run_id: "other".into(), ..PublishRequest::default() };
    let status = service.client.publish(publish).await.unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition, "{status}");
    let status = service.client.save_checkpoint(save("other", 1)).await.unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition, "{status}");
    let load = LoadCheckpointRequest { run_id: "other".into(), which: None, ..Default::default() };
    let status = service.client.load_checkpoint(load).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    assert!(status.message().contains("the learner serves run `run`"), "{status}");
    for run_id in ["", "a b", "../run", "..", ".", &"x".repeat(1 << 20)] {
        let status = service.client.save_checkpoint(save(run_id, 1)).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        assert!(status.message().len() < 300, "{} bytes", status.message().len());
    }
}

#[tokio::test]
async fn runs_that_share_a_learner_neither_overwrite_nor_delete_checkpoints_of_each_other() {
    let mut service = start_with(|settings| settings.lease = Duration::ZERO).await;
    let keep = |run_id: &str, step: u64, state: &str| SaveCheckpointRequest {
        client_state: state.as_bytes().to_vec(),
        keep: Some(1),
        ..save(run_id, step)
    };
    // Untrained weights have no owner.
    let first = service.client.save_checkpoint(keep("first", 0, "of the first")).await.unwrap().into_inner();
    service.client.save_checkpoint(keep("second", 0, "of the second")).await.unwrap();
    for (run_id, state) in [("first", "of the first"), ("second", "of the second")] {
        let load = LoadCheckpointRequest { run_id: run_id.into(), which: None, ..Default::default() };
        let loaded = service.client.load_checkpoint(load).await.unwrap().into_inner();
        assert_eq!(String::from_utf8(loaded.client_state).unwrap(), state);
    }
    let path = first.checkpoint.unwrap().path;
    assert!(path.ends_with("checkpoints/first/step-000000"), "{path}");
}

#[tokio::test]
async fn a_run_that_takes_over_a_lapsed_lease_cannot_load_checkpoints_of_the_previous_run() {
    let mut service = start_with(|settings| settings.lease = Duration::ZERO).await;
    service.step(1, 0).await.unwrap();
    let saved = service.client.save_checkpoint(save("run", 1)).await.unwrap().into_inner().checkpoint.unwrap();
    let status = service.client.load_checkpoint(load_path("other", Path::new(&saved.path))).await.unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition);
    assert!(status.message().contains("is of run `run`"), "{status}");
    for which in [None, Some(load_checkpoint_request::Which::Step(1))] {
        let request = LoadCheckpointRequest { run_id: "other".into(), which, ..Default::default() };
        let status = service.client.load_checkpoint(request).await.unwrap_err();
        assert_eq!(status.code(), Code::NotFound, "{status}");
    }
    let status = service.client.get_status(LearnerGetStatusRequest::default()).await.unwrap().into_inner();
    assert_eq!((status.run_id.as_str(), status.version), ("run", 1));
}
