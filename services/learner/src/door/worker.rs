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
        self.check_version(request.version)?;
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
        let began = Instant::now();
        let path = storage::checkpoint_path(&self.settings.checkpoints, request.step);
        let envelope = Envelope {
            run_id: request.run_id.clone(),
            step: request.step,
            version: self.learner.version(),
            client_state: request.client_state,
        };
        let bytes = serde_json::to_vec(&envelope).expect("numbers and strings serialise");
        self.learner.save_checkpoint(&path, &bytes).map_err(convert::error)?;
        let keep = request.keep.unwrap_or(self.settings.keep_checkpoints);
        storage::retain(&self.settings.checkpoints, keep).map_err(convert::error)?;
        self.adopt(&request.run_id);
        let checkpoint = storage::reference(&path, &envelope).map_err(convert::error)?;
        Ok(SaveCheckpointResponse { checkpoint: Some(checkpoint), write_us: micros(began.elapsed()) })
    }

    fn load(&mut self, request: &LoadCheckpointRequest) -> Result<LoadCheckpointResponse, ServiceError> {
        use load_checkpoint_request::Which;
        let folder = self.settings.checkpoints.clone();
        let (candidates, any_run) = match &request.which {
            Some(Which::Step(step)) => (vec![storage::checkpoint_path(&folder, *step)], false),
            Some(Which::Path(path)) => (vec![path.into()], true),
            None => {
                let steps = storage::checkpoints(&folder).map_err(convert::error)?;
                (steps.into_iter().map(|step| storage::checkpoint_path(&folder, step)).collect(), false)
            }
        };
        let mut failure = ServiceError::NotFound { what: format!("checkpoint of run `{}`", request.run_id) };
        // Only the newest whole one is wanted where none was named, so a broken one is passed over with a warning.
        for path in candidates {
            match self.try_load(&path, (!any_run).then_some(request.run_id.as_str())) {
                Ok((checkpoint, client_state)) => {
                    self.adopt(&request.run_id);
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

    fn try_load(
        &mut self,
        path: &std::path::Path,
        run: Option<&str>,
    ) -> Result<(CheckpointRef, Vec<u8>), ServiceError> {
        let bytes = self.learner.read_client_state(path).map_err(convert::error)?;
        let envelope: Envelope = serde_json::from_slice(&bytes)
            .map_err(|e| ServiceError::DataLoss { message: format!("checkpoint {}: {e}", path.display()) })?;
        if run.is_some_and(|run| run != envelope.run_id) {
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

    /// Whether the weights belong to this run, or to none yet.
    pub(super) fn check_run(&self, run_id: &str) -> Result<(), ServiceError> {
        let snapshot = self.shared.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match snapshot.run_id.as_str() {
            _ if run_id.is_empty() => Err(FieldError::missing("run_id", "the name of the run").into()),
            "" => Ok(()),
            found if found == run_id => Ok(()),
            found => {
                let message = format!("run_id is `{run_id}`, the learner's weights are of run `{found}`");
                Err(ServiceError::Precondition { reason: "OTHER_RUN", message })
            }
        }
    }

    pub(super) fn adopt(&self, run_id: &str) {
        self.update(|snapshot| run_id.clone_into(&mut snapshot.run_id));
    }
}

/// A caller that went away is told nothing.
fn answer<T>(reply: Reply<T>, result: Result<T, ServiceError>) {
    let _ = reply.send(result);
}

pub(super) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
