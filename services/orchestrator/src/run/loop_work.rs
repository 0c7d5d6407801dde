//! What the loop has done by the services: each piece of work from its beginning to what it says when it is done.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use evenkeel_proto::v1::{PauseMode, RunState, TrainReport, WeightsRef};
use evenkeel_trust::{ProofReport, SampleScoring, ScoredSamples};
use tokio::sync::Mutex;

use super::evaluator::Evaluator;
use super::position::Position;
use super::records::Records;
use super::state::{LoopEvent, Next};
use super::step_sampler::StepSampler;
use super::step_writer::FinishedStep;
use super::training_steps::TrainingSteps;
use super::trust::{RunLearner, RunProof};
use super::weight_sync::WeightSync;
use crate::clients::{Services, TrainFeed};
use crate::dependency::Dependency;
use crate::error::{Halt, RunError};
use crate::events::Activity;
use crate::instruments::{self, TimedPart};

/// Answers of a step that proofs take their text from.
const PROBE_TEXTS: usize = 256;

/// The parts of a run that its loop uses.
#[derive(Clone, Copy)]
pub(super) struct LoopParts<'a> {
    pub(super) services: &'a Services,
    pub(super) session: &'a TrainingSteps,
    pub(super) weights: &'a WeightSync,
    pub(super) proof: &'a RunProof,
    pub(super) evaluator: &'a Evaluator,
    pub(super) sampler: &'a StepSampler,
    pub(super) records: &'a Mutex<Records<'a>>,
}

/// A piece of work is done.
pub(super) enum Done {
    /// Nothing but this has happened.
    Event(LoopEvent),
    /// All groups of the step are there, and engines sleep where they do while the learner trains.
    Sampled(u64),
    /// The chosen samples of the step are scored.
    Audited(u64, ScoredSamples),
    /// The engines have these weights, after so long.
    Updated(u64, Duration),
    /// The weights are checked, where that was due.
    Proven(u64, Option<ProofReport>),
    /// The learner's report of the step.
    Trained(u64, TrainReport),
    /// The learner has published these weights.
    Published(WeightsRef, Duration),
    /// The checkpoint is written, where one was due, before what follows.
    Kept(Next),
}

impl<'a> LoopParts<'a> {
    /// Waits until the generation service has accepted everything that is on its way.
    pub(super) async fn settle(self) -> Result<Done, Halt> {
        self.weights.until_accepted().await;
        Ok(Done::Event(LoopEvent::Settled))
    }

    /// Updates the engines. The weights are of an `earlier` step where the run has returned to a checkpoint after it.
    pub(super) async fn update_engines(
        self,
        reference: WeightsRef,
        in_flight: PauseMode,
        earlier: Option<u64>,
        published_in: Duration,
    ) -> Result<Done, Halt> {
        let since = Instant::now();
        self.weights.update_engines(&reference, in_flight).await.map_err(|halt| match earlier {
            Some(step) => weights_gone(halt, step, &reference),
            None => halt,
        })?;
        let took = since.elapsed();
        instruments::part_took(TimedPart::UpdateWeights, published_in + took);
        Ok(Done::Updated(reference.version, took))
    }

    /// Proves the weights of the engines, where that is due.
    pub(super) async fn prove(self, reference: WeightsRef) -> Result<Done, Halt> {
        Ok(Done::Proven(reference.version, self.proof.prove(&reference).await?))
    }

    /// Updates the engines back to weights that they lack.
    pub(super) async fn restore(self, reference: WeightsRef, in_flight: PauseMode) -> Result<Done, Halt> {
        self.weights.restore_engines(&reference, in_flight).await?;
        Ok(Done::Event(LoopEvent::Restored { version: reference.version }))
    }

    /// Evaluates the weights after a step, which the engines have. A stop that is requested meanwhile leaves the rest
    /// to the resumed run.
    pub(super) async fn evaluate(self, step: u64, reference: WeightsRef) -> Result<Done, Halt> {
        let events = self.services.events();
        events.begin_samples();
        events.enter_phase(RunState::Evaluating);
        let line = self.evaluator.evaluate(step, &reference).await?;
        let version = reference.version;
        let complete = line.is_some();
        if let Some(line) = line {
            self.records.lock().await.evaluation(line).await?;
        }
        Ok(Done::Event(LoopEvent::Evaluated { version, complete }))
    }

    /// Puts the engines to sleep, where they share the learner's memory.
    pub(super) async fn end_sampling(self, step: u64) -> Result<Done, Halt> {
        self.weights.sleep().await?;
        Ok(Done::Sampled(step))
    }

    /// Scores audited samples of a step, and judges them.
    pub(super) async fn audit(self, step: u64, scoring: SampleScoring) -> Result<Done, Halt> {
        let _during = self.services.events().during(Activity::Proving);
        Ok(Done::Audited(step, scoring.run(&RunLearner(self.services.learner())).await?))
    }

    /// Trains the groups of a step, which may still be sampled.
    pub(super) async fn train(self, step: u64, feed: TrainFeed) -> Result<Done, Halt> {
        let report = self.session.train(&feed, &format!("step {step}")).await?;
        Ok(Done::Trained(step, report))
    }

    /// Publishes the weights after a step, and asks the learner for its scores of them, for their proof. The versions
    /// `also_keep` are kept besides those that a return to a checkpoint needs.
    pub(super) async fn publish(
        self,
        step: u64,
        version: u64,
        mut also_keep: BTreeSet<u64>,
        reported: Instant,
        feed: TrainFeed,
    ) -> Result<Done, Halt> {
        also_keep.extend(self.records.lock().await.checkpoints.kept_versions());
        also_keep.extend(self.proof.anchor());
        let weights = self.weights.publish(version, also_keep.into_iter().collect()).await?;
        let took = reported.elapsed();
        self.proof.note(version, step, || feed.texts(PROBE_TEXTS)).await?;
        Ok(Done::Published(weights, took))
    }

    /// Writes the line of a step.
    pub(super) async fn record(
        self,
        step: u64,
        mut finished: FinishedStep,
        warm_start_steps: u64,
    ) -> Result<Done, Halt> {
        finished.trained = self.proof.note_trained(&finished.sampled.batch);
        self.records.lock().await.step(step, &finished, warm_start_steps).await?;
        Ok(Done::Event(LoopEvent::Recorded(step)))
    }

    /// Writes a checkpoint, where one is due.
    pub(super) async fn keep(self, next: Next, position: Position, weights: WeightsRef) -> Result<Done, Halt> {
        if next == Next::Stop {
            self.services.events().enter_phase(RunState::Stopping);
        }
        self.records.lock().await.keep(next, &position, &weights).await?;
        Ok(Done::Kept(next))
    }
}

/// Weights of an earlier step that a resumed run samples by, and that the engines cannot load any more.
fn weights_gone(halt: Halt, step: u64, weights: &WeightsRef) -> Halt {
    let Halt::Error(RunError::Refused { service: Dependency::Generation, message, .. }) = halt else { return halt };
    RunError::WeightsGone { step, version: weights.version, message }.into()
}
