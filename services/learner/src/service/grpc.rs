//! The calls of the service, which become commands for the learner's thread and return its answers.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use candle_core::DType;
use evenkeel_proto::FieldError;
use evenkeel_proto::v1::learner_server::Learner;
use evenkeel_proto::v1::{
    LearnerGetStatusRequest, LearnerGetStatusResponse, LoadCheckpointRequest, LoadCheckpointResponse, ModelInfo,
    OperateRequest, OperateResponse, PublishRequest, PublishResponse, QueueStatus, ResetRequest, ResetResponse,
    RunWrites, SaveCheckpointRequest, SaveCheckpointResponse, ScoreItem, ScoreRequest, ScoreResponse, TrainEvent,
    TrainRequest, train_request,
};
use evenkeel_rpc::admission::Unit;
use evenkeel_rpc::error::ServiceError;
use evenkeel_rpc::items::{ItemLimits, ItemServer, Items, ResponseStream, ScoreItems};
use evenkeel_rpc::server::{Drain, ServerInfo};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use super::command::{Command, Reply};
use super::score::ScoreCommand;
use super::settings::LearnerSettings;
use super::status::StatusBoard;
use super::train_call::{IdleTimer, TrainCall, TrainInput, idle_error};
use crate::memory::RunFolders;

/// Name of the server.
pub(super) const NAME: &str = "learner";

/// Groups of a step that may wait for the learner's thread; beyond them the caller has to wait.
const QUEUED_INPUTS: usize = 8;

/// Training steps in progress or queued. A run has one at a time; a second one is a retry.
const QUEUED_STEPS: usize = 4;

/// How long a cancelled item may take to answer.
const GRACE: Duration = Duration::from_millis(100);

/// What is fixed once a learner has its model.
pub(super) struct Described {
    pub(super) model: ModelInfo,
    /// Parameters that are trained.
    pub(super) trained: u64,
    /// Parameters that a tied head adds to published weights where it is written out; 0 where none is.
    pub(super) head: u64,
    pub(super) tensor_groups: Vec<String>,
    /// Why a GPU computes attention in blocks; empty if it does not.
    pub(super) attention_in_blocks: String,
}

/// The service: the sending ends of the learner's thread.
pub(super) struct LearnerService {
    commands: mpsc::Sender<Command>,
    scores: mpsc::Sender<ScoreCommand>,
    status: StatusBoard,
    described: Described,
    settings: LearnerSettings,
    settings_hash: String,
    /// One permit for each training step.
    steps: Arc<Semaphore>,
    scoring: ItemServer<ScoreItems>,
    drain: Drain,
    info: ServerInfo,
}

impl LearnerService {
    pub(super) fn new(
        (commands, scores): (mpsc::Sender<Command>, mpsc::Sender<ScoreCommand>),
        status: StatusBoard,
        described: Described,
        settings: LearnerSettings,
        drain: Drain,
    ) -> Self {
        let limits = ItemLimits {
            max_items: settings.queue,
            max_memory: settings.max_memory,
            max_running: settings.queue,
            grace: GRACE,
        };
        Self {
            commands,
            scores,
            status,
            described,
            settings_hash: settings.training.hash(),
            settings,
            steps: Arc::new(Semaphore::new(QUEUED_STEPS)),
            scoring: ItemServer::new(limits, drain.clone()),
            info: ServerInfo::new(NAME, drain.clone()),
            drain,
        }
    }

    /// What does not fit of what a run writes, a sentence for each disk.
    fn full_disks(&self, writes: &RunWrites) -> Vec<String> {
        let mut plan = self.settings.disk_plan(self.described.trained, [writes.checkpoints, writes.versions]);
        if writes.write_out_head {
            plan.published += self.described.head * DType::from(self.settings.publish_dtype).size_in_bytes() as u64;
        }
        let folders = RunFolders {
            checkpoints: &self.settings.checkpoints,
            weights: &self.settings.weights,
            run: Path::new(&writes.run_directory),
        };
        plan.with_rollouts(writes.rollouts, folders).missing(folders)
    }

    fn send(&self, command: Command) -> Result<(), ServiceError> {
        use mpsc::error::TrySendError;
        self.commands.try_send(command).map_err(|error| match error {
            TrySendError::Full(_) => {
                let capacity = self.settings.queue as u64;
                ServiceError::QueueFull { queue: "learner", unit: Unit::Items, capacity, retry_after: None }
            }
            TrySendError::Closed(_) => thread_ended(),
        })
    }

    async fn ask<T>(&self, command: impl FnOnce(Reply<T>) -> Command) -> Result<Response<T>, Status> {
        let (reply, answer) = oneshot::channel();
        self.send(command(reply))?;
        Ok(Response::new(answer.await.map_err(|_| thread_ended())??))
    }
}

fn thread_ended() -> ServiceError {
    ServiceError::Internal { message: "the learner's thread has ended; the log says why".into() }
}

#[tonic::async_trait]
impl Learner for LearnerService {
    type TrainStream = ReceiverStream<Result<TrainEvent, Status>>;
    type ScoreStream = ResponseStream<ScoreResponse>;

    async fn train(&self, request: Request<Streaming<TrainRequest>>) -> Result<Response<Self::TrainStream>, Status> {
        if self.drain.is_draining() {
            return Err(ServiceError::Draining.into());
        }
        let mut requests = request.into_inner();
        let idle = self.settings.step_idle;
        let first = tokio::time::timeout(idle, requests.message()).await.map_err(|_| idle_error())??;
        let header = match first.and_then(|message| message.kind) {
            Some(train_request::Kind::Header(header)) => header,
            _ => return Err(ServiceError::from(FieldError::missing("header", "as the first message")).into()),
        };
        let (inputs, call_inputs) = mpsc::channel(QUEUED_INPUTS);
        let (call_events, mut step_events) = mpsc::channel(QUEUED_INPUTS);
        let permit = Arc::clone(&self.steps).try_acquire_owned().map_err(|_| ServiceError::QueueFull {
            queue: "training steps",
            capacity: QUEUED_STEPS as u64,
            unit: Unit::Items,
            retry_after: None,
        })?;
        let timer = IdleTimer::default();
        let call = TrainCall::new(call_inputs, call_events, timer.clone(), permit);
        self.send(Command::Train { header: Box::new(header), call })?;
        let (events, out) = mpsc::channel(QUEUED_INPUTS);
        tokio::spawn(async move {
            while let Some(event) = step_events.recv().await {
                if events.send(event.map_err(Status::from)).await.is_err() {
                    break;
                }
            }
        });
        tokio::spawn(async move {
            loop {
                let message = tokio::select! {
                    message = requests.next() => message,
                    () = timer.expired(idle) => {
                        let _ = inputs.send(TrainInput::Idle).await;
                        break;
                    }
                };
                let input = match message {
                    Some(Ok(message)) => match message.kind {
                        Some(train_request::Kind::Group(group)) => TrainInput::Group(Box::new(group)),
                        Some(train_request::Kind::Examples(batch)) => TrainInput::Examples(batch.examples),
                        // A second header or an empty message: the step is dropped with the channel.
                        _ => break,
                    },
                    Some(Err(_)) => break,
                    None => TrainInput::End,
                };
                let ended = matches!(input, TrainInput::End);
                if inputs.send(input).await.is_err() || ended {
                    break;
                }
            }
        });
        Ok(Response::new(ReceiverStream::new(out)))
    }

    async fn score(&self, request: Request<Streaming<ScoreRequest>>) -> Result<Response<Self::ScoreStream>, Status> {
        let scores = self.scores.clone();
        let handler = move |item: ScoreItem, _context| {
            let scores = scores.clone();
            async move {
                let id = item.id.clone();
                let (reply, answer) = oneshot::channel();
                let sent = scores.send(ScoreCommand { item, reply }).await;
                let answered = if sent.is_ok() { answer.await.ok() } else { None };
                answered.unwrap_or_else(|| ScoreItems::failed(id, thread_ended().failure()))
            }
        };
        Ok(self.scoring.serve(request, handler))
    }

    async fn publish(&self, request: Request<PublishRequest>) -> Result<Response<PublishResponse>, Status> {
        let request = request.into_inner();
        self.ask(|reply| Command::Publish { request, reply }).await
    }

    async fn save_checkpoint(
        &self,
        request: Request<SaveCheckpointRequest>,
    ) -> Result<Response<SaveCheckpointResponse>, Status> {
        let request = request.into_inner();
        self.ask(|reply| Command::Save { request, reply }).await
    }

    async fn load_checkpoint(
        &self,
        request: Request<LoadCheckpointRequest>,
    ) -> Result<Response<LoadCheckpointResponse>, Status> {
        let request = request.into_inner();
        self.ask(|reply| Command::Load { request, reply }).await
    }

    async fn reset(&self, request: Request<ResetRequest>) -> Result<Response<ResetResponse>, Status> {
        let request = request.into_inner();
        self.ask(|reply| Command::Reset { request, reply }).await
    }

    async fn operate(&self, request: Request<OperateRequest>) -> Result<Response<OperateResponse>, Status> {
        if self.drain.is_draining() {
            return Err(ServiceError::Draining.into());
        }
        let request = Box::new(request.into_inner());
        self.ask(|reply| Command::Operate { request, reply }).await
    }

    async fn get_status(
        &self,
        request: Request<LearnerGetStatusRequest>,
    ) -> Result<Response<LearnerGetStatusResponse>, Status> {
        let full_disks = request.into_inner().writes.map(|writes| self.full_disks(&writes)).unwrap_or_default();
        let status = self.status.read();
        let queue = QueueStatus { capacity_items: self.settings.queue as u64, ..self.scoring.status() };
        Ok(Response::new(LearnerGetStatusResponse {
            server: Some(self.info.status()),
            state: status.state.into(),
            model: Some(self.described.model.clone()),
            version: status.version,
            run_id: status.run_id,
            last_grpo_step: status.last_grpo_step,
            last_supervised_step: status.last_supervised_step,
            settings_hash: self.settings_hash.clone(),
            device: self.settings.training.compute.device.clone(),
            compute_dtype: self.settings.training.compute.dtype.wire_name().into(),
            queue: Some(queue),
            tensor_groups: self.described.tensor_groups.clone(),
            arithmetic: self.settings.arithmetic().unwrap_or_default().to_owned(),
            attention_in_blocks: self.described.attention_in_blocks.clone(),
            full_disks,
        }))
    }
}
