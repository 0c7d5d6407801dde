//! The thread that owns the learner.

use std::io;
use std::time::{Duration, Instant};

use evenkeel_proto::FieldError;
use evenkeel_proto::v1::{
    LearnerState, LoadCheckpointRequest, LoadCheckpointResponse, PublishRequest, PublishResponse, RankOrder,
    ResetRequest, ResetResponse, SaveCheckpointRequest, SaveCheckpointResponse,
};
use evenkeel_rpc::error::{Reason, ServiceError, micros};
use tokio::sync::mpsc;

use super::artifacts::CheckpointStore;
use super::command::{Command, Reply};
use super::convert;
use super::leader::{Leader, Teller, order};
use super::lease::Lease;
use super::operations::{OperationLog, Parts};
use super::score::{Arrival, ScoreCommand, Scoring};
use super::settings::LearnerSettings;
use super::status::StatusBoard;
use super::train::Training;
use super::weights_store::WeightsStore;
use crate::learner::Learner;
use crate::published_model::PublishedModel;

/// The owner of the learner.
pub(super) struct LearnerThread {
    learner: Learner,
    lease: Lease,
    training: Training,
    checkpoints: CheckpointStore,
    weights: WeightsStore,
    scoring: Scoring,
    operations: OperationLog,
    status: StatusBoard,
    /// Rank 0's side of the other ranks, if there are any.
    leader: Option<Leader>,
}

impl LearnerThread {
    /// `scores` brings the items to score, `leader` leads the other ranks, if there are any.
    ///
    /// # Errors
    /// The operating system's.
    pub(super) fn new(
        learner: Learner,
        leader: Option<Leader>,
        settings: &LearnerSettings,
        scores: mpsc::Receiver<ScoreCommand>,
        status: StatusBoard,
    ) -> io::Result<Self> {
        let published = PublishedModel::new(settings.weights.clone(), settings.publish_dtype.into());
        Ok(Self {
            learner,
            lease: Lease::new(settings.lease, status.clone()),
            training: Training::new(settings, status.clone()),
            checkpoints: CheckpointStore::new(settings.checkpoints.clone(), settings.checkpoint_dtype.into()),
            weights: WeightsStore::new(
                settings.weights.clone(),
                settings.publish_options(),
                settings.weights_read_here,
            ),
            scoring: Scoring::new(scores, published, status.clone())?,
            operations: OperationLog::default(),
            status,
            leader,
        })
    }

    /// Runs until every sender is dropped.
    pub(super) fn run(mut self, mut commands: mpsc::Receiver<Command>) {
        self.status.set_state(LearnerState::Idle, self.learner.version());
        loop {
            match self.scoring.wait(&mut commands) {
                Arrival::Item(item) => self.scoring.answer(item, self.learner.trainer()),
                Arrival::Other(Some(command)) => self.follow(command),
                Arrival::Other(None) => break,
            }
            self.status.set_state(LearnerState::Idle, self.learner.version());
        }
        while let Some(item) = self.scoring.next() {
            self.scoring.answer(item, self.learner.trainer());
        }
        if let Some(leader) = self.leader.take() {
            leader.end();
        }
    }

    /// Whether all ranks are there. Where some were lost, the learner is as one that has just started: its run loads a
    /// checkpoint.
    fn check_ranks(&mut self) -> Result<(), ServiceError> {
        let Some(leader) = &mut self.leader else { return Ok(()) };
        if leader.has_lost(&mut self.learner).is_some() {
            self.status.restored(0);
            self.training.restored(0);
            self.weights.forget();
            self.scoring.published(None);
            // What a run has trained in operations is gone: it begins again, or loads what it has saved.
            self.operations = OperationLog::default();
            if let Err(error) = self.learner.reset() {
                tracing::error!(%error, "the initial weights cannot be read again");
            }
        }
        if leader.ready(&mut self.learner).map_err(convert::error)? {
            // All others have done the same. Nothing is read where it has been done before.
            self.learner.reset().map_err(convert::error)?;
        }
        Ok(())
    }

    fn follow(&mut self, command: Command) {
        if let Err(error) = self.check_ranks() {
            return command.refuse(error);
        }
        self.status.set_state(state_of(&command), self.learner.version());
        match command {
            Command::Train { header, call } => {
                self.training.run(&mut self.learner, &mut self.lease, &mut self.scoring, &header, call);
            }
            Command::Publish { request, reply } => answer(reply, self.publish(&request)),
            Command::Save { request, reply } => answer(reply, self.save(request)),
            Command::Load { request, reply } => answer(reply, self.load(&request)),
            Command::Reset { request, reply } => answer(reply, self.reset(&request)),
            Command::Operate { request, reply } => {
                let Self { learner, lease, training, checkpoints, weights, scoring, operations, status, .. } = self;
                let parts = Parts { learner, lease, training, checkpoints, weights, scoring, status };
                answer(reply, operations.follow(parts, &request));
            }
        }
    }

    #[tracing::instrument(skip_all, fields(run = request.run_id))]
    fn publish(&mut self, request: &PublishRequest) -> Result<PublishResponse, ServiceError> {
        self.lease.check_owner(&request.run_id, self.learner.version())?;
        self.check_version(request.version)?;
        self.lease.renew();
        let response = self.weights.publish(&mut self.learner, request)?;
        self.scoring.published(Some(self.learner.version()));
        // Engines that share the device wake next.
        self.learner.empty_cache().map_err(convert::error)?;
        if !response.already_published {
            record("evenkeel_publish_seconds", response.write_us);
            tracing::info!(
                version = self.learner.version(),
                seconds = response.write_us as f64 / 1e6,
                "weights published"
            );
        }
        Ok(response)
    }

    #[tracing::instrument(skip_all, fields(run = request.run_id, step = request.step))]
    fn save(&mut self, request: SaveCheckpointRequest) -> Result<SaveCheckpointResponse, ServiceError> {
        self.lease.check_owner(&request.run_id, self.learner.version())?;
        self.check_version(request.version)?;
        let done = self.training.grpo_steps();
        if request.step != done {
            let allowed = format!("{done}, the GRPO steps that the learner has done");
            return Err(FieldError::new("step", request.step, allowed).into());
        }
        let start = Instant::now();
        // Whoever returns to a checkpoint finds its weights.
        self.weights.settle(&mut self.learner)?;
        let checkpoint = self.checkpoints.save(&self.learner, request)?;
        self.lease.assign(&checkpoint.run_id);
        let write_us = micros(start.elapsed());
        record("evenkeel_checkpoint_save_seconds", write_us);
        tracing::info!(version = self.learner.version(), seconds = write_us as f64 / 1e6, "checkpoint written");
        Ok(SaveCheckpointResponse { checkpoint: Some(checkpoint), write_us })
    }

    #[tracing::instrument(skip_all, fields(run = request.run_id))]
    fn load(&mut self, request: &LoadCheckpointRequest) -> Result<LoadCheckpointResponse, ServiceError> {
        self.lease.check_expired(&request.run_id)?;
        let start = Instant::now();
        let from = match request.from_run_id.as_str() {
            "" => &request.run_id,
            from => {
                Lease::validate_name("from_run_id", from)?;
                from
            }
        };
        let loaded = self.checkpoints.load(&mut self.learner, request.which.as_ref(), from);
        let (checkpoint, client_state) = loaded?;
        record("evenkeel_checkpoint_load_seconds", micros(start.elapsed()));
        tracing::info!(step = checkpoint.step, "checkpoint loaded");
        self.replaced(&request.run_id, checkpoint.step);
        Ok(LoadCheckpointResponse { checkpoint: Some(checkpoint), client_state })
    }

    #[tracing::instrument(skip_all, fields(run = request.run_id))]
    fn reset(&mut self, request: &ResetRequest) -> Result<ResetResponse, ServiceError> {
        self.lease.check_expired(&request.run_id)?;
        Teller::of(&self.learner).tell(|| order(RankOrder::Reset)).map_err(convert::error)?;
        self.learner.reset().map_err(convert::error)?;
        self.replaced(&request.run_id, 0);
        Ok(ResetResponse {})
    }

    /// Records that the weights are now those of a run after `grpo_steps` steps. Before the answer, since the caller
    /// may request the status right after it.
    fn replaced(&mut self, run_id: &str, grpo_steps: u64) {
        self.lease.assign(run_id);
        self.status.restored(self.learner.version());
        self.training.restored(grpo_steps);
        self.weights.forget();
        self.scoring.published(None);
    }

    fn check_version(&self, version: Option<u64>) -> Result<(), ServiceError> {
        let current = self.learner.version();
        match version {
            Some(version) if version != current => {
                let message = format!("version is {version}, the learner's is {current}");
                Err(ServiceError::Precondition { reason: Reason::VersionMismatch, message })
            }
            _ => Ok(()),
        }
    }
}

fn state_of(command: &Command) -> LearnerState {
    match command {
        Command::Train { .. } | Command::Operate { .. } => LearnerState::Training,
        Command::Publish { .. } | Command::Save { .. } | Command::Load { .. } | Command::Reset { .. } => {
            LearnerState::Writing
        }
    }
}

/// Sends the answer, unless the caller has left.
fn answer<T>(reply: Reply<T>, result: Result<T, ServiceError>) {
    let _ = reply.send(result);
}

fn record(name: &'static str, micros: u64) {
    metrics::histogram!(name).record(Duration::from_micros(micros));
}
