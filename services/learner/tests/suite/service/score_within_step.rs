//! Scoring while a step waits for its groups.

use std::path::Path;
use std::time::Duration;

use evenkeel_learner::{Example, TrainingSettings};
use evenkeel_proto::v1::{
    LearnerGetStatusRequest, LearnerState, PublishRequest, SamplingDistribution, ScoreItem, ScoreResponse,
    ScoreWeights, TrainKind, TrainRequest, train_event, train_request,
};

use super::{item, message, save, start_training, start_with};
use crate::support::{bits, group, learner, settings};

/// Plain, published and sampled: whatever can be asked for.
fn asked() -> Vec<ScoreItem> {
    let weights = Some(ScoreWeights::default());
    let rounded = Some(ScoreWeights { rounded_to: "BF16".into(), ..ScoreWeights::default() });
    let sampling = Some(SamplingDistribution { top_p: Some(0.9), ..SamplingDistribution::default() });
    vec![
        item(),
        ScoreItem { weights: weights.clone(), ..item() },
        ScoreItem { weights, sampling, ..item() },
        ScoreItem { weights: rounded, ..item() },
    ]
}

fn but_for_times(mut responses: Vec<ScoreResponse>) -> Vec<ScoreResponse> {
    responses.iter_mut().for_each(|response| response.compute_seconds = 0.0);
    responses
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn items_are_scored_while_a_step_waits_for_its_last_group_and_change_no_bit_of_it() {
    let mut training = TrainingSettings { mini_batch_groups: 2, ..settings() };
    training.compute.threads = 1;
    training.compute.micro_batch_tokens = 8;
    let mut service = start_training(training.clone()).await;
    service.publish(PublishRequest::default()).await;
    let before = but_for_times(service.score(asked()).await);
    let (parts, requests) = tokio::sync::mpsc::channel(8);
    let requests = tokio_stream::wrappers::ReceiverStream::new(requests);
    let header = train_request::Kind::Header(service.header(TrainKind::Grpo, 1, 0, 4));
    parts.send(TrainRequest { kind: Some(header) }).await.unwrap();
    let mut events = service.client.train(requests).await.unwrap().into_inner();
    for index in 0..4 {
        // Before each group, and after passes of the earlier ones.
        let within = tokio::time::timeout(Duration::from_secs(120), service.score(asked())).await;
        assert_eq!(but_for_times(within.expect("a waiting step does not keep items waiting")), before);
        let status = service.client.get_status(LearnerGetStatusRequest::default()).await.unwrap().into_inner();
        assert!(matches!(status.state(), LearnerState::Training | LearnerState::Scoring) && status.version == 0);
        parts.send(TrainRequest { kind: Some(message(index.into(), index)) }).await.unwrap();
        loop {
            let event = events.message().await.unwrap().unwrap().kind;
            if matches!(event, Some(train_event::Kind::Progress(at)) if at.received == index + 1) {
                break;
            }
        }
    }
    drop(parts);
    while events.message().await.unwrap().is_some() {}
    let after = service.score(vec![item()]).await;
    assert_eq!(after[0].version, 1);
    let saved = service.client.save_checkpoint(save("run", 1)).await.unwrap().into_inner().checkpoint.unwrap();

    let mut undisturbed = learner(training.clone());
    undisturbed.train((0..4).map(|seed| group(seed, 4))).unwrap();
    let mut disturbed = learner(training);
    disturbed.restore_checkpoint(Path::new(&saved.path)).unwrap();
    assert_eq!(bits(&disturbed), bits(&undisturbed));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_calls_wait_for_the_step_while_items_are_scored() {
    let mut service = start_with(|_| {}).await;
    let (parts, requests) = tokio::sync::mpsc::channel(8);
    let requests = tokio_stream::wrappers::ReceiverStream::new(requests);
    let header = train_request::Kind::Header(service.header(TrainKind::Supervised, 1, 0, 1));
    parts.send(TrainRequest { kind: Some(header) }).await.unwrap();
    let mut events = service.client.train(requests).await.unwrap().into_inner();
    let mut client = service.client.clone();
    let publish = tokio::spawn(async move {
        let request = PublishRequest { run_id: "run".into(), ..PublishRequest::default() };
        client.publish(request).await.unwrap().into_inner().weights.unwrap().version
    });
    assert!(service.score(vec![item()]).await[0].failure.is_none());
    assert!(!publish.is_finished());
    let example = Example { prompt: vec![2, 3], response: vec![4, 1] };
    let example = evenkeel_proto::v1::SupervisedExample {
        prompt_token_ids: example.prompt,
        response_token_ids: example.response,
        ..Default::default()
    };
    let batch = evenkeel_proto::v1::SupervisedBatch { examples: vec![example] };
    parts.send(TrainRequest { kind: Some(train_request::Kind::Examples(batch)) }).await.unwrap();
    drop(parts);
    while events.message().await.unwrap().is_some() {}
    assert_eq!(publish.await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn items_do_not_keep_a_silent_step_alive() {
    let mut service = start_with(|settings| settings.step_idle = Duration::from_millis(300)).await;
    let header = train_request::Kind::Header(service.header(TrainKind::Grpo, 1, 0, 2));
    let requests = tokio_stream::iter([TrainRequest { kind: Some(header) }]);
    let endless = tokio_stream::StreamExt::chain(requests, tokio_stream::pending());
    let mut events = service.client.train(endless).await.unwrap().into_inner();
    let ended = tokio::spawn(async move {
        loop {
            match events.message().await {
                Ok(Some(_)) => {}
                Ok(None) => return None,
                Err(status) => return Some(status),
            }
        }
    });
    let scoring = async {
        while !ended.is_finished() {
            assert!(service.score(vec![item()]).await[0].failure.is_none());
        }
    };
    tokio::time::timeout(Duration::from_secs(120), scoring).await.expect("it is dropped");
    assert!(ended.await.unwrap().unwrap().message().contains("step_idle"));
}
