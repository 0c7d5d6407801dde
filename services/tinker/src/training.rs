//! The model in training, and the requests that wait for their turn.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use evenkeel_proto::FieldError;
use evenkeel_proto::v1::{AccumulateOperation, ApplyOperation};
use serde_json::Value;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::error::ApiError;
use crate::futures::Promise;
use crate::queue::InOrder;

/// The name of what is saved when the server stops; no client may take it.
pub(crate) const LIVE: &str = "live.";

/// What a training request asks for.
pub(crate) enum Operation {
    /// A gradient; or why it cannot be computed, which its update has to know.
    Accumulate(Result<AccumulateOperation, FieldError>),
    Apply(Result<ApplyOperation, FieldError>),
    Save {
        name: String,
        overwrite: bool,
        keep: Keep,
    },
    /// With a name a checkpoint, without one a sampling session with that id.
    SaveForSampler {
        target: SamplerTarget,
        keep: Keep,
    },
    Load {
        path: String,
        optimizer: bool,
    },
    /// A request that is refused, which takes its number as well.
    Refused(FieldError),
}

/// How long a checkpoint is kept, and what its owner wrote on it.
pub(crate) struct Keep {
    pub(crate) expires: Option<u64>,
    pub(crate) user_metadata: Option<Value>,
}

/// Where weights for sampling go.
pub(crate) enum SamplerTarget {
    Path { name: String, overwrite: bool },
    Session(String),
}

/// The model in training.
pub(crate) struct Training {
    pub(crate) model: String,
    pub(crate) session: String,
    pub(crate) run_id: String,
    queue: Mutex<Queue>,
    pub(crate) arrived: Notify,
    /// Held while an operation runs.
    pub(crate) turn: tokio::sync::Mutex<()>,
    pub(crate) ended: CancellationToken,
}

/// What waits, and how far the learner is.
pub(crate) struct Queue {
    pub(crate) jobs: InOrder<(Operation, Promise)>,
    /// Operations of the learner's run.
    pub(crate) sequence: u64,
    /// Whether something was accumulated and not applied.
    pub(crate) has_sum: bool,
}

impl Training {
    /// A model whose run has done one operation of the learner, by which its weights were begun or loaded.
    pub(crate) fn new(model: String, session: String, run_id: String, done: u64) -> Arc<Self> {
        let queue = Mutex::new(Queue { jobs: InOrder::after(done), sequence: 1, has_sum: false });
        let arrived = Notify::new();
        let turn = tokio::sync::Mutex::default();
        let ended = CancellationToken::new();
        Arc::new(Self { model, session, run_id, queue, arrived, turn, ended })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a request; a repeated one has the id of the first.
    pub(crate) fn submit(
        &self,
        number: u64,
        digest: String,
        job: impl FnOnce(bool) -> Result<(Operation, Promise), ApiError>,
    ) -> Result<String, ApiError> {
        if self.ended.is_cancelled() {
            return Err(ApiError::new(axum::http::StatusCode::GONE, format!("model {} has ended", self.model)));
        }
        let id = self.lock().jobs.add(number, digest, |is_next| {
            let (operation, promise) = job(is_next)?;
            Ok((promise.id().to_owned(), (operation, promise)))
        });
        self.arrived.notify_one();
        id
    }
}
