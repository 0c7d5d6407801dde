//! What a run leaves behind while its steps go on: lines, checkpoints, and what its two sides waited for.

use evenkeel_proto::v1::WeightsRef;
use evenkeel_run::MetricsLine;

use super::checkpoints::CheckpointKeeper;
use super::idle_times::IdleTimes;
use super::journal::RunJournal;
use super::position::Position;
use super::state::Next;
use super::step_writer::{FinishedStep, StepWriter};
use crate::clients::Services;
use crate::error::Halt;
use crate::events::Event;

/// The files of a run, which one thing after the other writes to.
pub(super) struct Records<'a> {
    pub(super) services: &'a Services,
    pub(super) writer: &'a StepWriter,
    pub(super) journal: &'a mut RunJournal,
    pub(super) checkpoints: &'a mut CheckpointKeeper,
    pub(super) idle_times: &'a mut IdleTimes,
    /// Whether the position after the last recorded step is that of a checkpoint.
    pub(super) is_saved: bool,
}

impl Records<'_> {
    /// The run begins its steps after that many, with these published weights.
    pub(super) async fn begin(&mut self, step: u64, weights: &WeightsRef) -> Result<(), Halt> {
        self.journal.begin_receipt(step, weights).await?;
        self.checkpoints.note_last(self.journal).await
    }

    /// Writes the line of a step and says that it is done.
    pub(super) async fn step(&mut self, step: u64, finished: &FinishedStep, warm_start_steps: u64) -> Result<(), Halt> {
        self.idle_times.add(finished.waits.learner, finished.waits.sampling);
        let line = self.writer.write(step, finished, self.journal).await?;
        self.is_saved = false;
        self.services.events().at_step(step, warm_start_steps);
        self.journal.announce(line);
        Ok(())
    }

    /// Writes the line of an evaluation.
    pub(super) async fn evaluation(&mut self, line: MetricsLine) -> Result<(), Halt> {
        self.journal.append(&line).await?;
        self.journal.announce(line);
        Ok(())
    }

    /// Writes the checkpoint at a position where it is due, and notes the best one.
    pub(super) async fn keep(&mut self, next: Next, position: &Position, weights: &WeightsRef) -> Result<(), Halt> {
        match self.keep_due(next != Next::Step, position, weights).await {
            // The learner had finished the step that was given up: it is past this position, and the last checkpoint is
            // what is left.
            Err(Halt::LearnerLost(reason)) if next == Next::Stop && self.services.stop().abandons_step() => {
                let step = position.step();
                let message = format!("no checkpoint after {step} steps: the learner is past them ({reason})");
                self.services.events().emit(Event::Warning { message });
                Ok(())
            }
            kept => kept,
        }
    }

    async fn keep_due(&mut self, at_end: bool, position: &Position, weights: &WeightsRef) -> Result<(), Halt> {
        let is_best = self.checkpoints.is_best(position, self.journal)?;
        if !self.is_saved && (is_best || self.checkpoints.is_due(position, at_end)) {
            self.checkpoints.save(position, self.journal).await?;
            self.is_saved = true;
        }
        if is_best {
            self.checkpoints.note_best(position, weights, self.journal).await?;
        }
        Ok(())
    }
}
