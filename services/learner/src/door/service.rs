//! The gRPC service: calls become commands for the worker, and its answers the calls'.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use evenkeel_common::admission::Unit;
use evenkeel_common::deadline::Deadline;
use evenkeel_common::error::ServiceError;
use evenkeel_common::items::{AnswerStream, ItemLimits, ItemServer, Items, ScoreItems};
use evenkeel_common::server::{Drain, Server, ServerError};
use evenkeel_proto::FieldError;
use evenkeel_proto::v1::learner_server::{Learner as LearnerService, LearnerServer};
use evenkeel_proto::v1::{
    LearnerGetStatusRequest, LearnerGetStatusResponse, LoadCheckpointRequest, LoadCheckpointResponse, ModelInfo,
    PublishRequest, PublishResponse, QueueStatus, SaveCheckpointRequest, SaveCheckpointResponse, ScoreItem,
    ScoreRequest, ScoreResponse, ServerStatus, TrainEvent, TrainRequest, train_request,
};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use super::settings::ServiceSettings;
use super::train::{self, Part, Session, Waiting};
use super::worker::{Command, Reply, Snapshot, Worker};
use crate::error::LearnerError;
use crate::learner::Learner;

/// Groups of a step that may wait for the worker: the caller is held back behind them.
const WAITING_PARTS: usize = 8;

/// Training steps that are in work or wait for it. A run has one at a time; a second is its repetition.
const WAITING_STEPS: usize = 4;

/// How long an item that was stopped may take to answer.
const GRACE: Duration = Duration::from_millis(100);

/// Why the server did not start.
#[derive(Debug, thiserror::Error)]
pub enum DoorError {
    /// A port, a certificate.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// Settings or model.
    #[error(transparent)]
    Learner(#[from] LearnerError),
}

/// Takes the port, opens the model and adds the service; [`Server::run`] or [`Server::spawn`] then serves.
///
/// # Errors
/// A port that is taken, settings out of range, a folder that is no model: before anything is served.
pub async fn serve(settings: ServiceSettings) -> Result<Server, DoorError> {
    settings.validate()?;
    let server = Server::bind("learner", "learner.server", settings.server.clone()).await?;
    let (ready, opened) = oneshot::channel();
    let (commands, receiver) = mpsc::channel(settings.queue);
    let shared = Arc::new(Mutex::new(Snapshot::default()));
    let thread_shared = Arc::clone(&shared);
    let thread_settings = settings.clone();
    let thread = std::thread::Builder::new().name("learner".into());
    let spawned = thread.spawn(move || {
        // The model is opened where it is used: a GPU's context belongs to its thread.
        match Learner::open(&thread_settings.model, thread_settings.training.clone()) {
            Err(error) => drop(ready.send(Err(error))),
            Ok(learner) => {
                let settings_hash = thread_settings.training.hash();
                let _ = ready.send(Ok(describe(&learner)));
                let worker = Worker {
                    learner,
                    settings: thread_settings,
                    settings_hash,
                    reports: Vec::new(),
                    published: None,
                    grpo_steps: 0,
                    seen: Instant::now(),
                    shared: thread_shared,
                };
                worker.run(receiver);
            }
        }
    });
    spawned.map_err(LearnerError::file("the learner's thread"))?;
    let model = opened.await.map_err(|_| LearnerError::input("the learner's thread", "gone", "running"))??;
    let limits = ItemLimits {
        max_items: settings.queue,
        max_bytes: settings.max_bytes,
        max_running: settings.queue,
        grace: GRACE,
    };
    let max_message_bytes = server.max_message_bytes();
    let door = Door {
        commands,
        shared,
        model,
        settings_hash: settings.training.hash(),
        settings,
        steps: Arc::new(Semaphore::new(WAITING_STEPS)),
        scoring: ItemServer::new(limits, server.drain()),
        drain: server.drain(),
        started: Instant::now(),
    };
    let service = LearnerServer::new(door)
        .max_decoding_message_size(max_message_bytes)
        .max_encoding_message_size(max_message_bytes);
    Ok(server.with_service(service))
}

fn describe(learner: &Learner) -> ModelInfo {
    ModelInfo {
        architecture: learner.config().family.architecture().into(),
        parameters: learner.parameters().count() as u64,
        vocabulary_size: learner.config().vocab_size as u32,
        context_tokens: learner.config().max_position_embeddings as u32,
        tokenizer_digest: learner.tokenizer_digest().unwrap_or_default(),
    }
}

struct Door {
    commands: mpsc::Sender<Command>,
    shared: Arc<Mutex<Snapshot>>,
    model: ModelInfo,
    settings: ServiceSettings,
    settings_hash: String,
    /// Places for training steps.
    steps: Arc<Semaphore>,
    scoring: ItemServer<ScoreItems>,
    drain: Drain,
    started: Instant,
}

impl Door {
    fn send(&self, command: Command) -> Result<(), ServiceError> {
        use mpsc::error::TrySendError;
        self.commands.try_send(command).map_err(|error| match error {
            TrySendError::Full(_) => {
                let capacity = self.settings.queue as u64;
                ServiceError::QueueFull { queue: "learner", unit: Unit::Items, capacity, retry_after: None }
            }
            TrySendError::Closed(_) => worker_gone(),
        })
    }

    async fn ask<T>(&self, command: impl FnOnce(Reply<T>) -> Command) -> Result<Response<T>, Status> {
        let (reply, answer) = oneshot::channel();
        self.send(command(reply))?;
        Ok(Response::new(answer.await.map_err(|_| worker_gone())??))
    }
}

fn worker_gone() -> ServiceError {
    ServiceError::Internal { message: "the learner's thread has ended; the log says why".into() }
}

#[tonic::async_trait]
impl LearnerService for Door {
    type TrainStream = ReceiverStream<Result<TrainEvent, Status>>;
    type ScoreStream = AnswerStream<ScoreResponse>;

    async fn train(&self, request: Request<Streaming<TrainRequest>>) -> Result<Response<Self::TrainStream>, Status> {
        if self.drain.is_draining() {
            return Err(ServiceError::Draining.into());
        }
        let mut requests = request.into_inner();
        let idle = Duration::from_millis(self.settings.step_idle_ms);
        let first = tokio::time::timeout(idle, requests.message()).await.map_err(|_| train::idle())??;
        let header = match first.and_then(|message| message.kind) {
            Some(train_request::Kind::Header(header)) => header,
            _ => return Err(ServiceError::from(FieldError::missing("header", "as the first message")).into()),
        };
        let (parts, session_parts) = mpsc::channel(WAITING_PARTS);
        let (session_events, mut worker_events) = mpsc::channel(WAITING_PARTS);
        let place = Arc::clone(&self.steps).try_acquire_owned().map_err(|_| ServiceError::QueueFull {
            queue: "training steps",
            capacity: WAITING_STEPS as u64,
            unit: Unit::Items,
            retry_after: None,
        })?;
        let waiting = Waiting::default();
        let session = Session { parts: session_parts, events: session_events, waiting: waiting.clone(), _place: place };
        self.send(Command::Train { header: Box::new(header), session })?;
        let (events, out) = mpsc::channel(WAITING_PARTS);
        tokio::spawn(async move {
            while let Some(event) = worker_events.recv().await {
                if events.send(event.map_err(Status::from)).await.is_err() {
                    break;
                }
            }
        });
        tokio::spawn(async move {
            loop {
                let message = tokio::select! {
                    message = requests.next() => message,
                    () = waiting.lasted(idle) => {
                        let _ = parts.send(Part::Idle).await;
                        break;
                    }
                };
                let part = match message {
                    Some(Ok(message)) => match message.kind {
                        Some(train_request::Kind::Group(group)) => Part::Group(Box::new(group)),
                        Some(train_request::Kind::Examples(batch)) => Part::Examples(batch.examples),
                        // A second header or nothing at all: the step is dropped with the channel.
                        _ => break,
                    },
                    Some(Err(_)) => break,
                    None => Part::End,
                };
                let ended = matches!(part, Part::End);
                if parts.send(part).await.is_err() || ended {
                    break;
                }
            }
        });
        Ok(Response::new(ReceiverStream::new(out)))
    }

    async fn score(&self, request: Request<Streaming<ScoreRequest>>) -> Result<Response<Self::ScoreStream>, Status> {
        let call = Deadline::of_call(request.metadata());
        let commands = self.commands.clone();
        let handler = move |item: ScoreItem, _context| {
            let commands = commands.clone();
            async move {
                let id = item.id.clone();
                let (reply, answer) = oneshot::channel();
                let sent = commands.send(Command::Score { item, reply }).await;
                let answered = if sent.is_ok() { answer.await.ok() } else { None };
                answered.unwrap_or_else(|| ScoreItems::failed(id, worker_gone().failure()))
            }
        };
        Ok(Response::new(self.scoring.serve(request.into_inner(), call, handler)))
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

    async fn get_status(
        &self,
        _request: Request<LearnerGetStatusRequest>,
    ) -> Result<Response<LearnerGetStatusResponse>, Status> {
        let snapshot = self.shared.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        let queue = QueueStatus { capacity_items: self.settings.queue as u64, ..self.scoring.status() };
        Ok(Response::new(LearnerGetStatusResponse {
            server: Some(ServerStatus {
                name: "learner".into(),
                program_version: env!("CARGO_PKG_VERSION").into(),
                uptime_ms: u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX),
                draining: self.drain.is_draining(),
            }),
            state: snapshot.state.into(),
            model: Some(self.model.clone()),
            version: snapshot.version,
            run_id: snapshot.run_id,
            last_grpo_step: snapshot.last_grpo_step,
            last_supervised_step: snapshot.last_supervised_step,
            settings_hash: self.settings_hash.clone(),
            device: self.settings.training.compute.device.clone(),
            compute_dtype: format!("{:?}", self.settings.training.compute.dtype).to_uppercase(),
            queue: Some(queue),
        }))
    }
}
