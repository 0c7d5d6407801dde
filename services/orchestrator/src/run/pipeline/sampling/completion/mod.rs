//! Steps in order of completion: prompts are started in data order by the newest weights, and a step takes the groups that are complete
//! first. A group that would become too old is waited for (`staleness.rs`), so that nothing is dropped.
//!
//! Weights switch while samples are in flight, which go on with the new ones.

mod prompt_queue;
mod staleness;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{oneshot, watch};
use tracing::Instrument;

use super::super::in_flight::InFlight;
use super::{SamplingSide, SamplingWeights};
use crate::clients::TrainFeed;
use crate::error::Halt;
use crate::rollout::{RolloutScheduler, RolloutSpec, SampledBy, SampledGroup, StepBatch};
use crate::run::step_lengths::StepLengths;
use crate::run::step_sampler::SampledStep;
use prompt_queue::PromptQueue;
use staleness::StalenessBudget;

impl SamplingSide<'_> {
    /// Moves the engines to the newest weights whenever there are new ones, while steps fill in order of completion.
    pub(in crate::run::pipeline) async fn run_in_order_of_completion(self) -> Result<(), Halt> {
        let (newest, seen) = watch::channel(None);
        let mut in_flight = InFlight::default();
        in_flight.add_step(StepAssembler::new(&self).run(seen));
        let (mut next, mut is_first) = (self.start.step, true);
        while next <= self.plan.steps() {
            let due = self.handle.newest_weights(next, |weights_step| self.evaluates(weights_step));
            let (weights_step, published) = in_flight.during(due).await?;
            let (reference, published_in) = (published.weights, published.took);
            let to = SamplingWeights { weights_step, reference: reference.clone(), published_in, is_first };
            let update = self.begin_update(&reference);
            in_flight.during(self.update_engines(to, update)).await??;
            let mut complete = true;
            if self.evaluates(weights_step) {
                complete = in_flight.during(self.evaluate(weights_step, &reference)).await??;
            }
            self.handle.evaluated_through(weights_step, complete);
            newest.send_replace(Some(weights_step));
            (next, is_first) = (weights_step + 1, false);
        }
        in_flight.until_ended().await
    }
}

/// Starts prompts and puts groups into steps.
struct StepAssembler<'a> {
    side: &'a SamplingSide<'a>,
    scheduler: RolloutScheduler,
    budget: StalenessBudget,
    queue: PromptQueue,
    /// The groups that are in no step, by the number of their prompt: the weights that started each.
    out: BTreeMap<u64, u64>,
    /// Those of them that are complete, in order of completion.
    complete: VecDeque<SampledGroup>,
    /// The highest number of a prompt that is in a step.
    highest: Option<u64>,
    /// How long nothing was in flight, since the last step began.
    idle: Duration,
}

/// A step that is being filled.
struct PartialStep {
    step: u64,
    feed: TrainFeed,
    sampled: oneshot::Sender<SampledStep>,
    groups: Vec<SampledGroup>,
    dropped: Vec<SampledGroup>,
    filled_up: u64,
    /// Groups that later prompts of the data order overtook.
    overtaken: u64,
}

impl<'a> StepAssembler<'a> {
    fn new(side: &'a SamplingSide<'a>) -> Self {
        let (sampler, start) = (side.sampler, &side.start);
        let spec = RolloutSpec { weights: SampledBy::Newest, for_training: true };
        Self {
            side,
            scheduler: RolloutScheduler::new(Arc::clone(sampler.rollouts()), spec),
            budget: StalenessBudget::new(
                sampler.settings().prompts_per_step.into(),
                side.plan.lag(),
                side.plan.steps(),
                start.step,
            ),
            queue: PromptQueue::new(&start.waiting, start.cursor),
            out: BTreeMap::new(),
            complete: VecDeque::new(),
            highest: None,
            idle: Duration::ZERO,
        }
    }

    /// Fills every step of the run, in order. `newest` is the step of the weights that the engines were last updated to.
    async fn run(mut self, mut newest: watch::Receiver<Option<u64>>) -> Result<(), Halt> {
        let mut weights_step = newer_weights(&mut newest).await;
        while !self.budget.is_over() {
            let Some(mut partial) = self.begin_step(weights_step).await else { return Ok(()) };
            self.take_complete(&mut partial);
            // Its samples may end up in a later step; what they log until then is best found under the step that they were started for.
            let span = tracing::info_span!("step", step = partial.step);
            weights_step = self.fill(&mut partial, weights_step, &mut newest).instrument(span).await?;
            self.finish_step(partial)?;
            self.budget.next_step();
        }
        Ok(())
    }

    /// Starts prompts and takes groups until the step is full. Returns the step of the weights that the engines were last updated to.
    async fn fill(
        &mut self,
        partial: &mut PartialStep,
        mut weights_step: u64,
        newest: &mut watch::Receiver<Option<u64>>,
    ) -> Result<u64, Halt> {
        while !self.budget.is_full() {
            self.start_prompts(weights_step);
            let idle_since = self.scheduler.is_idle().then(Instant::now);
            tokio::select! {
                biased;
                newer = newer_weights(newest) => weights_step = newer,
                group = self.scheduler.next_group(), if idle_since.is_none() => self.add(group?, partial),
            }
            self.idle += idle_since.map(|since| since.elapsed()).unwrap_or_default();
            self.take_complete(partial);
        }
        Ok(weights_step)
    }

    /// Hands the next step over to the learner, which trains its groups as they come. `None` where a stop was requested.
    async fn begin_step(&mut self, weights_step: u64) -> Option<PartialStep> {
        let (side, step) = (self.side, self.budget.step());
        if !side.handle.may_begin(step, true, side.parts.services.stop()).await {
            return None;
        }
        let (feed, sampled) = side.open_step(step, weights_step, std::mem::take(&mut self.idle));
        Some(PartialStep { step, feed, sampled, groups: Vec::new(), dropped: Vec::new(), filled_up: 0, overtaken: 0 })
    }

    fn start_prompts(&mut self, weights_step: u64) {
        let mut prompts = self.budget.may_start(weights_step);
        if self.side.parts.services.stop().is_requested() {
            // Only what the step that is being filled needs.
            prompts = prompts.min(self.budget.missing().saturating_sub(self.budget.out()));
        }
        for _ in 0..prompts {
            let number = self.queue.next();
            self.scheduler.add(self.side.sampler.request(weights_step, number));
            self.budget.start(weights_step);
            self.out.insert(number, weights_step);
        }
    }

    /// A group is complete. Dynamic sampling drops it where it has no advantage, up to the number of prompts that a step may try.
    fn add(&mut self, mut group: SampledGroup, partial: &mut PartialStep) {
        let sampling = self.side.sampler.settings();
        let may_drop = sampling.prompts_limit().saturating_sub(sampling.prompts_per_step.into());
        if sampling.dynamic && group.is_zero_advantage() && (partial.dropped.len() as u64) < may_drop {
            if let Some(weights_step) = self.out.remove(&group.number()) {
                self.budget.leave(weights_step);
            }
            group.forget_tokens();
            partial.dropped.push(group);
        } else {
            self.complete.push_back(group);
        }
    }

    /// The step takes what is complete, as far as older groups let it.
    fn take_complete(&mut self, partial: &mut PartialStep) {
        let sampler = self.side.sampler;
        let weights_of = |out: &BTreeMap<u64, u64>, group: &SampledGroup| out.get(&group.number()).copied();
        while let Some(at) = self
            .complete
            .iter()
            .position(|group| weights_of(&self.out, group).is_some_and(|weights_step| self.budget.takes(weights_step)))
        {
            let Some(mut group) = self.complete.remove(at) else { return };
            let number = group.number();
            if let Some(weights_step) = self.out.remove(&number) {
                self.budget.take(weights_step);
            }
            partial.overtaken += u64::from(self.highest > Some(number));
            partial.filled_up += u64::from(sampler.settings().dynamic && group.is_zero_advantage());
            let index = partial.groups.len() as u32;
            partial.feed.push(group.take_train(index, sampler.masks_truncated()));
            partial.groups.push(group);
        }
    }

    /// The step is full: it is checked, and closed.
    fn finish_step(&mut self, partial: PartialStep) -> Result<(), Halt> {
        let PartialStep { step, feed, sampled, groups, dropped, filled_up, overtaken } = partial;
        let sampler = self.side.sampler;
        let batch = StepBatch::of(groups, dropped, sampler.settings().dynamic, filled_up);
        sampler.check(step, &batch)?;
        feed.close();
        let numbers = || batch.groups.iter().map(SampledGroup::number);
        let lengths = StepLengths::new(&batch.groups, &self.complete, &self.scheduler, overtaken);
        self.highest = self.highest.max(numbers().max());
        let (next_cursor, waiting) = self.queue.rest(self.out.keys().copied());
        let epoch = sampler.epoch_of(numbers().min().unwrap_or(next_cursor));
        let now = Instant::now();
        // The receiver is gone only when the run ends.
        let _ = sampled.send(SampledStep {
            batch,
            epoch,
            next_cursor,
            waiting,
            lengths: Some(lengths),
            audit: None,
            last_rollout: now,
            last_verdict: now,
        });
        Ok(())
    }
}

/// Waits until the engines are updated to other weights. Returns these.
async fn newer_weights(newest: &mut watch::Receiver<Option<u64>>) -> u64 {
    loop {
        if newest.changed().await.is_err() {
            // The engines have the last weights: no newer ones come.
            return std::future::pending().await;
        }
        if let Some(weights_step) = *newest.borrow_and_update() {
            return weights_step;
        }
    }
}
