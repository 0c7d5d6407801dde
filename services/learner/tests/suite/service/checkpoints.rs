//! Saving and loading checkpoints.

use std::path::Path;
use std::time::Duration;

use evenkeel_proto::v1::{
    LearnerGetStatusRequest, LoadCheckpointRequest, PublishRequest, ResetRequest, RunWrites, SaveCheckpointRequest,
    TrainKind, TrainReport, load_checkpoint_request, train_event,
};
use tonic::Code;

use super::{load_path, message, report, save, start, start_with};

#[tokio::test]
async fn the_newest_intact_checkpoint_is_loaded_the_oldest_are_deleted_and_other_runs_are_refused() {
    let mut service = start().await;
    for step in 0..4 {
        service.step(step + 1, step).await.unwrap();
        let client_state = format!("after {step}").into_bytes();
        let save = SaveCheckpointRequest {
            run_id: "run".into(),
            step: step + 1,
            client_state,
            keep: Some(2),
            ..SaveCheckpointRequest::default()
        };
        service.client.save_checkpoint(save).await.unwrap();
    }
    let kept = std::fs::read_dir(service.folder.path().join("checkpoints/run")).unwrap().count();
    assert_eq!(kept, 2);
    let load = |run_id: &str| LoadCheckpointRequest { run_id: run_id.into(), which: None, ..Default::default() };
    let loaded = service.client.load_checkpoint(load("run")).await.unwrap().into_inner();
    assert_eq!((loaded.client_state, loaded.checkpoint.unwrap().version), (b"after 3".to_vec(), 4));
    let error = service.client.load_checkpoint(load("other")).await.unwrap_err();
    assert_eq!(error.code(), Code::Unavailable, "{error}");
    // The newest is damaged: the previous one is loaded.
    std::fs::write(service.folder.path().join("checkpoints/run/step-000004/model.safetensors"), b"broken").unwrap();
    let loaded = service.client.load_checkpoint(load("run")).await.unwrap().into_inner();
    assert_eq!((loaded.client_state, service.version().await), (b"after 2".to_vec(), 3));
    // Training continues from there.
    assert_eq!(service.step(4, 3).await.unwrap().version, 4);
}

#[tokio::test]
async fn a_status_names_the_disk_that_does_not_hold_what_a_run_keeps() {
    let mut service = start().await;
    let checkpoints = service.folder.path().join("checkpoints").display().to_string();
    let run_directory = service.folder.path().display().to_string();
    let mut full_disks = async |writes: Option<RunWrites>| {
        let request = LearnerGetStatusRequest { writes };
        service.client.get_status(request).await.unwrap().into_inner().full_disks
    };
    assert_eq!(full_disks(None).await, Vec::<String>::new(), "nothing is said that was not asked for");
    let fits = RunWrites { checkpoints: Some(3), versions: Some(4), run_directory, ..RunWrites::default() };
    assert_eq!(full_disks(Some(fits.clone())).await, Vec::<String>::new());
    let elsewhere = RunWrites { rollouts: 1 << 60, run_directory: "/of/another/pod".into(), ..fits.clone() };
    assert_eq!(full_disks(Some(elsewhere)).await, Vec::<String>::new(), "its own process looks at that disk");
    for (planted, words) in [
        (RunWrites { checkpoints: Some(1 << 40), ..fits.clone() }, "1099511627776 at once"),
        (RunWrites { versions: Some(1 << 40), ..fits.clone() }, "1099511627776 at once"),
        (RunWrites { rollouts: 1 << 60, ..fits.clone() }, "rollouts of 1048576.0 TiB"),
    ] {
        let full = full_disks(Some(planted)).await;
        let [sentence] = &full[..] else { panic!("{full:?}") };
        assert!(sentence.starts_with(&format!("the disk of {checkpoints} has ")), "{sentence}");
        assert!(sentence.contains(" free, needed: ") && sentence.contains(words), "{sentence}");
    }
}

#[tokio::test]
async fn a_reset_learner_does_its_first_steps_again_to_the_bit() {
    let mut service = start().await;
    let reset = |run_id: &str| ResetRequest { run_id: run_id.into() };
    // Nothing was trained: nothing to do.
    service.client.reset(reset("run")).await.unwrap();
    let bits = |report: TrainReport| TrainReport { timings: None, ..report };
    let first = [service.step(1, 0).await.unwrap(), service.step(2, 1).await.unwrap()].map(bits);
    let publish = || PublishRequest { run_id: "run".into(), ..PublishRequest::default() };
    let weights = service.client.publish(publish()).await.unwrap().into_inner().weights;
    service.step(3, 2).await.unwrap();

    service.client.reset(reset("run")).await.unwrap();
    let status = service.client.get_status(LearnerGetStatusRequest::default()).await.unwrap().into_inner();
    assert_eq!((status.version, status.last_grpo_step, status.run_id.as_str()), (0, None, "run"));
    // No report is answered that was stored for weights that are gone.
    let header = service.header(TrainKind::Grpo, 1, 0, 2);
    let events = service.train(header, vec![message(0, 0), message(1, 1)]).await.unwrap();
    assert!(matches!(&events[0].kind, Some(train_event::Kind::Accepted(accepted)) if !accepted.already_done));
    let again = [report(&events), service.step(2, 1).await.unwrap()].map(bits);
    assert_eq!(again, first);
    let published = service.client.publish(publish()).await.unwrap().into_inner();
    assert_eq!((published.weights, published.already_published), (weights, false));
}

#[tokio::test]
async fn a_reset_of_another_run_or_without_the_initial_model_is_refused() {
    let mut service = start_with(|settings| settings.lease = Duration::from_secs(600)).await;
    service.step(1, 0).await.unwrap();
    let mut client = service.client.clone();
    let mut reset = async |run_id: &str| client.reset(ResetRequest { run_id: run_id.into() }).await;
    let status = reset("other").await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status}");
    assert_eq!(reset("../run").await.unwrap_err().code(), Code::InvalidArgument);
    let model = service.folder.path().join("step-0/model.safetensors");
    std::fs::remove_file(&model).unwrap();
    let status = reset("run").await.unwrap_err();
    assert!(status.message().contains("model.safetensors"), "{status}");
    // Nothing has changed, and training goes on.
    assert_eq!(service.step(2, 1).await.unwrap().version, 2);
}

#[tokio::test]
async fn step_numbers_that_were_never_reached_are_refused_and_delete_nothing() {
    let mut service = start().await;
    for step in 0..2 {
        service.step(step + 1, step).await.unwrap();
        service.client.save_checkpoint(save("run", step + 1)).await.unwrap();
    }
    for step in [u64::MAX, u64::MAX - 1, 3, 1, 0] {
        let status = service.client.save_checkpoint(save("run", step)).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        assert!(status.message().contains("allowed: 2, the GRPO steps that the learner has done"), "{status}");
    }
    let mut kept: Vec<_> = std::fs::read_dir(service.folder.path().join("checkpoints/run"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    kept.sort();
    assert_eq!(kept, ["step-000001", "step-000002"]);
    let far = service.step(u64::MAX, 2).await.unwrap_err();
    assert!(far.message().contains("allowed: 1 to base_version + 1, where base_version is 2"), "{far}");
    let many = service.header(TrainKind::Supervised, 1, 2, u32::MAX);
    let many = service.train(many, Vec::new()).await.unwrap_err();
    assert!(many.message().contains("expected_examples is 4294967295"), "{many}");
    let large = SaveCheckpointRequest { client_state: vec![0; (1 << 20) + 1], ..save("run", 2) };
    let large = service.client.save_checkpoint(large).await.unwrap_err();
    assert!(large.message().contains("client_state is 1048577 bytes"), "{large}");
}

#[tokio::test]
async fn checkpoints_outside_the_checkpoint_folder_are_refused() {
    let mut service = start().await;
    service.step(1, 0).await.unwrap();
    let saved = service.client.save_checkpoint(save("run", 1)).await.unwrap().into_inner().checkpoint.unwrap();
    let root = service.folder.path().to_owned();
    let inside = service.folder.path().join("checkpoints");
    let outside = root.join("outside");
    std::fs::create_dir(&outside).unwrap();
    for file in std::fs::read_dir(&saved.path).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), outside.join(file.file_name())).unwrap();
    }
    std::os::unix::fs::symlink(&outside, inside.join("link")).unwrap();
    std::os::unix::fs::symlink(&outside, inside.join("run/step-000009")).unwrap();
    let linked = inside.join("step-000008");
    std::fs::create_dir(&linked).unwrap();
    for file in std::fs::read_dir(&outside).unwrap() {
        let file = file.unwrap();
        std::os::unix::fs::symlink(file.path(), linked.join(file.file_name())).unwrap();
    }
    let paths = [outside, inside.join("../outside"), inside.join("link"), linked, inside.clone()];
    for path in paths {
        let status = service.client.load_checkpoint(load_path("run", &path)).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{}: {status}", path.display());
        assert!(status.message().contains("allowed: a checkpoint below"), "{status}");
    }
    let by_step = LoadCheckpointRequest {
        run_id: "run".into(),
        which: Some(load_checkpoint_request::Which::Step(9)),
        ..Default::default()
    };
    assert_eq!(service.client.load_checkpoint(by_step).await.unwrap_err().code(), Code::InvalidArgument);
    service.client.load_checkpoint(load_path("run", Path::new(&saved.path))).await.unwrap();
}
