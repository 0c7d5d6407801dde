//! A learner that takes as long as a step does once its groups are here.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use evenkeel_learner::TrainingSettings;
use evenkeel_proto::v1::learner_server::{Learner, LearnerServer};
use evenkeel_proto::v1::{
    CheckpointRef, LearnerGetStatusRequest, LearnerGetStatusResponse, LoadCheckpointRequest, LoadCheckpointResponse,
    ModelInfo, OperateRequest, OperateResponse, PublishRequest, PublishResponse, ResetRequest, ResetResponse,
    SampleReport, SaveCheckpointRequest, SaveCheckpointResponse, ScoreRequest, ScoreResponse, TrainAccepted,
    TrainEvent, TrainGroup, TrainReport, TrainRequest, WeightsRef, train_request,
};
use evenkeel_rpc::server::Server;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

#[derive(Clone, Default)]
struct Position {
    run_id: String,
    version: u64,
}

struct SimulatedLearner {
    step: Duration,
    model: String,
    position: std::sync::Arc<Mutex<Position>>,
}

/// Adds it to a server.
pub(crate) fn serve(server: Server, model: &str, step: Duration) -> Server {
    let most = server.max_message();
    let learner = SimulatedLearner { step, model: model.to_owned(), position: std::sync::Arc::default() };
    server.with_service(LearnerServer::new(learner).max_decoding_message_size(most).max_encoding_message_size(most))
}

impl SimulatedLearner {
    fn position(&self) -> MutexGuard<'_, Position> {
        self.position.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes the groups of a step, and as long as it takes.
async fn step(
    mut requests: Streaming<TrainRequest>,
    events: &tokio::sync::mpsc::Sender<Result<TrainEvent, Status>>,
    position: &Mutex<Position>,
    takes: Duration,
) -> Result<(), Status> {
    let first = requests.next().await.transpose()?.and_then(|request| request.kind);
    let Some(train_request::Kind::Header(header)) = first else { return Err(Status::invalid_argument("no header")) };
    let accepted = TrainAccepted { run_id: header.run_id.clone(), step: header.step, already_done: false };
    let _ = events.send(Ok(accepted.into())).await;
    let mut groups: Vec<TrainGroup> = Vec::new();
    while let Some(request) = requests.next().await {
        if let Some(train_request::Kind::Group(group)) = request?.kind {
            groups.push(group);
        }
    }
    tokio::time::sleep(takes).await;
    let samples: usize = groups.iter().map(|group| group.samples.len()).sum();
    let segments = groups.iter().flat_map(|group| &group.samples).flat_map(|sample| &sample.segments);
    let response_tokens = segments.map(|segment| segment.token_ids.len() as u64).sum();
    let report = SampleReport { weight: 1.0 / samples.max(1) as f64, trained: true, ..SampleReport::default() };
    let report = TrainReport {
        run_id: header.run_id.clone(),
        step: header.step,
        kind: header.kind,
        base_version: header.base_version,
        version: header.base_version + 1,
        gradient_norm: Some(1.0),
        learning_rate: 1e-6,
        groups: groups.len() as u32,
        samples: samples as u32,
        response_tokens,
        sample_reports: if header.report_samples { vec![report; samples] } else { Vec::new() },
        ..TrainReport::default()
    };
    *position.lock().unwrap_or_else(PoisonError::into_inner) =
        Position { run_id: header.run_id, version: report.version };
    let _ = events.send(Ok(report.into())).await;
    Ok(())
}

#[tonic::async_trait]
impl Learner for SimulatedLearner {
    type TrainStream = ReceiverStream<Result<TrainEvent, Status>>;
    type ScoreStream = ReceiverStream<Result<ScoreResponse, Status>>;

    async fn train(&self, request: Request<Streaming<TrainRequest>>) -> Result<Response<Self::TrainStream>, Status> {
        let (events, stream) = tokio::sync::mpsc::channel(8);
        let position = std::sync::Arc::clone(&self.position);
        let takes = self.step;
        tokio::spawn(async move {
            if let Err(status) = step(request.into_inner(), &events, &position, takes).await {
                let _ = events.send(Err(status)).await;
            }
        });
        Ok(Response::new(ReceiverStream::new(stream)))
    }

    async fn score(&self, _: Request<Streaming<ScoreRequest>>) -> Result<Response<Self::ScoreStream>, Status> {
        Err(Status::unimplemented("nothing is proven here"))
    }

    async fn publish(&self, _: Request<PublishRequest>) -> Result<Response<PublishResponse>, Status> {
        let version = self.position().version;
        let digest = format!("sha256:{version:064x}");
        let weights = WeightsRef::at_path(version, digest, format!("/simulated/step-{version}"), 0);
        Ok(Response::new(PublishResponse { weights: Some(weights), ..PublishResponse::default() }))
    }

    async fn save_checkpoint(
        &self,
        request: Request<SaveCheckpointRequest>,
    ) -> Result<Response<SaveCheckpointResponse>, Status> {
        let request = request.into_inner();
        let version = self.position().version;
        let checkpoint =
            CheckpointRef { run_id: request.run_id, step: request.step, version, ..CheckpointRef::default() };
        Ok(Response::new(SaveCheckpointResponse { checkpoint: Some(checkpoint), write_us: 0 }))
    }

    async fn load_checkpoint(
        &self,
        _: Request<LoadCheckpointRequest>,
    ) -> Result<Response<LoadCheckpointResponse>, Status> {
        Err(Status::not_found("it keeps none"))
    }

    async fn reset(&self, request: Request<ResetRequest>) -> Result<Response<ResetResponse>, Status> {
        *self.position() = Position { run_id: request.into_inner().run_id, version: 0 };
        Ok(Response::new(ResetResponse {}))
    }

    async fn operate(&self, _: Request<OperateRequest>) -> Result<Response<OperateResponse>, Status> {
        Err(Status::unimplemented("not needed"))
    }

    async fn get_status(
        &self,
        _: Request<LearnerGetStatusRequest>,
    ) -> Result<Response<LearnerGetStatusResponse>, Status> {
        let Position { run_id, version } = self.position().clone();
        // Of the model's folder it knows what the orchestrator compares.
        let config = std::fs::read_to_string(format!("{}/config.json", self.model)).unwrap_or_default();
        let config: serde_json::Value = serde_json::from_str(&config).unwrap_or_default();
        let number = |key: &str| config[key].as_u64().unwrap_or_default() as u32;
        let model = ModelInfo {
            vocabulary_size: number("vocab_size"),
            context_tokens: number("max_position_embeddings"),
            ..ModelInfo::default()
        };
        Ok(Response::new(LearnerGetStatusResponse {
            version,
            run_id,
            settings_hash: TrainingSettings::default().hash(),
            model: Some(model),
            ..LearnerGetStatusResponse::default()
        }))
    }
}
