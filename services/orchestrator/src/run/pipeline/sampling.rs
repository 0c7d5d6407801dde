//! The sampling side: moves the engines from weights to weights, evaluates these where that is due, and samples the steps that are theirs.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use evenkeel_proto::v1::{RunState, WeightsRef};
use tokio::sync::oneshot;

use super::handover::{EnginesAt, OpenStep, SamplingEnd};
use super::plan::VersionPlan;
use crate::clients::Services;
use crate::error::{Halt, RunError};
use crate::instruments::{self, Phase};
use crate::run::evaluator::Evaluator;
use crate::run::proof::Proof;
use crate::run::step_sampler::StepSampler;
use crate::run::train_session::TrainSession;
use crate::run::weight_sync::WeightSync;

/// The part of a run that uses the engines.
pub(super) struct SamplingSide<'a> {
    pub(super) services: &'a Services,
    pub(super) session: &'a TrainSession,
    pub(super) weights: &'a WeightSync,
    pub(super) proof: &'a Proof,
    pub(super) evaluator: &'a Evaluator,
    pub(super) sampler: &'a mut StepSampler,
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

impl SamplingSide<'_> {
    /// Goes through all weights that something is left to sample by.
    pub(super) async fn run(mut self) -> Result<(), Halt> {
        let mut is_first = true;
        for weights in self.plan.weights_of(self.start.step)..=self.plan.steps() {
            let steps = self.plan.steps_of(weights, self.start.step);
            let evaluates = self.evaluator.is_due(weights) && !self.start.evaluated.contains(&weights);
            // The engines end with the last weights, whether or not anything is sampled by them.
            if steps.is_empty() && !evaluates && weights < self.plan.steps() {
                continue;
            }
            let since = Instant::now();
            let published = self.end.weights(weights).await;
            let mut waited = since.elapsed();
            let reference = published.weights;
            let engines = self.move_engines(weights, &reference, published.took, is_first).await?;
            is_first = false;
            let complete = !evaluates || self.evaluate(weights, &reference).await?;
            self.end.visited(weights, complete);
            for step in steps {
                self.end.may_begin(step, self.plan.samples_ahead(), self.services.stop()).await;
                self.sample(step, engines, &reference, std::mem::take(&mut waited)).await?;
            }
        }
        Ok(())
    }

    async fn move_engines(
        &self,
        weights: u64,
        reference: &WeightsRef,
        published_in: Duration,
        is_first: bool,
    ) -> Result<EnginesAt, Halt> {
        let since = Instant::now();
        let moved = self.weights.move_engines(reference).await;
        if weights < self.start.step {
            moved.map_err(|halt| gone(halt, weights, reference))?;
        } else {
            moved?;
        }
        let moved = since.elapsed();
        instruments::phase(Phase::UpdateWeights, published_in + moved);
        // The learner waits for the first weights, and for all of them where nothing is sampled ahead; elsewhere it has begun a step.
        let learner_waits = !self.plan.samples_ahead() || (is_first && weights == self.start.step);
        let proof = self.proof.prove(reference, learner_waits).await?;
        let engines = EnginesAt { weights, moved, proof };
        self.end.moved(engines);
        Ok(engines)
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

    #[tracing::instrument(name = "step", skip_all, fields(step))]
    async fn sample(
        &mut self,
        step: u64,
        engines: EnginesAt,
        weights: &WeightsRef,
        waited: Duration,
    ) -> Result<(), Halt> {
        let events = self.services.events();
        events.begin_samples();
        if self.plan.samples_ahead() && !self.services.stop().is_requested() {
            events.enter_phase(RunState::Training);
        }
        // Every step makes one version, whether or not the optimizer moves the weights.
        let version = self.start.version + (step - self.start.step);
        let feed = self.session.open_step(step, version);
        let (sender, sampled) = oneshot::channel();
        self.end.hand_over(OpenStep { step, feed: feed.clone(), engines, waited, sampled });
        let sampling = self.sampler.sample(step, self.start.cursor, weights, &feed, self.weights);
        let sampled = self.session.trace(step).scope(sampling).await?;
        self.start.cursor = sampled.next_cursor;
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
