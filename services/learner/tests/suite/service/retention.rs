//! Which checkpoints and published weights are kept.

use evenkeel_learner::verify_published;
use evenkeel_model_folder::{ConfigFile, Folder, HEAD, HeadForm, tensor_shapes};
use evenkeel_proto::v1::{LoadCheckpointRequest, PublishRequest, SaveCheckpointRequest};
use tonic::Code;

use super::{save, start};

#[tokio::test]
async fn publishing_is_idempotent_by_version_and_keeps_the_newest() {
    let mut service = start().await;
    for step in 0..3 {
        let publish =
            PublishRequest { run_id: "run".into(), version: Some(step), keep: Some(2), ..PublishRequest::default() };
        let first = service.client.publish(publish.clone()).await.unwrap().into_inner();
        let again = service.client.publish(publish).await.unwrap().into_inner();
        assert_eq!((first.already_published, again.already_published), (false, true));
        assert_eq!(first.weights, again.weights);
        first.weights.unwrap().validate().unwrap();
        service.step(step + 1, step).await.unwrap();
    }
    let kept = std::fs::read_dir(service.folder.path().join("weights")).unwrap().count();
    assert_eq!(kept, 2);
    let stale = PublishRequest { run_id: "run".into(), version: Some(1), keep: None, ..PublishRequest::default() };
    assert_eq!(service.client.publish(stale).await.unwrap_err().code(), Code::FailedPrecondition);
}

#[tokio::test]
async fn a_version_whose_folder_was_removed_is_published_again() {
    let mut service = start().await;
    let publish = PublishRequest { run_id: "run".into(), ..PublishRequest::default() };
    service.client.publish(publish.clone()).await.unwrap();
    let folder = service.folder.path().join("weights/step-0");
    std::fs::remove_dir_all(&folder).unwrap();
    let again = service.client.publish(publish).await.unwrap().into_inner();
    assert!(!again.already_published);
    verify_published(&folder).unwrap();
}

#[tokio::test]
async fn the_head_of_a_tied_model_is_written_out_where_engines_need_it_and_not_otherwise() {
    let mut service = start().await;
    let mut published = Vec::new();
    for write_out_head in [false, true, true, false] {
        let request = PublishRequest { run_id: "run".into(), write_out_head, ..PublishRequest::default() };
        let response = service.client.publish(request).await.unwrap().into_inner();
        let folder = service.folder.path().join("weights/step-0");
        let config = ConfigFile::read(&Folder::new(&folder)).unwrap();
        let has_head = tensor_shapes(&Folder::new(&folder)).unwrap().contains_key(HEAD);
        published.push((response.already_published, HeadForm::of(config.json()), has_head));
        verify_published(&folder).unwrap();
    }
    let tied = HeadForm::Tied;
    let written_out = HeadForm::WrittenOut;
    let expected = [(false, tied, false), (false, written_out, true), (true, written_out, true), (false, tied, false)];
    assert_eq!(published, expected);
}

#[tokio::test]
async fn versions_and_steps_that_the_caller_names_are_kept_besides_the_newest() {
    let mut service = start().await;
    for step in 0..6 {
        let publish = PublishRequest { keep: Some(2), keep_versions: vec![1], ..PublishRequest::default() };
        service.client.publish(PublishRequest { run_id: "run".into(), version: Some(step), ..publish }).await.unwrap();
        let save = SaveCheckpointRequest { keep: Some(2), keep_steps: vec![1, 77], ..save("run", step) };
        service.client.save_checkpoint(save).await.unwrap();
        service.step(step + 1, step).await.unwrap();
    }
    let kept = |part: &str| {
        let entries = std::fs::read_dir(service.folder.path().join(part)).unwrap();
        let name = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
        let number = |name: String| name.trim_start_matches("step-").parse::<u64>().unwrap();
        entries.map(|entry| number(name(entry))).collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(kept("weights").into_iter().collect::<Vec<_>>(), [1, 4, 5]);
    assert_eq!(kept("checkpoints/run").into_iter().collect::<Vec<_>>(), [1, 4, 5]);
}

#[tokio::test]
async fn nothing_is_deleted_where_keep_is_absent_or_0() {
    let mut service = start().await;
    for step in 0..5 {
        let keep = if step % 2 == 0 { Some(0) } else { None };
        let publish = PublishRequest { run_id: "run".into(), version: Some(step), keep, ..PublishRequest::default() };
        service.client.publish(publish).await.unwrap();
        let save = SaveCheckpointRequest { run_id: "run".into(), step, keep, ..SaveCheckpointRequest::default() };
        service.client.save_checkpoint(save).await.unwrap();
        service.step(step + 1, step).await.unwrap();
    }
    let kept = |part: &str| std::fs::read_dir(service.folder.path().join(part)).unwrap().count();
    assert_eq!((kept("weights"), kept("checkpoints/run")), (5, 5));
    let one = PublishRequest { run_id: "run".into(), version: None, keep: Some(1), ..PublishRequest::default() };
    let refused = service.client.publish(one).await.unwrap_err();
    assert!(refused.message().contains("keep is 1") && refused.message().contains("at least 2"), "{refused}");
}

#[tokio::test]
async fn after_a_return_to_an_older_checkpoint_weights_of_later_versions_are_deleted_first() {
    let mut service = start().await;
    let publish = |version| PublishRequest {
        run_id: "run".into(),
        version: Some(version),
        keep: Some(2),
        ..PublishRequest::default()
    };
    let save = SaveCheckpointRequest { run_id: "run".into(), ..SaveCheckpointRequest::default() };
    service.client.save_checkpoint(save).await.unwrap();
    for step in 0..3 {
        service.step(step + 1, step).await.unwrap();
        service.client.publish(publish(step + 1)).await.unwrap();
    }
    let load = LoadCheckpointRequest { run_id: "run".into(), which: None, ..Default::default() };
    service.client.load_checkpoint(load).await.unwrap();
    service.client.publish(publish(0)).await.unwrap();
    let folder = service.folder.path().join("weights");
    let kept = [0, 1, 2, 3].map(|version| folder.join(format!("step-{version}")).exists());
    assert_eq!(kept, [true, false, false, true]);
}
