//! The thread that owns the learner, and what it is asked.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use evenkeel_common::error::ServiceError;
use evenkeel_proto::FieldError;
use evenkeel_proto::v1::{
    CheckpointRef, LearnerState, LoadCheckpointRequest, LoadCheckpointResponse, PublishRequest, PublishResponse,
    SaveCheckpointRequest, SaveCheckpointResponse, ScoreItem, ScoreResponse, TrainHeader, TrainReport, WeightsRef,
    load_checkpoint_request,
};
use tokio::sync::{mpsc, oneshot};

use super::settings::{KEEP_WEIGHTS, ServiceSettings};
use super::storage::{self, Envelope};
use super::{convert, score, train};
use crate::learner::Learner;

/// Reports of done steps that are kept for callers that ask again.
const KEPT_REPORTS: usize = 16;

/// Largest state that a caller may put into a checkpoint, in bytes.
const MAX_CLIENT_STATE: usize = 1 << 20;

pub(super) type Reply<T> = oneshot::Sender<Result<T, ServiceError>>;

/// Something to be done by the thread that owns the learner.
pub(super) enum Command {
    /// A training step, whose parts come over a channel of their own.
    Train { header: Box<TrainHeader>, session: train::Session },
    /// A sequence to score.
    Score { item: ScoreItem, reply: oneshot::Sender<ScoreResponse> },
    /// Weights for engines.
    Publish { request: PublishRequest, reply: Reply<PublishResponse> },
    /// A checkpoint to write.
    Save { request: SaveCheckpointRequest, reply: Reply<SaveCheckpointResponse> },
    /// A checkpoint to go back to.
    Load { request: LoadCheckpointRequest, reply: Reply<LoadCheckpointResponse> },
}

/// What status calls may see while the thread is busy.
#[derive(Clone, Debug, Default)]
pub(super) struct Snapshot {
    pub(super) state: LearnerState,
    pub(super) version: u64,
    pub(super) run_id: String,
    pub(super) last_grpo_step: Option<u64>,
    pub(super) last_supervised_step: Option<u64>,
}

/// The owner of the learner.
pub(super) struct Worker {
    pub(super) learner: Learner,
    pub(super) settings: ServiceSettings,
    pub(super) settings_hash: String,
    /// The newest last.
    pub(super) reports: Vec<TrainReport>,
    pub(super) published: Option<WeightsRef>,
    /// GRPO steps that the weights have behind them, as the run counts them.
    pub(super) grpo_steps: u64,
    /// The last sign of life of the run that the weights belong to.
    pub(super) seen: Instant,
    pub(super) shared: Arc<Mutex<Snapshot>>,
}

impl Worker {
    /// Works until every sender is gone.
    pub(super) fn run(mut self, mut commands: mpsc::Receiver<Command>) {
        let mut next = None;
        while let Some(command) = next.take().or_else(|| commands.blocking_recv()) {
            match command {
                Command::Train { header, session } => {
                    self.say(LearnerState::Training);
                    self.train(&header, session);
                }
                Command::Score { item, reply } => {
                    self.say(LearnerState::Scoring);
                    next = score::together(&self.learner, (item, reply), &mut commands);
                }
                Command::Publish { request, reply } => {
                    self.say(LearnerState::Writing);
                    answer(reply, self.publish(&request));
                }
                Command::Save { request, reply } => {
                    self.say(LearnerState::Writing);
                    answer(reply, self.save(request));
                }
                Command::Load { request, reply } => {
                    self.say(LearnerState::Writing);
                    answer(reply, self.load(&request));
                }
            }
            self.say(LearnerState::Idle);
        }
    }

    /// Tells status calls what is being done, and where the weights stand.
    fn say(&self, state: LearnerState) {
        self.update(|snapshot| {
            snapshot.state = state;
            snapshot.version = self.learner.version();
        });
    }

    pub(super) fn update(&self, change: impl FnOnce(&mut Snapshot)) {
        // A panic of a reader cannot have left it half written: readers only copy.
        change(&mut self.shared.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
    }

    pub(super) fn keep(&mut self, report: TrainReport) {
        if self.reports.len() == KEPT_REPORTS {
            self.reports.remove(0);
        }
        self.reports.push(report);
    }

    fn publish(&mut self, request: &PublishRequest) -> Result<PublishResponse, ServiceError> {
        self.check_run(&request.run_id)?;
        self.check_version(request.version)?;
        self.seen = Instant::now();
        let keep = request.keep.unwrap_or(self.settings.keep_weights);
        if keep == 1 {
            return Err(FieldError::new("keep", keep, KEEP_WEIGHTS).into());
        }
        let current = self.learner.version();
        if let Some(weights) = self.published.clone().filter(|weights| weights.version == current) {
            return Ok(PublishResponse { weights: Some(weights), already_published: true, write_us: 0 });
        }
        let began = Instant::now();
        let published =
            self.learner.publish(&self.settings.weights, self.settings.publish_options()).map_err(convert::error)?;
        storage::retain(&self.settings.weights, keep).map_err(convert::error)?;
        let size = storage::size(&published.path).map_err(convert::error)?;
        let path = std::path::absolute(&published.path).unwrap_or(published.path);
        let weights = WeightsRef::at_path(published.version, published.digest, path.display().to_string(), size);
        self.published = Some(weights.clone());
        Ok(PublishResponse { weights: Some(weights), already_published: false, write_us: micros(began.elapsed()) })
    }

    fn save(&mut self, request: SaveCheckpointRequest) -> Result<SaveCheckpointResponse, ServiceError> {
        self.check_run(&request.run_id)?;
        self.check_version(request.version)?;
        if request.step != self.grpo_steps {
            let allowed = format!("{}, the GRPO steps that the learner has done", self.grpo_steps);
            return Err(FieldError::new("step", request.step, allowed).into());
        }
        let size = request.client_state.len();
        if size > MAX_CLIENT_STATE {
            let allowed = format!("at most {MAX_CLIENT_STATE} bytes");
            return Err(FieldError::new("client_state", format_args!("{size} bytes"), allowed).into());
        }
        let began = Instant::now();
        let path = storage::checkpoint_path(&self.settings.checkpoints, &request.run_id, request.step);
        let envelope = Envelope {
            run_id: request.run_id.clone(),
            step: request.step,
            version: self.learner.version(),
            client_state: request.client_state,
        };
        let bytes = serde_json::to_vec(&envelope).expect("numbers and strings serialise");
        self.learner.save_checkpoint(&path, &bytes).map_err(convert::error)?;
        let keep = request.keep.unwrap_or(self.settings.keep_checkpoints);
        storage::retain(&self.settings.checkpoints.join(&request.run_id), keep).map_err(convert::error)?;
        self.adopt(&request.run_id);
        let checkpoint = storage::reference(&path, &envelope).map_err(convert::error)?;
        Ok(SaveCheckpointResponse { checkpoint: Some(checkpoint), write_us: micros(began.elapsed()) })
    }

    fn load(&mut self, request: &LoadCheckpointRequest) -> Result<LoadCheckpointResponse, ServiceError> {
        use load_checkpoint_request::Which;
        self.check_lease(&request.run_id)?;
        let folder = self.settings.checkpoints.clone();
        let candidates = match &request.which {
            Some(Which::Step(step)) => storage::checkpoint_paths(&folder, &request.run_id, *step),
            Some(Which::Path(path)) => vec![path.into()],
            None => storage::checkpoints(&folder, &request.run_id).map_err(convert::error)?,
        };
        let mut failure = ServiceError::NotFound { what: format!("checkpoint of run `{}`", request.run_id) };
        // Only the newest whole one is wanted where none was named, so a broken one is passed over with a warning.
        for path in candidates {
            let loaded = storage::within(&folder, &path).and_then(|path| self.try_load(&path, &request.run_id));
            match loaded {
                Ok((checkpoint, client_state)) => {
                    self.adopt(&request.run_id);
                    self.grpo_steps = checkpoint.step;
                    // Before the answer: who has it may ask for the status at once.
                    let version = self.learner.version();
                    self.update(|snapshot| {
                        snapshot.version = version;
                        (snapshot.last_grpo_step, snapshot.last_supervised_step) = (None, None);
                    });
                    self.reports.clear();
                    self.published = None;
                    return Ok(LoadCheckpointResponse { checkpoint: Some(checkpoint), client_state });
                }
                Err(error) => {
                    tracing::warn!(path = %path.display(), %error, "checkpoint passed over");
                    failure = error;
                }
            }
        }
        Err(failure)
    }

    fn try_load(&mut self, path: &std::path::Path, run_id: &str) -> Result<(CheckpointRef, Vec<u8>), ServiceError> {
        let bytes = self.learner.read_client_state(path).map_err(convert::error)?;
        let envelope: Envelope = serde_json::from_slice(&bytes)
            .map_err(|e| ServiceError::DataLoss { message: format!("checkpoint {}: {e}", path.display()) })?;
        if run_id != envelope.run_id {
            let message = format!("checkpoint {} is of run `{}`", path.display(), envelope.run_id);
            return Err(ServiceError::Precondition { reason: "OTHER_RUN", message });
        }
        self.learner.restore_checkpoint(path).map_err(convert::error)?;
        let checkpoint = storage::reference(path, &envelope).map_err(convert::error)?;
        Ok((checkpoint, envelope.client_state))
    }

    fn check_version(&self, version: Option<u64>) -> Result<(), ServiceError> {
        let current = self.learner.version();
        match version {
            Some(version) if version != current => {
                let message = format!("version is {version}, the learner's is {current}");
                Err(ServiceError::Precondition { reason: "OTHER_VERSION", message })
            }
            _ => Ok(()),
        }
    }

    /// Whether the weights belong to this run, or to none: nobody has trained them yet, and whoever meant to is gone.
    pub(super) fn check_run(&self, run_id: &str) -> Result<(), ServiceError> {
        check_name(run_id)?;
        match self.owner().as_str() {
            "" => Ok(()),
            found if found == run_id => Ok(()),
            _ if self.learner.version() == 0 && self.lease_left().is_zero() => Ok(()),
            found => {
                let message = format!("run_id is `{run_id}`, the learner's weights are of run `{found}`");
                Err(ServiceError::Precondition { reason: "OTHER_RUN", message })
            }
        }
    }

    /// Whether this run may take the learner from the one that has it: with a checkpoint of its own, once the other is silent.
    fn check_lease(&self, run_id: &str) -> Result<(), ServiceError> {
        check_name(run_id)?;
        let (owner, left) = (self.owner(), self.lease_left());
        if owner.is_empty() || owner == run_id || left.is_zero() {
            return Ok(());
        }
        let message = format!(
            "run_id is `{run_id}`, the learner serves run `{owner}`, which has it for {} ms more unless it goes on",
            left.as_millis()
        );
        Err(ServiceError::Unavailable { reason: "LEASED", message })
    }

    /// The run that the weights belong to; empty where there is none.
    fn owner(&self) -> String {
        self.shared.lock().unwrap_or_else(std::sync::PoisonError::into_inner).run_id.clone()
    }

    fn lease_left(&self) -> Duration {
        Duration::from_millis(self.settings.lease_ms).saturating_sub(self.seen.elapsed())
    }

    pub(super) fn adopt(&mut self, run_id: &str) {
        self.seen = Instant::now();
        self.update(|snapshot| run_id.clone_into(&mut snapshot.run_id));
    }
}

/// Whether this can name a run.
fn check_name(run_id: &str) -> Result<(), FieldError> {
    let allowed = "letters, digits, `-`, `_` and `.`, at most 128";
    let good = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    match run_id.len() {
        0 => Err(FieldError::missing("run_id", "the name of the run")),
        bytes @ 129.. => Err(FieldError::new("run_id", format_args!("{bytes} bytes"), allowed)),
        // A run's name is that of a folder.
        _ if run_id.bytes().all(good) && !run_id.bytes().all(|byte| byte == b'.') => Ok(()),
        _ => Err(FieldError::new("run_id", format_args!("{run_id:?}"), allowed)),
    }
}

/// A caller that went away is told nothing.
fn answer<T>(reply: Reply<T>, result: Result<T, ServiceError>) {
    let _ = reply.send(result);
}

pub(super) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
