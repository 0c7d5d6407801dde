//! Between two steps: new weights for the engines, checkpoints, and what may be thrown away.

use evenkeel_proto::v1::{SaveCheckpointRequest, SleepLevel, WeightsRef};

use super::drive::Driver;
use super::position::Position;
use crate::error::Halt;
use crate::events::Event;
use crate::settings::Engines;

impl Driver {
    /// Whether engines sleep while the learner trains.
    pub(super) fn engines_rest(&self) -> bool {
        self.recipe.sampling.engines_while_training != Engines::Awake
    }

    /// Puts the engines to sleep where the settings want it. The next weights wake them.
    pub(super) async fn rest_engines(&self) -> Result<(), Halt> {
        match self.recipe.sampling.engines_while_training {
            Engines::Awake => Ok(()),
            Engines::Offload => self.services.sleep(SleepLevel::Offload).await,
            Engines::Discard => self.services.sleep(SleepLevel::Discard).await,
        }
    }

    /// Publishes the weights of that version and moves the engines to them.
    pub(super) async fn switch(&mut self, version: u64) -> Result<WeightsRef, Halt> {
        let keep = self.recipe.checkpoint.keep_weights;
        let weights = self.services.publish(self.directory.run_id(), version, keep).await?;
        self.services.update_weights(&weights).await?;
        Ok(weights)
    }

    /// Writes a checkpoint where one is due: after the warm start, every so many steps, at an end. One that the run has just come from
    /// is not written again.
    pub(super) async fn checkpoint_if_due(
        &mut self,
        position: &Position,
        at_end: bool,
        just_loaded: bool,
    ) -> Result<(), Halt> {
        let due = position.step.is_multiple_of(self.recipe.checkpoint.every) || at_end;
        if !due || (just_loaded && position.step > 0) {
            return Ok(());
        }
        // A checkpoint goes back to lines that are surely there.
        for lines in [&self.warm_starts, &self.metrics, &self.evaluations] {
            self.services.retrier.write(lines.path(), || lines.sync()).await?;
        }
        let run_id = self.directory.run_id();
        let request = SaveCheckpointRequest {
            run_id: run_id.to_owned(),
            step: position.step,
            version: Some(position.version),
            client_state: position.to_bytes(),
            keep: Some(self.recipe.checkpoint.keep),
        };
        let saved = self.services.save_checkpoint(request).await?;
        self.events.emit(Event::Checkpoint { step: position.step, path: saved.path });
        // So that whoever looks at a run that is still going sees something.
        if let Err(error) = self.write_summary(self.events.state()) {
            self.events.emit(Event::Warning { message: format!("no report: {error}") });
        }
        Ok(())
    }
}
