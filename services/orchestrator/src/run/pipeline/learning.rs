//! The learning side: trains the steps in their order, publishes the weights of each, and writes metrics lines and checkpoints.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use evenkeel_proto::v1::{RunState, TrainReport, WeightsRef};

use super::PipelineParts;
use super::handover::{EvaluatedLines, LearningHandle, OpenStep, Published};
use super::idle_times::IdleTimes;
use super::plan::VersionPlan;
use crate::dependency::Dependency;
use crate::error::{Halt, RunError};
use crate::events::{Event, RunOutcome};
use crate::run::checkpoints::CheckpointKeeper;
use crate::run::journal::RunJournal;
use crate::run::position::{Position, PublishedWeights};
use crate::run::step_metrics::{StepTimes, Waits};
use crate::run::step_sampler::SampledStep;
use crate::run::step_writer::{FinishedStep, StepWriter};
use crate::settings::StepOrder;

/// Answers of a step that proofs take their text from.
const PROBE_TEXTS: usize = 256;

/// The part of a run that uses the learner.
pub(super) struct LearningSide<'a> {
    pub(super) parts: PipelineParts<'a>,
    pub(super) writer: &'a StepWriter,
    pub(super) checkpoints: &'a mut CheckpointKeeper,
    pub(super) journal: &'a mut RunJournal,
    pub(super) idle_times: &'a mut IdleTimes,
    pub(super) plan: VersionPlan,
    pub(super) handle: LearningHandle,
    pub(super) lines: EvaluatedLines,
    pub(super) position: Position,
    /// The weights at this position.
    pub(super) current: WeightsRef,
    /// Whether this position is that of a checkpoint.
    pub(super) is_saved: bool,
}

/// A step that the learner has done.
struct Trained {
    open: OpenStep,
    sampled: SampledStep,
    report: TrainReport,
    waited: Duration,
}

impl LearningSide<'_> {
    /// Steps and checkpoints in their order, to the last step or to a stop.
    pub(super) async fn run(mut self) -> Result<RunOutcome, Halt> {
        self.handle.first_engines().await;
        self.idle_times.begin();
        loop {
            let step = self.position.step();
            let is_done = step >= self.plan.steps();
            let is_evaluated = !self.waits_for_evaluation(step, is_done) || self.evaluation(step).await?;
            if !(is_done && is_evaluated) && self.parts.services.stop().is_requested() {
                return self.stop().await;
            }
            self.keep(is_done).await?;
            if is_done {
                return Ok(RunOutcome::Completed);
            }
            // A stop may have been requested since.
            if !self.handle.begin(step) {
                return self.stop().await;
            }
            self.parts.services.events().enter_phase(RunState::Training);
            if !self.step().await? {
                return self.stop().await;
            }
            self.is_saved = false;
        }
    }

    /// Ends the run at this position.
    async fn stop(&mut self) -> Result<RunOutcome, Halt> {
        self.parts.services.events().enter_phase(RunState::Stopping);
        match self.keep(true).await {
            Ok(()) => {}
            // The learner had finished the step that was given up: it is past this position, and the last checkpoint is what is left.
            Err(Halt::LearnerLost(reason)) if self.parts.services.stop().abandons_step() => {
                let step = self.position.step();
                let message = format!("no checkpoint after {step} steps: the learner is past them ({reason})");
                self.parts.services.events().emit(Event::Warning { message });
            }
            Err(halt) => return Err(halt),
        }
        Ok(RunOutcome::Stopped)
    }

    /// Whether the evaluation of the weights after `step` steps comes before the next step. Where steps are sampled ahead it overlaps with
    /// training, except at the end and where it decides whether the checkpoint stays. In order of completion it does not: a run that is
    /// resumed after the next step never comes back to these weights.
    fn waits_for_evaluation(&self, step: u64, is_done: bool) -> bool {
        let is_due = || self.parts.evaluator.is_due(step);
        let must_precede = self.checkpoints.keeps_best() || self.plan.order() == StepOrder::Completion;
        is_done || !self.plan.samples_ahead() || (must_precede && is_due())
    }

    /// Waits for it and writes its metrics line. Returns whether nothing is left to evaluate.
    async fn evaluation(&mut self, step: u64) -> Result<bool, Halt> {
        let Self { handle, lines, journal, .. } = self;
        let complete = recording(lines, journal, handle.until_evaluated(step)).await?;
        while let Some(line) = lines.ready() {
            journal.append(&line).await?;
            journal.announce(line);
        }
        Ok(complete)
    }

    /// Writes the checkpoint at this position where it is due, and notes the best one.
    async fn keep(&mut self, at_end: bool) -> Result<(), Halt> {
        let is_best = self.checkpoints.is_best(&self.position, self.journal)?;
        if !self.is_saved && (is_best || self.checkpoints.is_due(&self.position, at_end)) {
            self.position.set_begun(self.handle.prompts_begun());
            self.checkpoints.save(&self.position, self.journal).await?;
            self.is_saved = true;
        }
        if is_best {
            self.checkpoints.note_best(&self.position, &self.current, self.journal).await?;
        }
        Ok(())
    }

    /// Does the next step and moves the position past it; its metrics line is written then. Returns false where it is not sampled any more.
    #[tracing::instrument(name = "step", skip_all, fields(step = self.position.step()))]
    async fn step(&mut self) -> Result<bool, Halt> {
        let trace = self.parts.session.trace(self.position.step());
        trace.scope(self.step_within()).await
    }

    async fn step_within(&mut self) -> Result<bool, Halt> {
        let (began, step) = (Instant::now(), self.position.step());
        let events = self.parts.services.events();
        events.at_step(step, self.position.warm_start_steps());
        let Some(Trained { open, sampled, report, waited }) = self.train(step).await? else { return Ok(false) };
        let reported = Instant::now();

        let weights = self.publish(step + 1, report.version).await?;
        let published_in = reported.elapsed();
        self.parts.proof.note(report.version, step + 1, || open.feed.texts(PROBE_TEXTS)).await?;
        self.handle.publish(step + 1, Published { weights: weights.clone(), took: published_in });
        // Where the next step cannot begin before, engines come first: the line includes what the whole step took.
        let (engines, updated_in) = match self.plan.samples_ahead() {
            true => (self.handle.engines(open.weights_step).await, Duration::ZERO),
            false => {
                let engines = self.handle.engines(step + 1).await;
                let took = engines.took;
                (engines, took)
            }
        };
        let (last_rollout, last_verdict) = (sampled.last_rollout.max(began), sampled.last_verdict.max(began));
        let times = StepTimes {
            generation: last_rollout - began,
            reward: last_verdict.saturating_duration_since(last_rollout),
            update_actor: reported.saturating_duration_since(last_verdict),
            update_weights: published_in + updated_in,
            step: began.elapsed(),
        };
        let oldest = sampled.batch.oldest_version();
        let lag = oldest.map_or(step - open.weights_step, |oldest| report.base_version - oldest);
        let waits = Waits { lag, learner: waited, sampling: open.waited };
        self.idle_times.add(waits.learner, waits.sampling);
        let finished = FinishedStep {
            sampled: &sampled,
            report: &report,
            times,
            proof: engines.proof,
            waits: self.plan.samples_ahead().then_some(waits),
        };
        let line = self.writer.write(step, &finished, self.journal).await?;
        self.advance(&sampled, report.version, weights);
        events.at_step(self.position.step(), self.position.warm_start_steps());
        self.journal.announce(line);
        self.handle.done(self.position.step());
        Ok(true)
    }

    /// Trains the groups of a step, which may still be sampled. Lines of evaluations are written meanwhile. `None` where it is not sampled
    /// any more.
    async fn train(&mut self, step: u64) -> Result<Option<Trained>, Halt> {
        let Self { handle, lines, journal, plan, parts: PipelineParts { session, services, .. }, .. } = self;
        let what = format!("step {step}");
        let work = async {
            let since = Instant::now();
            let Some(mut open) = handle.next_step().await else { return Ok(None) };
            let feed = open.feed.clone();
            let not_begun = since.elapsed();
            // No update may use what engines sampled before it is known whether they had the weights.
            if plan.samples_ahead() {
                handle.engines(open.weights_step).await;
            }
            let sampled = async { Ok::<_, Halt>(open.sampled().await) };
            let (sampled, report) = tokio::try_join!(sampled, session.train(&feed, &what))?;
            Ok::<_, Halt>(Some(Trained { waited: not_begun + idle(&report), open, sampled, report }))
        };
        // Until its report is there, the state of both sides is that of the last whole step.
        let work = async {
            tokio::select! {
                biased;
                trained = work => trained,
                () = services.stop().step_abandoned() => Ok(None),
            }
        };
        let Some(trained) = recording(lines, journal, work).await?? else { return Ok(None) };
        let expected = self.position.version() + 1;
        if (trained.open.step, trained.report.version) != (step, expected) {
            let message = format!("it produced version {} from version {}", trained.report.version, expected - 1);
            return Err(RunError::Refused { service: Dependency::Learner, what, message }.into());
        }
        Ok(Some(trained))
    }

    /// Publishes the weights after `steps` steps, and says which other versions are kept.
    async fn publish(&self, steps: u64, version: u64) -> Result<WeightsRef, Halt> {
        let mut also_keep: BTreeSet<u64> = self.checkpoints.best_version().into_iter().collect();
        // The newest checkpoint may be returned to at any moment, also while the next one is written.
        also_keep.extend(self.checkpoints.needed_versions());
        also_keep.extend(self.published_at(steps).iter().map(PublishedWeights::version));
        also_keep.extend(self.parts.proof.anchor());
        self.parts.weights.publish(version, also_keep.into_iter().collect()).await
    }

    /// The weights that a checkpoint after `steps` steps needs: those before it that later steps are sampled with.
    fn published_at(&self, steps: u64) -> Vec<PublishedWeights> {
        let current = PublishedWeights::new(self.position.step(), &self.current);
        let all = self.position.published().iter().cloned().chain(current);
        all.filter(|weights| self.plan.is_needed_at(steps, weights.step())).collect()
    }

    fn advance(&mut self, sampled: &SampledStep, version: u64, weights: WeightsRef) {
        let published = self.published_at(self.position.step() + 1);
        self.position.finish_step(sampled.next_cursor, version);
        self.position.set_waiting(sampled.waiting.clone());
        self.position.set_published(published);
        self.current = weights;
    }
}

/// How long the learner had nothing to do in a step.
fn idle(report: &TrainReport) -> Duration {
    let timings = report.timings.unwrap_or_default();
    let busy = timings.score_us + timings.gradient_us + timings.optimizer_us;
    Duration::from_micros(timings.total_us.saturating_sub(busy))
}

/// Does something while the metrics lines of evaluations that end meanwhile are written.
async fn recording<T>(
    lines: &mut EvaluatedLines,
    journal: &mut RunJournal,
    work: impl Future<Output = T>,
) -> Result<T, Halt> {
    let mut work = std::pin::pin!(work);
    loop {
        tokio::select! {
            biased;
            line = lines.next() => {
                journal.append(&line).await?;
                journal.announce(line);
            }
            done = &mut work => return Ok(done),
        }
    }
}
