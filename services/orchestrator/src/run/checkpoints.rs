//! Checkpoints: written when they are due, and what a run returns to.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use evenkeel_proto::v1::{
    CheckpointRef, LoadCheckpointResponse, RunWrites, SaveCheckpointRequest, WeightsRef, weights_ref,
};
use evenkeel_run::metric::table::EVALUATION_NONCE;
use evenkeel_run::{BEST_FILE, Best, BestKeeper, ForkOrigin, RunDirectory};

use super::changes::ChangeGate;
use super::journal::RunJournal;
use super::position::Position;
use super::run_context::RunContext;
use crate::clients::Services;
use crate::error::{CheckpointError, Halt, Incompatible, StateProblem};
use crate::events::{Activity, Event};
use crate::instruments::{self, TimedPart};
use crate::settings::{CheckpointSettings, LoopSettings, too_small_for_rollouts};

/// Writes and restores checkpoints of both sides: the learner's state, with the loop's inside of it.
pub(super) struct CheckpointKeeper {
    services: Arc<Services>,
    settings: CheckpointSettings,
    /// What the run has on disks at once.
    writes: RunWrites,
    run_id: String,
    identity: String,
    /// Where the run begins, if not at the start.
    forked_from: Option<ForkOrigin>,
    best: BestKeeper,
    directory: RunDirectory,
    gate: ChangeGate,
    /// Whether any is written.
    is_kept: bool,
    /// The checkpoint of this run that was written or restored last, with its step.
    last: Option<(u64, CheckpointRef)>,
    /// Versions of published weights that a return to it needs.
    needed: Vec<u64>,
}

impl CheckpointKeeper {
    pub(super) fn new(context: &RunContext, gate: ChangeGate, is_kept: bool) -> Self {
        let directory = &context.directory;
        let LoopSettings { run, sampling, pipeline, warm_start, checkpoint, .. } = &*context.settings;
        let settings = checkpoint.clone();
        let [checkpoints, versions] = settings.at_once(run, warm_start, pipeline);
        let writes = RunWrites {
            checkpoints,
            versions,
            run_directory: directory.path().display().to_string(),
            rollouts: run.rollouts_bytes(sampling),
            ..RunWrites::default()
        };
        Self {
            services: context.services(),
            run_id: directory.run_id().to_owned(),
            identity: directory.identity().to_owned(),
            forked_from: directory.forked_from().cloned(),
            best: BestKeeper::new(&settings.keep_best, directory.path()),
            settings,
            writes,
            directory: directory.clone(),
            gate,
            is_kept,
            last: None,
            needed: Vec::new(),
        }
    }

    /// The position of a new run.
    ///
    /// # Errors
    /// A learner that was trained already. The weights may belong to another run. Disks that do not hold what the run
    /// keeps.
    pub(super) async fn start(&self) -> Result<Position, Halt> {
        let status = self.services.learner().status().await?;
        let version = status.version;
        let run_id = &self.run_id;
        if version != 0 {
            return Err(Incompatible::TrainedLearner { version, trained: status.run_id, run_id: run_id.clone() }.into());
        }
        self.require_room().await?;
        Ok(Position::start(&self.identity))
    }

    /// Refuses disks that do not hold what a run keeps which has no checkpoint yet.
    async fn require_room(&self) -> Result<(), Halt> {
        if !self.is_kept {
            return Ok(());
        }
        let mut full = self.services.learner().full_disks(self.writes.clone()).await?;
        if full.is_empty() {
            // The learner counts rollouts only where it shares their disk.
            full.extend(too_small_for_rollouts(self.directory.path(), self.writes.rollouts));
        }
        if full.is_empty() { Ok(()) } else { Err(Incompatible::FullDisks(full.join("; ")).into()) }
    }

    /// The changes of inputs and lines that were accepted.
    pub(super) fn take_accepted(&mut self) -> Vec<String> {
        self.gate.take()
    }

    /// The position of the last checkpoint, or where the run begins if there is none; metrics lines after it are
    /// removed. The lines before it must be those that were there when it was written.
    #[tracing::instrument(name = "restore", skip_all)]
    pub(super) async fn restore(&mut self, journal: &mut RunJournal) -> Result<Position, Halt> {
        let (learner, own) = (self.services.learner(), |state: &[u8]| Position::from_bytes(state, &self.identity));
        let loaded = learner.load_checkpoint(&self.run_id).await?;
        let restored = loaded.as_ref().and_then(|loaded| loaded.checkpoint.clone());
        let position = match (loaded, &self.forked_from) {
            (Some(loaded), _) => position_in(&loaded, own)?,
            (None, Some(ForkOrigin { run_id, step, .. })) => {
                self.require_room().await?;
                let loaded = learner.load_checkpoint_of(&self.run_id, run_id, *step).await?;
                position_in(&loaded, |state| Position::forked(state, &self.identity))?
            }
            // Without a checkpoint the run starts over, and so does a learner that outlived it.
            (None, None) => {
                learner.reset(&self.run_id).await?;
                self.require_room().await?;
                Position::start(&self.identity)
            }
        };
        self.gate.admit(journal.changes(&position))?;
        journal.truncate(&position).await?;
        self.best.restore(position.step());
        self.last = restored.map(|restored| (position.step(), restored));
        self.needed = position.earlier_versions();
        Ok(position)
    }

    /// Whether a checkpoint is due: after the warm start, every `checkpoint.every` steps, at the end of a run.
    pub(super) fn is_due(&self, position: &Position, at_end: bool) -> bool {
        self.is_kept && (position.step().is_multiple_of(self.settings.every) || at_end)
    }

    /// Versions of published weights that are to stay: those of the best checkpoint, and those that a return to the
    /// newest one needs. It may be returned to at any moment, also while the next one is written.
    pub(super) fn kept_versions(&self) -> impl Iterator<Item = u64> {
        self.best.best().map(|best| best.policy_version).into_iter().chain(self.needed.iter().copied())
    }

    /// Whether the evaluation at this position is better than all before, so that its checkpoint is to be kept.
    pub(super) fn is_best(&self, position: &Position, journal: &RunJournal) -> Result<bool, Halt> {
        Ok(self.improvement(position, journal)?.is_some())
    }

    fn improvement(&self, position: &Position, journal: &RunJournal) -> Result<Option<f64>, Halt> {
        if self.best.metric().is_empty() || !journal.has_evaluation(position.step()) {
            return Ok(None);
        }
        Ok(self.best.improvement(journal.evaluation(position.step())?.as_ref()))
    }

    /// Notes the checkpoint at this position, which is on the disk, as the best one, if it is.
    pub(super) async fn note_best(
        &mut self,
        position: &Position,
        weights: &WeightsRef,
        journal: &RunJournal,
    ) -> Result<(), Halt> {
        let Some(value) = self.improvement(position, journal)? else { return Ok(()) };
        let Some((_, CheckpointRef { path: checkpoint, .. })) =
            self.last.clone().filter(|(step, _)| *step == position.step())
        else {
            return Ok(());
        };
        let weights = match &weights.source {
            Some(weights_ref::Source::Path(at)) => at.path.clone(),
            _ => String::new(),
        };
        let metric = self.best.metric().to_owned();
        let step = position.step();
        let evaluation = journal.evaluation(step)?;
        let verified = BestKeeper::is_verified(evaluation.as_ref());
        let is_audited = evaluation.is_some_and(|line| line.get(EVALUATION_NONCE.name).is_some());
        if is_audited && !verified {
            let message =
                format!("the evaluation by which step {step} is the best was not verified: best.json says so");
            self.services.events().emit(Event::Note { message });
        }
        let best = Best { metric, value, step, policy_version: position.version(), checkpoint, weights, verified };
        let services = Arc::clone(&self.services);
        let keeper = &mut self.best;
        services.retrier().write(Path::new(BEST_FILE), || keeper.set(best.clone())).await
    }

    /// Says in the receipt which checkpoint was written or restored last.
    pub(super) async fn note_last(&self, journal: &mut RunJournal) -> Result<(), Halt> {
        match &self.last {
            Some((step, checkpoint)) => journal.note_checkpoint(*step, &checkpoint.digest).await,
            None => Ok(()),
        }
    }

    #[tracing::instrument(name = "checkpoint", skip_all, fields(step = position.step()))]
    pub(super) async fn save(&mut self, position: &Position, journal: &mut RunJournal) -> Result<(), Halt> {
        let began = Instant::now();
        let _during = self.services.events().during(Activity::Checkpointing);
        self.directory.check_place()?;
        // A run that returns to this checkpoint needs the lines before it.
        journal.sync().await?;
        let mut state = position.clone();
        state.set_lines(journal.marks(position));
        let request = SaveCheckpointRequest {
            run_id: self.run_id.clone(),
            step: position.step(),
            version: Some(position.version()),
            client_state: state.to_bytes(),
            keep: Some(self.settings.keep),
            keep_steps: self.best.best().map(|best| best.step).into_iter().collect(),
        };
        let saved = self.services.learner().save_checkpoint(request).await?;
        instruments::part_took(TimedPart::Checkpoint, began.elapsed());
        self.last = Some((position.step(), saved.clone()));
        self.note_last(journal).await?;
        self.needed = position.earlier_versions();
        self.services.events().emit(Event::Checkpoint { step: position.step(), path: saved.path });
        journal.refresh_summary();
        Ok(())
    }
}

/// The state of the loop in a checkpoint.
fn position_in(
    loaded: &LoadCheckpointResponse,
    read: impl FnOnce(&[u8]) -> Result<Position, StateProblem>,
) -> Result<Position, Halt> {
    let position = read(&loaded.client_state).map_err(|problem| {
        let path = loaded.checkpoint.as_ref().map_or_else(String::new, |checkpoint| checkpoint.path.clone());
        CheckpointError::State { path, problem }
    });
    Ok(position?)
}
