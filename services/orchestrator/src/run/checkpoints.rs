//! Checkpoints: written when they are due, and what a run returns to.

use std::sync::Arc;
use std::time::Instant;

use evenkeel_proto::v1::{LoadCheckpointResponse, SaveCheckpointRequest};

use super::journal::RunJournal;
use super::position::Position;
use crate::clients::Services;
use crate::directory::{ForkPoint, RunDirectory};
use crate::error::{Halt, RunError};
use crate::events::{Activity, Event};
use crate::instruments::{self, Phase};
use crate::settings::CheckpointSettings;

/// Writes and restores checkpoints of both sides: the learner's state, with the loop's inside of it.
pub(super) struct CheckpointKeeper {
    services: Arc<Services>,
    settings: CheckpointSettings,
    run_id: String,
    identity: String,
    /// Where the run begins, if not at the start.
    forked_from: Option<ForkPoint>,
}

impl CheckpointKeeper {
    pub(super) fn new(services: Arc<Services>, settings: &CheckpointSettings, directory: &RunDirectory) -> Self {
        let (run_id, identity) = (directory.run_id().to_owned(), directory.identity().to_owned());
        let forked_from = directory.forked_from().cloned();
        Self { services, settings: settings.clone(), run_id, identity, forked_from }
    }

    /// The position of a new run.
    ///
    /// # Errors
    /// A learner that was trained already. Its initial weights may be anybody's.
    pub(super) async fn start(&self) -> Result<Position, Halt> {
        let status = self.services.learner().status().await?;
        let (version, run_id) = (status.version, &self.run_id);
        if version == 0 {
            return Ok(Position::start(&self.identity));
        }
        let message = if status.run_id.is_empty() || status.run_id == *run_id {
            format!("the learner holds version {version} and a new run starts at 0, restart the learner")
        } else {
            format!("the learner holds version {version} of run `{}`, restart it for `{run_id}`", status.run_id)
        };
        Err(RunError::Mismatch(message).into())
    }

    /// The position of the last checkpoint, or where the run begins if there is none; lines after it are removed.
    #[tracing::instrument(name = "restore", skip_all)]
    pub(super) async fn restore(&self, journal: &mut RunJournal) -> Result<Position, Halt> {
        let (learner, own) = (self.services.learner(), |state: &[u8]| Position::from_bytes(state, &self.identity));
        let position = match (learner.load_checkpoint(&self.run_id).await?, &self.forked_from) {
            (Some(loaded), _) => position_in(&loaded, own)?,
            (None, Some(ForkPoint { run_id, step, .. })) => {
                let loaded = learner.load_checkpoint_of(&self.run_id, run_id, *step).await?;
                position_in(&loaded, |state| Position::forked(state, &self.identity))?
            }
            // Without a checkpoint the run starts over; a learner that did steps before answers with its stored reports.
            (None, None) => Position::start(&self.identity),
        };
        journal.truncate(&position).await?;
        Ok(position)
    }

    /// Whether a checkpoint is due: after the warm start, every `checkpoint.every` steps, at the end of a run.
    pub(super) fn is_due(&self, position: &Position, at_end: bool) -> bool {
        position.step().is_multiple_of(self.settings.every) || at_end
    }

    /// Writes a checkpoint.
    #[tracing::instrument(name = "checkpoint", skip_all, fields(step = position.step()))]
    pub(super) async fn save(&self, position: &Position, journal: &RunJournal) -> Result<(), Halt> {
        let began = Instant::now();
        let _during = self.services.events().during(Activity::Checkpointing);
        // Whoever returns to this checkpoint needs the lines before it.
        journal.sync().await?;
        let request = SaveCheckpointRequest {
            run_id: self.run_id.clone(),
            step: position.step(),
            version: Some(position.version()),
            client_state: position.to_bytes(),
            keep: Some(self.settings.keep),
        };
        let saved = self.services.learner().save_checkpoint(request).await?;
        instruments::phase(Phase::Checkpoint, began.elapsed());
        self.services.events().emit(Event::Checkpoint { step: position.step(), path: saved.path });
        journal.refresh_summary();
        Ok(())
    }
}

/// The state of the loop in a checkpoint.
fn position_in(
    loaded: &LoadCheckpointResponse,
    read: impl FnOnce(&[u8]) -> Result<Position, String>,
) -> Result<Position, Halt> {
    let position = read(&loaded.client_state).map_err(|message| {
        let path = loaded.checkpoint.as_ref().map_or("", |checkpoint| checkpoint.path.as_str());
        RunError::Mismatch(format!("the state of the run in checkpoint {path} {message}"))
    });
    Ok(position?)
}
