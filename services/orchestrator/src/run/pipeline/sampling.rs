//! The sampling side: moves the engines from weights to weights, evaluates these where that is due, and samples the steps that are theirs.
//!
//! Weights switch once the last sample of a step has started: the engines finish what asks for the weights that they have, each on its own,
//! and serve the next step while others still do.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use evenkeel_proto::v1::{RunState, WeightsRef};
use tokio::sync::oneshot;
use tracing::Instrument;

use super::handover::{EnginesAt, OpenStep, SamplingEnd};
use super::in_flight::InFlight;
use super::plan::VersionPlan;
use crate::clients::Services;
use crate::error::{Halt, RunError};
use crate::instruments::{self, Phase};
use crate::rollout::RolloutContext;
use crate::run::evaluator::Evaluator;
use crate::run::proof::Proof;
use crate::run::step_sampler::{StepSampler, StepStart};
use crate::run::train_session::TrainSession;
use crate::run::weight_sync::WeightSync;

/// Steps before the one that begins that may still have samples out.
const OVERLAPPING: usize = 1;

/// The part of a run that uses the engines.
pub(super) struct SamplingSide<'a> {
    pub(super) services: &'a Services,
    pub(super) session: &'a TrainSession,
    pub(super) weights: &'a WeightSync,
    pub(super) proof: &'a Proof,
    pub(super) evaluator: &'a Evaluator,
    pub(super) sampler: &'a StepSampler,
    pub(super) rollouts: &'a RolloutContext,
    pub(super) plan: VersionPlan,
    pub(super) end: SamplingEnd,
    pub(super) start: SamplingStart,
}

/// Where sampling begins.
pub(super) struct SamplingStart {
    /// The first step to sample.
    pub(super) step: u64,
    /// Number of its first prompt in the data order.
    pub(super) cursor: u64,
    /// Version of the weights that it is trained from.
    pub(super) version: u64,
    /// Evaluations that have a line, by the steps before them.
    pub(super) evaluated: BTreeSet<u64>,
}

/// Weights that something is left to sample by.
struct Visit {
    /// GRPO steps before them.
    weights: u64,
    reference: WeightsRef,
    published_in: Duration,
    /// Nothing was sampled before since the run was started.
    is_first: bool,
}

impl SamplingSide<'_> {
    /// Goes through all weights that something is left to sample by.
    pub(super) async fn run(self) -> Result<(), Halt> {
        let (mut in_flight, mut is_first, mut cursor) = (InFlight::default(), true, self.start.cursor);
        for weights in self.plan.weights_of(self.start.step)..=self.plan.steps() {
            let steps = self.plan.steps_of(weights, self.start.step);
            let evaluates = self.evaluator.is_due(weights) && !self.start.evaluated.contains(&weights);
            // The engines end with the last weights, whether or not anything is sampled by them.
            if steps.is_empty() && !evaluates && weights < self.plan.steps() {
                continue;
            }
            let since = Instant::now();
            let published = in_flight.during(self.end.weights(weights)).await?;
            let mut waited = since.elapsed();
            in_flight.until_moved().await?;
            in_flight.until_steps(OVERLAPPING).await?;
            in_flight.during(self.weights.until_accepted()).await?;
            let (reference, published_in) = (published.weights, published.took);
            let visit = Visit { weights, reference: reference.clone(), published_in, is_first };
            in_flight.add_move(self.move_engines(visit));
            is_first = false;
            let mut complete = true;
            if evaluates {
                in_flight.until_moved().await?;
                complete = in_flight.during(self.evaluate(weights, &reference)).await??;
            }
            if steps.is_empty() {
                in_flight.until_moved().await?;
            }
            self.end.visited(weights, complete);
            for step in steps {
                let may_begin = self.end.may_begin(step, self.plan.samples_ahead(), self.services.stop());
                in_flight.during(may_begin).await?;
                in_flight.until_steps(OVERLAPPING).await?;
                let (started, next_cursor) = oneshot::channel();
                let start = StepStart { step, cursor, started };
                let waited = std::mem::take(&mut waited);
                let sampling = self.sample(start, weights, reference.clone(), waited);
                in_flight.add_step(sampling.instrument(tracing::info_span!("step", step)));
                let next = in_flight.during(next_cursor).await?;
                // It is always told before a step ends well, and one that fails ends the run.
                cursor = next.map_err(|_| RunError::Defect(format!("step {step} ended without its last sample")))?;
            }
        }
        in_flight.until_ended().await
    }

    async fn move_engines(&self, visit: Visit) -> Result<(), Halt> {
        let Visit { weights, reference, published_in, is_first } = visit;
        let since = Instant::now();
        let moving = self.rollouts.turns().begin_move(reference.version);
        let moving_engines = self.weights.move_engines(&reference);
        // It belongs to the step that made the weights.
        let moved = match weights.checked_sub(1).filter(|_| !is_first) {
            Some(step) => self.session.trace(step).scope(moving_engines).await,
            None => moving_engines.await,
        };
        if weights < self.start.step {
            moved.map_err(|halt| gone(halt, weights, &reference))?;
        } else {
            moved?;
        }
        moving.succeeded(reference.version);
        let moved = since.elapsed();
        instruments::phase(Phase::UpdateWeights, published_in + moved);
        // The learner waits for the first weights, and for all of them where nothing is sampled ahead; elsewhere it has begun a step.
        let learner_waits = !self.plan.samples_ahead() || (is_first && weights == self.start.step);
        let proof = self.proof.prove(&reference, learner_waits).await?;
        self.end.moved(EnginesAt { weights, moved, proof });
        Ok(())
    }

    /// Returns whether it was finished; a stop that is requested meanwhile leaves the rest to the resumed run.
    async fn evaluate(&self, weights: u64, reference: &WeightsRef) -> Result<bool, Halt> {
        if !self.plan.samples_ahead() {
            self.end.until_done(weights).await;
        }
        let events = self.services.events();
        events.begin_samples();
        events.enter_phase(RunState::Evaluating);
        let line = self.evaluator.evaluate(weights, reference).await?;
        let complete = line.is_some();
        line.into_iter().for_each(|line| self.end.evaluated(line));
        Ok(complete)
    }

    async fn sample(
        &self,
        start: StepStart,
        weights: u64,
        reference: WeightsRef,
        waited: Duration,
    ) -> Result<(), Halt> {
        let (events, step) = (self.services.events(), start.step);
        events.begin_samples();
        if self.plan.samples_ahead() && !self.services.stop().is_requested() {
            events.enter_phase(RunState::Training);
        }
        // Every step makes one version, whether or not the optimizer moves the weights.
        let version = self.start.version + (step - self.start.step);
        let feed = self.session.open_step(step, version);
        let (sender, sampled) = oneshot::channel();
        self.end.hand_over(OpenStep { step, feed: feed.clone(), weights, waited, sampled });
        let sampling = self.sampler.sample(start, &reference, &feed, self.weights);
        let sampled = self.session.trace(step).scope(sampling).await?;
        // The other end is gone only when the run ends.
        let _ = sender.send(sampled);
        Ok(())
    }
}

/// Weights of an earlier step that a resumed run samples by, and that the engines cannot load any more.
fn gone(halt: Halt, step: u64, weights: &WeightsRef) -> Halt {
    let Halt::Error(RunError::Refused { service: "generation", message, .. }) = halt else { return halt };
    RunError::WeightsGone { step, version: weights.version, message }.into()
}
