//! Progress, metrics and the end of silent streams.

use std::path::Path;
use std::time::Duration;

use evenkeel_learner::TrainingSettings;
use evenkeel_proto::v1::{TrainKind, TrainPhase, TrainRequest, train_event, train_request};
use tonic::Code;

use super::{message, report, save, start, start_training, start_with};
use crate::support::{bits, group, learner, settings};

#[tokio::test]
async fn progress_counts_groups_whose_gradient_is_summed_not_groups_received() {
    let mut settings = TrainingSettings { mini_batch_groups: 2, ..settings() };
    // No pass is worth it before the last group.
    settings.compute.micro_batch_tokens = 100_000;
    let mut service = start_training(settings).await;
    let groups = (0..4).map(|index| message(index.into(), index)).collect();
    let events = service.train(service.header(TrainKind::Grpo, 1, 0, 4), groups).await.unwrap();
    let progress = events.iter().filter_map(|event| match &event.kind {
        Some(train_event::Kind::Progress(progress)) => Some(progress),
        _ => None,
    });
    for at in progress.clone().filter(|at| at.phase() == TrainPhase::Receiving) {
        assert_eq!((at.accumulated, at.trainable_tokens, at.expected), (0, 0, 4), "{at:?}");
    }
    let progress: Vec<_> = progress.collect();
    assert!(progress.windows(2).all(|pair| pair[0].accumulated <= pair[1].accumulated), "{progress:?}");
    assert!(progress.iter().any(|at| at.phase() != TrainPhase::Receiving));
    assert_eq!(report(&events).groups, 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn passes_run_while_the_last_group_is_still_being_sampled_and_when_groups_arrive_changes_no_bit() {
    let mut training = TrainingSettings { mini_batch_groups: 2, ..settings() };
    training.compute.threads = 1;
    training.compute.micro_batch_tokens = 8;
    let mut service = start_training(training.clone()).await;
    let (parts, requests) = tokio::sync::mpsc::channel(8);
    let header = service.header(TrainKind::Grpo, 1, 0, 4);
    let groups = (0..4).map(|index| message(index.into(), index));
    let mut all = std::iter::once(train_request::Kind::Header(header)).chain(groups);
    for part in all.by_ref().take(4) {
        parts.send(TrainRequest { kind: Some(part) }).await.unwrap();
    }
    let requests = tokio_stream::wrappers::ReceiverStream::new(requests);
    let mut events = service.client.train(requests).await.unwrap().into_inner();
    // The last group is not sent before the first two have been through a backward pass.
    let begun = async {
        while let Some(event) = events.message().await.unwrap() {
            if matches!(event.kind, Some(train_event::Kind::Progress(at)) if at.accumulated >= 2) {
                return;
            }
        }
        panic!("the step has ended without its last group");
    };
    tokio::time::timeout(Duration::from_secs(120), begun).await.expect("passes do not wait for the last group");
    for part in all {
        parts.send(TrainRequest { kind: Some(part) }).await.unwrap();
    }
    drop(parts);
    while events.message().await.unwrap().is_some() {}
    let saved = service.client.save_checkpoint(save("run", 1)).await.unwrap().into_inner().checkpoint.unwrap();

    let mut at_once = learner(training.clone());
    at_once.train((0..4).map(|seed| group(seed, 4))).unwrap();
    let mut streamed = learner(training);
    streamed.restore_checkpoint(Path::new(&saved.path)).unwrap();
    assert_eq!(bits(&streamed), bits(&at_once));
}

#[tokio::test]
async fn a_step_is_counted_and_timed_by_phase() {
    let metrics = evenkeel_telemetry::install_metrics().unwrap();
    let mut service = start().await;
    let timings = service.step(1, 0).await.unwrap().timings.unwrap();
    assert!(timings.gradient_us > 0 && timings.optimizer_us > 0, "{timings:?}");
    assert_eq!(timings.score_us, 0, "one update with recomputed log-probabilities needs no pass of its own");
    assert!(timings.total_us >= timings.gradient_us + timings.optimizer_us, "{timings:?}");
    let text = metrics.render();
    for metric in [
        r#"evenkeel_training_steps_total{kind="grpo",outcome="updated"}"#,
        r#"evenkeel_training_step_seconds_count{kind="grpo",phase="gradient"}"#,
        r#"evenkeel_training_step_seconds_count{kind="grpo",phase="total"}"#,
        r#"evenkeel_training_tokens_total{kind="grpo",tokens="trainable"}"#,
        r#"evenkeel_training_micro_batches_total{kind="grpo"}"#,
        "evenkeel_learner_version",
    ] {
        assert!(text.contains(metric), "{metric} is not in {text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_whose_stream_falls_silent_is_dropped_and_frees_the_learner() {
    let mut service = start_with(|settings| settings.step_idle = Duration::from_millis(300)).await;
    // One that sends its header alone, one that stops after its first group.
    for parts in [0, 1] {
        let header = service.header(TrainKind::Grpo, 1, 0, 2);
        let mut requests = vec![TrainRequest { kind: Some(train_request::Kind::Header(header)) }];
        requests.extend((0..parts).map(|_| TrainRequest { kind: Some(message(0, 0)) }));
        let endless = tokio_stream::StreamExt::chain(tokio_stream::iter(requests), tokio_stream::pending());
        let mut events = service.client.train(endless).await.unwrap().into_inner();
        let end = async {
            loop {
                match events.message().await {
                    Ok(Some(_)) => {}
                    other => return other.map(drop),
                }
            }
        };
        let status = tokio::time::timeout(Duration::from_secs(120), end).await.expect("it is dropped").unwrap_err();
        assert_eq!(status.code(), Code::Unavailable);
        assert!(status.message().contains("no part of the step arrived for step_idle"), "{status}");
    }
    assert_eq!(service.version().await, 0);
    assert_eq!(service.step(1, 0).await.unwrap().version, 1);
}
