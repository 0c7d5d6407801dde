//! The gRPC service, over real loopback connections.

mod arriving;
mod checkpoints;
mod drawn_again;
mod equal;
mod lag;
mod lease;
mod operations;
mod probes;
mod progress;
mod published;
mod ranks;
mod retention;
mod sampled;
mod score;
mod score_within_step;
mod skipped;
mod start;
mod steps;
mod weights_files;

use std::path::Path;

use evenkeel_learner::{LearnerSettings, PublishOptions, TrainingSettings, bind};
use evenkeel_proto::v1::learner_client::LearnerClient;
use evenkeel_proto::v1::{
    LearnerGetStatusRequest, LoadCheckpointRequest, PublishRequest, SaveCheckpointRequest, ScoreItem, ScoreRequest,
    ScoreResponse, Segment, TrainEvent, TrainGroup, TrainHeader, TrainKind, TrainReport, TrainRequest, TrainSample,
    load_checkpoint_request, train_event, train_request,
};
use evenkeel_rpc::server::{RunningServer, ServerSettings};
use tonic::Status;
use tonic::transport::Channel;

use crate::support::{group, learner, settings};

/// A learner behind its API, with the folder that it writes to.
struct TestService {
    server: RunningServer,
    client: LearnerClient<Channel>,
    hash: String,
    folder: tempfile::TempDir,
}

async fn start() -> TestService {
    start_training(settings()).await
}

async fn start_training(training: TrainingSettings) -> TestService {
    let folder = tempfile::tempdir().unwrap();
    let model = learner(training.clone()).publish(folder.path(), PublishOptions::default()).unwrap().path;
    start_from(folder, &model, training).await
}

async fn start_with(change: impl FnOnce(&mut LearnerSettings)) -> TestService {
    let folder = tempfile::tempdir().unwrap();
    let model = learner(settings()).publish(folder.path(), PublishOptions::default()).unwrap().path;
    start_from_with(folder, &model, settings(), change).await
}

async fn start_from(folder: tempfile::TempDir, model: &Path, training: TrainingSettings) -> TestService {
    start_from_with(folder, model, training, |_| {}).await
}

async fn start_from_with(
    folder: tempfile::TempDir,
    model: &Path,
    training: TrainingSettings,
    change: impl FnOnce(&mut LearnerSettings),
) -> TestService {
    let hash = training.hash();
    let mut settings = LearnerSettings {
        server: ServerSettings::on("127.0.0.1:0"),
        model: model.to_owned(),
        checkpoints: folder.path().join("checkpoints"),
        weights: folder.path().join("weights"),
        training,
        ..LearnerSettings::default()
    };
    change(&mut settings);
    let server = bind(settings).await.unwrap().spawn();
    let channel = Channel::from_shared(server.endpoint().to_owned()).unwrap().connect().await.unwrap();
    let client = LearnerClient::new(channel);
    TestService { server, client, hash, folder }
}

impl TestService {
    fn endpoint(&self) -> String {
        self.server.endpoint().to_owned()
    }

    fn header(&self, kind: TrainKind, step: u64, base_version: u64, count: u32) -> TrainHeader {
        let (groups, examples) = if kind == TrainKind::Grpo { (count, 0) } else { (0, count) };
        TrainHeader {
            run_id: "run".into(),
            step,
            base_version,
            expected_groups: groups,
            expected_examples: examples,
            settings_hash: self.hash.clone(),
            kind: kind.into(),
            traceparent: String::new(),
            seed: 0,
            max_lag: None,
            report_samples: false,
            equal_arithmetic: String::new(),
            min_tokens: 0,
        }
    }

    async fn train(&mut self, header: TrainHeader, parts: Vec<train_request::Kind>) -> Result<Vec<TrainEvent>, Status> {
        let mut requests = vec![TrainRequest { kind: Some(train_request::Kind::Header(header)) }];
        requests.extend(parts.into_iter().map(|kind| TrainRequest { kind: Some(kind) }));
        let mut events = self.client.train(tokio_stream::iter(requests)).await?.into_inner();
        let mut all = Vec::new();
        while let Some(event) = events.message().await? {
            all.push(event);
        }
        Ok(all)
    }

    /// GRPO step number `step` on two groups that depend on it.
    async fn step(&mut self, step: u64, base_version: u64) -> Result<TrainReport, Status> {
        let header = self.header(TrainKind::Grpo, step, base_version, 2);
        let events = self.train(header, vec![message(2 * (step - 1), 0), message(2 * (step - 1) + 1, 1)]).await?;
        Ok(report(&events))
    }

    /// Publishes the current version, with whatever `request` says besides.
    async fn publish(&mut self, request: PublishRequest) {
        self.client.publish(PublishRequest { run_id: "run".into(), ..request }).await.unwrap();
    }

    /// The answers to items, in their order.
    async fn score(&mut self, items: Vec<ScoreItem>) -> Vec<ScoreResponse> {
        let numbered = items.into_iter().enumerate().map(|(number, item)| ScoreItem { id: number.to_string(), ..item });
        let requests: Vec<ScoreRequest> = numbered.map(ScoreRequest::from).collect();
        let mut answers = self.client.score(tokio_stream::iter(requests)).await.unwrap().into_inner();
        let mut all = Vec::new();
        while let Some(answer) = answers.message().await.unwrap() {
            all.push(answer);
        }
        all.sort_by_key(|answer| answer.id.parse::<usize>().unwrap());
        all
    }

    async fn version(&mut self) -> u64 {
        self.client.get_status(LearnerGetStatusRequest::default()).await.unwrap().into_inner().version
    }
}

/// A sequence to score at temperature 1.
fn item() -> ScoreItem {
    ScoreItem {
        prompt_token_ids: vec![2, 3, 9],
        response_token_ids: vec![4, 5, 6, 17, 1],
        temperature: Some(1.0),
        ..ScoreItem::default()
    }
}

fn report(events: &[TrainEvent]) -> TrainReport {
    match &events.last().unwrap().kind {
        Some(train_event::Kind::Report(report)) => report.clone(),
        other => panic!("no report but {other:?}"),
    }
}

/// The tests' own group as a message; what is masked there is injected here.
fn message(seed: u64, index: u32) -> train_request::Kind {
    let group = group(seed, 4);
    let samples =
        group.responses.iter().enumerate().map(|(number, response)| {
            let segments = response.tokens.iter().zip(&response.mask).zip(&response.rollout_logp);
            let segments = segments.map(|((&id, &mask), &logp)| {
                if mask { Segment::sampled(vec![id], vec![logp], 0) } else { Segment::injected(vec![id]) }
            });
            TrainSample {
                sample_id: format!("{seed}/{number}"),
                segments: segments.collect(),
                raw_reward: Some(response.raw_reward),
                correct: response.correct,
                shaped_reward: Some(response.reward),
                valid: true,
                ..TrainSample::default()
            }
        });
    let samples = samples.collect();
    let hinted_prompt_token_ids = group.hinted_prompt.unwrap_or_default();
    let (group_id, prompt_token_ids) = (group.id, group.prompt);
    train_request::Kind::Group(TrainGroup { group_id, index, prompt_token_ids, samples, hinted_prompt_token_ids })
}

fn save(run_id: &str, step: u64) -> SaveCheckpointRequest {
    SaveCheckpointRequest { run_id: run_id.into(), step, ..SaveCheckpointRequest::default() }
}

fn load_path(run_id: &str, path: &Path) -> LoadCheckpointRequest {
    let which = Some(load_checkpoint_request::Which::Path(path.to_str().unwrap().into()));
    LoadCheckpointRequest { run_id: run_id.into(), which, ..Default::default() }
}
