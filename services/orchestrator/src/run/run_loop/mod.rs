//! A run, from preflight to summary: what comes before and after its training loop, and its returns to the last
//! checkpoint.

mod checked;
mod setup;
mod start_files;

use std::sync::Arc;
use std::time::Duration;

use evenkeel_proto::FieldError;
use evenkeel_proto::v1::RunState;
use tokio::sync::Mutex;

use super::checkpoints::CheckpointKeeper;
use super::evaluator::Evaluator;
use super::function_failures;
use super::idle_times::IdleTimes;
use super::in_place::in_place;
use super::in_progress::InProgress;
use super::journal::RunJournal;
use super::loop_work::LoopParts;
use super::position::Position;
use super::preflight::Preflight;
use super::records::Records;
use super::state::Rules;
use super::step_sampler::StepSampler;
use super::step_writer::StepWriter;
use super::training_loop::TrainingLoop;
use super::training_steps::TrainingSteps;
use super::trust::RunProof;
use super::warm_start::WarmStart;
use super::weight_sync::WeightSync;
use crate::clients::Services;
use crate::error::{Halt, RunError};
use crate::events::{Event, RunOutcome};
use crate::instruments;
use crate::settings::LoopSettings;

use evenkeel_run::{RunDirectory, Summary};
use start_files::StartFiles;

pub use checked::StartNeeds;
pub(super) use checked::{Checked, require_environments, stop_at_end_of_turn, with_verifiers};
pub(super) use setup::prepare;

/// How often the learner may lose the run at one and the same step.
const MAX_REWINDS_PER_STEP: u32 = 5;

/// A run: its parts, and the order in which they act.
pub(super) struct RunLoop {
    settings: Arc<LoopSettings>,
    directory: RunDirectory,
    services: Arc<Services>,
    preflight: Preflight,
    checkpoints: CheckpointKeeper,
    weights: Arc<WeightSync>,
    proof: RunProof,
    warm_start: WarmStart,
    evaluator: Evaluator,
    training: Arc<TrainingSteps>,
    sampler: StepSampler,
    writer: StepWriter,
    idle_times: IdleTimes,
    journal: RunJournal,
    announcement: Announcement,
    /// GRPO steps that were done before this process.
    done_before: u64,
}

/// What a run reports when it starts.
struct Announcement {
    /// Problems that it trains on.
    problems: usize,
    /// What the user should know about the settings.
    notes: Vec<String>,
    /// What is wrong with the data.
    warning: Option<String>,
    /// What a resumed run writes once it goes on.
    start_files: StartFiles,
}

/// Counts how often the learner lost its state at the same step.
#[derive(Default)]
struct RewindCount {
    at: Option<(u64, u64)>,
    times: u32,
}

impl RunLoop {
    pub(super) fn directory(&self) -> &RunDirectory {
        &self.directory
    }

    pub(super) fn services(&self) -> &Arc<Services> {
        &self.services
    }

    /// Runs to the end, whatever it is.
    pub(super) async fn run(mut self) -> Result<(RunOutcome, Summary), RunError> {
        let result = self.run_with_rewinds().await;
        let used = self.services.stop().used_budget();
        let used_budget = used.map(|limit| RunError::JudgeBudget { limit: limit.to_owned() });
        let state = match &result {
            Ok(RunOutcome::Completed) => RunState::Completed,
            Ok(RunOutcome::Stopped) => RunState::Stopped,
            Err(_) => RunState::Failed,
        };
        let summary = self.journal.finish(state, result.is_ok()).await;
        self.journal.report_audit();
        let is_stopped = matches!(result, Ok(RunOutcome::Stopped));
        let used_budget = used_budget.filter(|_| is_stopped);
        let events = self.services.events();
        events
            .ended(state, result.as_ref().err().or(used_budget.as_ref()).map(ToString::to_string).unwrap_or_default());
        instruments::run_ended(state);
        let result = match (result, summary) {
            (Ok(outcome), Ok(summary)) => used_budget.map_or(Ok((outcome, summary)), Err),
            (Ok(_), Err(error)) | (Err(error), _) => Err(error),
        };
        // A process that has done no step has seen no weights move: what was proven before it stands in the summary.
        let has_trained = self.journal.steps_done().0 > self.done_before;
        if let Some(conclusion) = self.proof.conclusion().filter(|_| result.is_ok() && has_trained) {
            // Before this process the number that chooses samples may have been fixed, or an engine never verified.
            let of_run = result.as_ref().ok().and_then(|(_, summary)| summary.weights);
            let is_verified = conclusion.starts_with("verified");
            let doubted =
                of_run.filter(|weights| weights.nonce_is_fixed || (is_verified && weights.unverified_engines > 0));
            let conclusion = doubted.map_or(conclusion, |weights| weights.to_string());
            events.emit(Event::Note { message: format!("engine weights: {conclusion}") });
        }
        let lag = self.settings.pipeline.max_lag;
        if let Some(message) = self.idle_times.advice(lag).filter(|_| lag > 0) {
            events.emit(Event::Note { message });
        }
        match &result {
            Ok((outcome, summary)) => {
                events.emit(Event::Finished { outcome: *outcome, summary: Box::new(summary.clone()) });
            }
            Err(error) => events.emit(Event::Failed { message: error.to_string() }),
        }
        result
    }

    /// Starts over from the last checkpoint whenever the learner has lost its state.
    async fn run_with_rewinds(&mut self) -> Result<RunOutcome, RunError> {
        let mut from_checkpoint = self.directory.is_resumed() || self.directory.forked_from().is_some();
        let directory = self.directory.clone();
        let mut rewinds = RewindCount::default();
        let mut lost = None;
        let mut started = false;
        loop {
            let attempt = self.attempt(from_checkpoint, lost.take(), &mut started);
            let message = match in_place(&directory, attempt).await {
                Ok(outcome) => return Ok(outcome),
                Err(Halt::Stop) => return Ok(RunOutcome::Stopped),
                Err(Halt::Error(error)) => return Err(error),
                Err(Halt::LearnerLost(message)) => message,
            };
            let (step, _) = self.journal.steps_done();
            let times = rewinds.add(self.journal.steps_done());
            if times >= MAX_REWINDS_PER_STEP {
                return Err(RunError::NoProgress { step, times, message });
            }
            tracing::warn!(message, "the learner lost its state, returning to the last checkpoint");
            instruments::rewind();
            (from_checkpoint, lost) = (true, Some(message));
        }
    }

    /// From the current position to the end, unless the learner loses it. `lost` says why the previous attempt ended.
    async fn attempt(
        &mut self,
        from_checkpoint: bool,
        lost: Option<String>,
        started: &mut bool,
    ) -> Result<RunOutcome, Halt> {
        self.journal.set_versions(self.preflight.run().await?);
        let mut position = if from_checkpoint {
            self.checkpoints.restore(&mut self.journal).await?
        } else {
            self.checkpoints.start().await?
        };
        if self.settings.run.steps < position.step() {
            let allowed = format!("at least {}, the steps that are done", position.step());
            return Err(FieldError::new("run.steps", self.settings.run.steps, allowed).into());
        }
        self.services.events().at_step(position.step(), position.warm_start_steps());
        if !std::mem::replace(started, true) {
            self.announce(position.step())?;
        }
        self.journal.continue_receipt(position.step()).await?;
        self.checkpoints.note_last(&mut self.journal).await?;
        if let Some(message) = lost {
            self.services.events().emit(Event::Rewound { step: position.step(), message });
        }
        let in_flight = position.in_flight();
        if let Some(last) = in_flight.clone().last() {
            let message = format!(
                "prompts {} to {last} of the data order were being sampled at the checkpoint and are sampled again",
                in_flight.start
            );
            self.services.events().emit(Event::Note { message });
        }
        let warmed_up = position.warm_start_steps();
        if self.warm_start.run(&mut position, &mut self.journal).await? == RunOutcome::Stopped {
            return Ok(RunOutcome::Stopped);
        }
        // The checkpoint that the run has just come from is not written again: the receipt has its digest.
        let is_saved = from_checkpoint && position.warm_start_steps() == warmed_up;
        self.steps(position, is_saved).await
    }

    /// Evaluations, checkpoints and GRPO steps, with nothing in flight.
    async fn steps(&mut self, mut position: Position, is_saved: bool) -> Result<RunOutcome, Halt> {
        let origin = self.directory.forked_from().map_or(0, |fork| fork.step);
        let has_problems = self.evaluator.has_problems();
        let rules = Rules::new(&self.settings, origin, has_problems, self.sampler.audits());
        let state = position.state().resumed(self.journal.evaluated());
        *position.state_mut() = state;
        self.services.events().forget_samples();
        self.sampler.resume(&self.journal.last_steps(function_failures::STEPS)?);
        let step = position.step();
        let order = self.settings.pipeline.order;
        let is_ahead = self.settings.pipeline.max_lag > 0;
        let also_keep = self.checkpoints.kept_versions().chain(position.earlier_versions()).collect();
        let records = Mutex::new(Records {
            services: &self.services,
            writer: &self.writer,
            journal: &mut self.journal,
            checkpoints: &mut self.checkpoints,
            idle_times: &mut self.idle_times,
            is_saved,
        });
        let parts = LoopParts {
            services: &self.services,
            session: &self.training,
            weights: &self.weights,
            proof: &self.proof,
            evaluator: &self.evaluator,
            sampler: &self.sampler,
            records: &records,
        };
        let mut in_progress = InProgress::new(parts, order, is_ahead, step);
        for weights in position.state().published() {
            in_progress.add_weights(weights.reference(), Duration::ZERO);
        }
        let version = position.version();
        let training_loop = TrainingLoop::new(rules, position, in_progress)?;
        let newest = self.weights.publish(version, also_keep).await?;
        records.lock().await.begin(step, &newest).await?;
        self.proof.begin_with(version);
        records.lock().await.idle_times.begin();
        training_loop.run(newest).await
    }

    /// The run goes on from here: a resumed one writes down with what.
    fn announce(&mut self, step: u64) -> Result<(), RunError> {
        self.done_before = step;
        self.proof.goes_on_with(self.journal.unverified_engines()?);
        let accepted = self.checkpoints.take_accepted();
        if self.directory.is_resumed() {
            self.announcement.start_files.accept(step, accepted.clone());
            self.announcement.start_files.write(&self.directory)?;
        }
        self.directory.mark_entered();
        let events = self.services.events();
        events.emit(Event::Started {
            run_id: self.directory.run_id().to_owned(),
            directory: self.directory.path().to_owned(),
            step,
            total_steps: self.settings.run.steps,
            warm_start_steps: self.settings.warm_start.steps,
            problems: self.announcement.problems,
        });
        for message in self.announcement.notes.drain(..) {
            events.emit(Event::Note { message });
        }
        for change in accepted {
            let message = format!("continues with a changed input: {change}");
            events.emit(Event::Warning { message });
        }
        if let Some(message) = self.announcement.warning.take() {
            events.emit(Event::Warning { message });
        }
        Ok(())
    }
}

impl RewindCount {
    /// Adds a loss at that position. Returns how many there were at it.
    fn add(&mut self, position: (u64, u64)) -> u32 {
        self.times = if self.at == Some(position) { self.times + 1 } else { 1 };
        self.at = Some(position);
        self.times
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_losses_at_the_same_step_add_up() {
        let mut rewinds = RewindCount::default();
        let times = [(0, 2), (0, 2), (1, 2), (0, 2), (0, 2), (0, 2)].map(|position| rewinds.add(position));
        assert_eq!(times, [1, 2, 1, 1, 2, 3]);
    }
}
