//! A learner and an engine for tests, whose log-probabilities are a plain function of tokens and version.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard};

use evenkeel_proto::BASE_GROUP;
use evenkeel_proto::v1::generation_server::{Generation, GenerationServer};
use evenkeel_proto::v1::learner_server::{Learner, LearnerServer};
use evenkeel_proto::v1::{
    EngineProof, EngineStatus, EngineUpdate, EngineUpdateOutcome, Failure as ItemFailure, FailureCode, FinishReason,
    GenerateItem, GenerateRequest, GenerationGetStatusRequest, GenerationGetStatusResponse, LearnerGetStatusRequest,
    LearnerGetStatusResponse, LoadCheckpointRequest, LoadCheckpointResponse, OperateRequest, OperateResponse,
    ProveWeightsRequest, ProveWeightsResponse, PublishRequest, PublishResponse, ResetRequest, ResetResponse, Rollout,
    SaveCheckpointRequest, SaveCheckpointResponse, ScoreRequest, ScoreResponse, Segment, SequenceScores, SleepRequest,
    SleepResponse, TrainEvent, TrainRequest, UpdateWeightsRequest, UpdateWeightsResponse, WakeUpRequest,
    WakeUpResponse, generate_request, score_request,
};
use evenkeel_rpc::error::Reason;
use evenkeel_rpc::server::{RunningServer, Server, ServerSettings};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

/// The base model, whose adapters do nothing.
pub(super) const BASE: u64 = 10;

/// What the engine does.
#[derive(Debug, Clone, Default)]
pub(super) struct FakeEngine {
    /// How it says that it computes.
    pub(super) arithmetic: String,
    /// Largest noise of a log-probability.
    pub(super) noise: f32,
    /// Whether it keeps the weights that it has, whatever it is given.
    pub(super) keeps: bool,
    /// Whether it samples from the base, whatever it proves.
    pub(super) samples_from_base: bool,
    /// The name under which it samples; empty for its own.
    pub(super) samples_as: String,
    /// What it has.
    pub(super) loaded: u64,
    /// Samples that it was asked for.
    pub(super) sampled: u32,
    /// Calls for proof.
    pub(super) proofs: u64,
    /// Whether the learner has no room for published weights, and others in memory.
    pub(super) learner_has_no_room: bool,
    /// Whether the learner's weights have blown up from that version on.
    pub(super) diverged_from: Option<u64>,
}

#[derive(Debug, Clone)]
pub(super) struct FakeServices {
    pub(super) engine: Arc<Mutex<FakeEngine>>,
}

/// Running servers of a learner and a generation service with one engine.
pub(super) struct RunningFakes {
    pub(super) learner: RunningServer,
    pub(super) generation: RunningServer,
    pub(super) services: FakeServices,
}

impl RunningFakes {
    pub(super) async fn start(engine: FakeEngine) -> Self {
        let services = FakeServices { engine: Arc::new(Mutex::new(engine)) };
        let bind = |name| Server::bind(name, "server", ServerSettings::on("127.0.0.1:0"));
        let learner = bind("learner").await.unwrap().with_service(LearnerServer::new(services.clone())).spawn();
        let generation = bind("generation").await.unwrap();
        let generation = generation.with_service(GenerationServer::new(services.clone())).spawn();
        Self { learner, generation, services }
    }

    pub(super) fn engine(&self) -> MutexGuard<'_, FakeEngine> {
        self.services.engine.lock().unwrap()
    }
}

/// Log-probabilities of all tokens but the first under weights of that version.
fn scores(version: u64, ids: &[u32]) -> Vec<f32> {
    let score = |at: usize| {
        let context = &ids[..=at];
        // Each version adds a step to what the base says.
        let moved: f32 = (BASE + 1..=version).map(|step| 0.01 * wave((step, context))).sum();
        -2.0 - wave((0_u64, context)).abs() + moved
    };
    (1..ids.len()).map(score).collect()
}

/// A number without a pattern, from -1 to 1.
fn wave(of: impl Hash) -> f32 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    (hasher.finish() >> 40) as f32 / (1 << 23) as f32 - 1.0
}

type Answer<T> = Result<Response<T>, Status>;

fn unserved<T>() -> Answer<T> {
    Err(Status::unimplemented("not part of this test"))
}

#[tonic::async_trait]
impl Learner for FakeServices {
    type TrainStream = ReceiverStream<Result<TrainEvent, Status>>;
    type ScoreStream = ReceiverStream<Result<ScoreResponse, Status>>;

    async fn score(&self, request: Request<Streaming<ScoreRequest>>) -> Answer<Self::ScoreStream> {
        let mut requests = request.into_inner();
        let (sender, receiver) = mpsc::channel(8);
        let FakeEngine { learner_has_no_room, diverged_from, .. } = *self.engine.lock().unwrap();
        tokio::spawn(async move {
            while let Ok(Some(ScoreRequest { kind: Some(score_request::Kind::Item(item)) })) = requests.message().await
            {
                let weights = item.weights.unwrap_or_default();
                let version = weights.replaced.map_or(weights.version, |replaced| {
                    if replaced.group == BASE_GROUP { BASE } else { replaced.version }
                });
                let before = item.prompt_token_ids.len() - 1;
                let ids = [item.prompt_token_ids, item.response_token_ids].concat();
                let mut log_probabilities = scores(version, &ids).split_off(before);
                if diverged_from.is_some_and(|first| version >= first) {
                    log_probabilities.fill(-1e6);
                }
                let reason = if item.version.is_some() { Reason::VersionMismatch } else { Reason::NoMemory };
                let failure = learner_has_no_room.then(|| ItemFailure {
                    code: FailureCode::FailedPrecondition.into(),
                    message: "there is no room".to_owned(),
                    reason: reason.to_string(),
                    ..ItemFailure::default()
                });
                let answer =
                    ScoreResponse { id: item.id, log_probabilities, version, failure, ..ScoreResponse::default() };
                if sender.send(Ok(answer)).await.is_err() {
                    break;
                }
            }
        });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    async fn get_status(&self, _: Request<LearnerGetStatusRequest>) -> Answer<LearnerGetStatusResponse> {
        let tensor_groups = vec!["mlp".to_owned(), BASE_GROUP.to_owned()];
        Ok(Response::new(LearnerGetStatusResponse { tensor_groups, ..LearnerGetStatusResponse::default() }))
    }

    async fn train(&self, _: Request<Streaming<TrainRequest>>) -> Answer<Self::TrainStream> {
        unserved()
    }

    async fn publish(&self, _: Request<PublishRequest>) -> Answer<PublishResponse> {
        unserved()
    }

    async fn save_checkpoint(&self, _: Request<SaveCheckpointRequest>) -> Answer<SaveCheckpointResponse> {
        unserved()
    }

    async fn load_checkpoint(&self, _: Request<LoadCheckpointRequest>) -> Answer<LoadCheckpointResponse> {
        unserved()
    }

    async fn reset(&self, _: Request<ResetRequest>) -> Answer<ResetResponse> {
        unserved()
    }

    async fn operate(&self, _: Request<OperateRequest>) -> Answer<OperateResponse> {
        unserved()
    }
}

#[tonic::async_trait]
impl Generation for FakeServices {
    type GenerateStream = ReceiverStream<Result<Rollout, Status>>;

    async fn generate(&self, request: Request<Streaming<GenerateRequest>>) -> Answer<Self::GenerateStream> {
        let mut requests = request.into_inner();
        let (sender, receiver) = mpsc::channel(8);
        let engine = Arc::clone(&self.engine);
        tokio::spawn(async move {
            while let Ok(Some(request)) = requests.message().await {
                let Some(generate_request::Kind::Item(item)) = request.kind else { continue };
                let rollout = sample(&mut engine.lock().unwrap(), item);
                if sender.send(Ok(rollout)).await.is_err() {
                    break;
                }
            }
        });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    async fn update_weights(&self, request: Request<UpdateWeightsRequest>) -> Answer<UpdateWeightsResponse> {
        let version = request.into_inner().weights.unwrap_or_default().version;
        let mut engine = self.engine.lock().unwrap();
        if !engine.keeps {
            engine.loaded = version;
        }
        let outcome = EngineUpdateOutcome::Updated.into();
        let update =
            EngineUpdate { engine: "a".to_owned(), outcome, version: Some(version), ..EngineUpdate::default() };
        Ok(Response::new(UpdateWeightsResponse { engines: vec![update], ..UpdateWeightsResponse::default() }))
    }

    async fn prove_weights(&self, request: Request<ProveWeightsRequest>) -> Answer<ProveWeightsResponse> {
        let mut engine = self.engine.lock().unwrap();
        engine.proofs += 1;
        let noisy = |ids: &Vec<u32>| {
            let noise = |at: usize| engine.noise * wave((engine.proofs, at, ids));
            scores(engine.loaded, ids).into_iter().enumerate().map(|(at, score)| score + noise(at)).collect()
        };
        let sequences = request.into_inner().sequences;
        let scores = sequences
            .iter()
            .map(|sequence| SequenceScores {
                log_probabilities: noisy(&sequence.token_ids),
                ..SequenceScores::default()
            })
            .collect();
        let proof = EngineProof { engine: "a".to_owned(), scores, ..EngineProof::default() };
        Ok(Response::new(ProveWeightsResponse { engines: vec![proof] }))
    }

    async fn get_status(&self, _: Request<GenerationGetStatusRequest>) -> Answer<GenerationGetStatusResponse> {
        let arithmetic = self.engine.lock().unwrap().arithmetic.clone();
        let engine = EngineStatus { name: "a".to_owned(), arithmetic, ..EngineStatus::default() };
        let engines = vec![engine];
        Ok(Response::new(GenerationGetStatusResponse { engines, ..GenerationGetStatusResponse::default() }))
    }

    async fn sleep(&self, _: Request<SleepRequest>) -> Answer<SleepResponse> {
        unserved()
    }

    async fn wake_up(&self, _: Request<WakeUpRequest>) -> Answer<WakeUpResponse> {
        unserved()
    }
}

/// A sample of two tokens, whose version is the one that was asked for whatever the engine has.
fn sample(engine: &mut FakeEngine, item: GenerateItem) -> Rollout {
    engine.sampled += 1;
    let version = item.policy_version.unwrap_or_default();
    let ids = [item.prompt_token_ids, vec![7, 9]].concat();
    let has = if engine.samples_from_base { BASE } else { engine.loaded };
    let log_probabilities = scores(has, &ids).split_off(ids.len() - 3);
    let name = if engine.samples_as.is_empty() { "a" } else { &engine.samples_as };
    Rollout {
        sample_id: item.sample_id,
        segments: vec![Segment::sampled(vec![7, 9], log_probabilities, version)],
        finish_reason: FinishReason::Length.into(),
        engine: name.to_owned(),
        ..Rollout::default()
    }
}
