//! The sampling side: updates the engines from one version of the weights to the next, evaluates each where that is due, and samples the
//! rounds of steps that are theirs.
//!
//! Weights switch once the last sample of their rounds has started: the engines finish what asks for the weights that they have, each on
//! its own, and serve the next rounds while others still do.

mod completion;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use evenkeel_proto::v1::{PauseMode, RunState, WeightsRef};
use tokio::sync::oneshot;
use tracing::Instrument;

use super::PipelineParts;
use super::handover::{EnginesUpdated, OpenStep, SamplingHandle};
use super::in_flight::InFlight;
use super::open_rounds::OpenRounds;
use super::plan::VersionPlan;
use crate::clients::TrainFeed;
use crate::dependency::Dependency;
use crate::error::{Halt, RunError};
use crate::instruments::{self, TimedPart};
use crate::rollout::WeightUpdate;
use crate::run::step_sampler::{SampledStep, StepSampler, StepStart};
use crate::settings::StepOrder;

/// The part of a run that uses the engines.
pub(super) struct SamplingSide<'a> {
    parts: PipelineParts<'a>,
    sampler: &'a StepSampler,
    plan: VersionPlan,
    handle: SamplingHandle,
    start: SamplingStart,
}

/// Where sampling begins.
pub(super) struct SamplingStart {
    /// The first step to sample.
    pub(super) step: u64,
    /// Number of its first prompt in the data order.
    pub(super) cursor: u64,
    /// Numbers before it that are in no step so far; none in data order.
    pub(super) waiting: Vec<u64>,
    /// Version of the weights that it is trained from.
    pub(super) version: u64,
    /// Evaluations that have a metrics line, by the steps before them.
    pub(super) evaluated: BTreeSet<u64>,
}

/// Weights that something is left to sample by.
struct SamplingWeights {
    /// GRPO steps before them.
    weights_step: u64,
    reference: WeightsRef,
    published_in: Duration,
    /// Nothing was sampled before since the run was started.
    is_first: bool,
}

impl<'a> SamplingSide<'a> {
    pub(super) fn new(
        parts: PipelineParts<'a>,
        sampler: &'a StepSampler,
        plan: VersionPlan,
        handle: SamplingHandle,
        start: SamplingStart,
    ) -> Self {
        Self { parts, sampler, plan, handle, start }
    }

    /// Goes through all weights that something is left to sample by, as the schedule of data order has it.
    pub(super) async fn run_in_data_order(self) -> Result<(), Halt> {
        let (mut in_flight, mut open, mut is_first) = (InFlight::default(), OpenRounds::new(self.plan), true);
        let mut next_cursor = known(self.start.cursor);
        for weights_step in self.plan.weights_of(self.start.step)..=self.plan.steps() {
            let evaluates = self.evaluates(weights_step);
            let is_needed = self.plan.samples(weights_step, self.start.step);
            // The engines end with the last weights, whether or not anything is sampled with them.
            if !is_needed && !evaluates && weights_step < self.plan.steps() {
                continue;
            }
            let since = Instant::now();
            let published = in_flight.during(self.handle.weights(weights_step)).await?;
            let mut waited = since.elapsed();
            in_flight.until_updated().await?;
            in_flight.until_steps(self.plan.rounds()).await?;
            in_flight.during(self.parts.weights.until_accepted()).await?;
            let (reference, published_in) = (published.weights, published.took);
            let update = self.begin_update(&reference);
            let to = SamplingWeights { weights_step, reference: reference.clone(), published_in, is_first };
            in_flight.add_update(self.update_engines(to, update));
            is_first = false;
            open.begin(weights_step, &reference);
            let mut complete = true;
            if evaluates {
                in_flight.until_updated().await?;
                complete = in_flight.during(self.evaluate(weights_step, &reference)).await??;
            }
            if !is_needed {
                in_flight.until_updated().await?;
            }
            self.handle.evaluated_through(weights_step, complete);
            for step in self.plan.steps_of(weights_step, self.start.step) {
                if !complete {
                    // A resumed run begins with these weights, and evaluates them, as long as this step is not done.
                    self.handle.end_before(step);
                    break;
                }
                let may_begin = self.handle.may_begin(step, self.plan.samples_ahead(), self.parts.services.stop());
                if !in_flight.during(may_begin).await? {
                    // Those that are being sampled may need later weights.
                    break;
                }
                in_flight.until_steps(self.plan.rounds()).await?;
                // Every step that succeeds sends it, and one that fails ends the run.
                let cursor = in_flight.during(next_cursor).await?;
                let cursor = cursor.map_err(|_| RunError::Defect(format!("where step {step} begins is not known")))?;
                self.handle.begun(cursor + self.sampler.round_schedule().groups());
                let (next, receiver) = oneshot::channel();
                next_cursor = receiver;
                let rounds = self.sampler.rollouts().rounds(self.plan.rounds());
                open.add(step, Arc::clone(&rounds), weights_step, &reference);
                let waited = std::mem::take(&mut waited);
                let sampling = self.sample(StepStart { step, cursor, rounds, next }, weights_step, waited);
                in_flight.add_step(sampling.instrument(tracing::info_span!("step", step)));
                in_flight.during(open.all_begun()).await?;
            }
            in_flight.during(open.all_begun()).await?;
        }
        in_flight.until_ended().await
    }

    /// Whether an evaluation of the weights after `weights_step` steps is due.
    fn evaluates(&self, weights_step: u64) -> bool {
        self.parts.evaluator.is_due(weights_step) && !self.start.evaluated.contains(&weights_step)
    }

    /// Samples of these weights wait for [`Self::update_engines`] from now on.
    fn begin_update(&self, reference: &WeightsRef) -> WeightUpdate<'_> {
        let in_flight = match self.plan.order() {
            StepOrder::Data => PauseMode::Unspecified,
            StepOrder::Completion => PauseMode::Keep,
        };
        self.parts.weights.begin_update(reference, in_flight)
    }

    /// Updates the engines, and checks their weights.
    async fn update_engines(&self, to: SamplingWeights, update: WeightUpdate<'_>) -> Result<(), Halt> {
        let SamplingWeights { weights_step, reference, published_in, is_first } = to;
        let since = Instant::now();
        let updating = self.parts.weights.update_engines(update);
        // It belongs to the step that made the weights.
        let updated = match weights_step.checked_sub(1).filter(|_| !is_first) {
            Some(step) => self.parts.session.trace(step).scope(updating).await,
            None => updating.await,
        };
        if weights_step < self.start.step {
            updated.map_err(|halt| weights_gone(halt, weights_step, &reference))?;
        } else {
            updated?;
        }
        let took = since.elapsed();
        instruments::part_took(TimedPart::UpdateWeights, published_in + took);
        let proof = self.parts.proof.prove(&reference).await?;
        self.handle.engines_updated(EnginesUpdated { weights_step, took, proof });
        Ok(())
    }

    /// Returns whether it was finished; a stop that is requested meanwhile leaves the rest to the resumed run.
    async fn evaluate(&self, weights_step: u64, reference: &WeightsRef) -> Result<bool, Halt> {
        if !self.plan.samples_ahead() {
            self.handle.until_done(weights_step).await;
        }
        let events = self.parts.services.events();
        events.begin_samples();
        events.enter_phase(RunState::Evaluating);
        let line = self.parts.evaluator.evaluate(weights_step, reference).await?;
        let complete = line.is_some();
        line.into_iter().for_each(|line| self.handle.evaluated(line));
        Ok(complete)
    }

    /// Samples a step. `weights_step`: GRPO steps before those of its first round.
    async fn sample(&self, start: StepStart, weights_step: u64, waited: Duration) -> Result<(), Halt> {
        let step = start.step;
        let (feed, sender) = self.open_step(step, weights_step, waited);
        let sampling = self.sampler.sample(start, &feed, self.parts.weights);
        let sampled = self.parts.session.trace(step).scope(sampling).await?;
        // The receiver is gone only when the run ends.
        let _ = sender.send(sampled);
        Ok(())
    }

    /// Hands a step over, whose groups go to its feed, and then everything about them to the sender. The weights after `weights_step` steps
    /// sample it, or the first groups of it; sampling `waited` for them.
    fn open_step(&self, step: u64, weights_step: u64, waited: Duration) -> (TrainFeed, oneshot::Sender<SampledStep>) {
        let events = self.parts.services.events();
        events.begin_samples();
        if self.plan.samples_ahead() && !self.parts.services.stop().is_requested() {
            events.enter_phase(RunState::Training);
        }
        // Every step makes one version, whether or not the optimizer changes the weights.
        let version = self.start.version + (step - self.start.step);
        let feed = self.parts.session.open_step(step, version);
        let (sender, sampled) = oneshot::channel();
        self.handle.hand_over(OpenStep { step, feed: feed.clone(), weights_step, waited, sampled });
        (feed, sender)
    }
}

/// A receiver that has its number already.
fn known(number: u64) -> oneshot::Receiver<u64> {
    let (sender, receiver) = oneshot::channel();
    // The receiver is in this very function.
    let _ = sender.send(number);
    receiver
}

/// Weights of an earlier step that a resumed run samples by, and that the engines cannot load any more.
fn weights_gone(halt: Halt, step: u64, weights: &WeightsRef) -> Halt {
    let Halt::Error(RunError::Refused { service: Dependency::Generation, message, .. }) = halt else { return halt };
    RunError::WeightsGone { step, version: weights.version, message }.into()
}
