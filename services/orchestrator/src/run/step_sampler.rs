//! The groups of a GRPO step: prompts in data order, sampled, verified, and fed to the learner in data order.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use evenkeel_proto::v1::{TrainGroup, WeightsRef};
use evenkeel_proto::{Purpose, SamplingSettings};
use tokio::sync::oneshot;

use super::weight_sync::WeightSync;
use crate::clients::TrainFeed;
use crate::data::{PromptSampler, Prompts};
use crate::error::{Halt, RunError};
use crate::rollout::{
    GroupPlan, GroupSampling, RolloutContext, RolloutScheduler, RolloutSpec, SampledGroup, StepBatch, StepSelection,
};
use crate::settings::LoopSettings;

/// Samples the groups of steps.
pub(super) struct StepSampler {
    rollouts: Arc<RolloutContext>,
    prompts: Arc<Prompts>,
    order: Mutex<PromptSampler>,
    settings: crate::settings::SamplingSettings,
    /// How each group is drawn.
    group: Arc<GroupSampling>,
    mask_truncated: bool,
}

/// A step that begins.
pub(super) struct StepStart {
    pub(super) step: u64,
    /// Number of its first prompt in the data order.
    pub(super) cursor: u64,
    /// Gets the number of the prompt that the next step begins with, once all samples of this one have started and no more can follow.
    pub(super) started: oneshot::Sender<u64>,
}

/// The sampled groups of a step, and when they were complete. Their tokens are in the feed and nowhere else.
pub(super) struct SampledStep {
    pub(super) batch: StepBatch,
    /// The pass over the data that its first prompt is in, from 0.
    pub(super) epoch: u64,
    /// Number of the prompt that the next step begins with.
    pub(super) next_cursor: u64,
    pub(super) last_rollout: Instant,
    pub(super) last_verdict: Instant,
}

impl StepSampler {
    pub(super) fn new(rollouts: Arc<RolloutContext>, prompts: Arc<Prompts>, settings: &LoopSettings) -> Self {
        let weights_of_sources: Vec<f64> = prompts.sources.iter().map(|source| source.weight).collect();
        let (seed, shuffle) = (settings.run.seed, settings.data.shuffle);
        Self {
            rollouts,
            order: Mutex::new(PromptSampler::new(prompts.sources_of_train(), &weights_of_sources, seed, shuffle)),
            prompts,
            settings: settings.sampling.clone(),
            group: Arc::new(group_sampling(&settings.sampling)),
            mask_truncated: settings.shaping.mask_truncated,
        }
    }

    /// Samples a step until it is full. Groups go to the feed as soon as they are next in data order.
    pub(super) async fn sample(
        &self,
        start: StepStart,
        weights: &WeightsRef,
        feed: &TrainFeed,
        engines: &WeightSync,
    ) -> Result<SampledStep, Halt> {
        let StepStart { step, cursor, started: next } = start;
        let target = u64::from(self.settings.prompts_per_step);
        let mut selection = StepSelection::new(self.settings.dynamic, target, self.settings.prompts_limit(), cursor);
        let mut scheduler = RolloutScheduler::new(Arc::clone(&self.rollouts), spec(weights));
        // With dynamic sampling any group may need another one, so that only the end of the step tells.
        let mut next = Some(next);
        let mut all_started = scheduler.all_started();
        let mut started = 0;
        // Engines that sleep share the learner's memory: it gets the groups once they do.
        let mut held: Vec<TrainGroup> = Vec::new();
        while !selection.is_full() {
            while started < selection.prompts_needed() {
                scheduler.add(self.plan(step, cursor + started));
                started += 1;
            }
            let group = tokio::select! {
                biased;
                Ok(()) = &mut all_started, if !self.settings.dynamic && next.is_some() => {
                    tell(&mut next, cursor + target);
                    continue;
                }
                group = scheduler.next_group() => group?,
            };
            let released = selection.add(group).into_iter();
            let released = released.map(|(index, group)| group.take_train(index, self.mask_truncated));
            if engines.engines_sleep() { held.extend(released) } else { released.for_each(|group| feed.push(group)) }
        }
        let (batch, next_cursor) = selection.finish();
        tell(&mut next, next_cursor);
        scheduler.check_late(&format!("step {step}"))?;
        let mut samples = batch.groups.iter().flat_map(SampledGroup::samples);
        if !samples.any(|sample| sample.rewards().is_some()) {
            return Err(RunError::NoSamples { step, last: scheduler.last_failure().to_owned() }.into());
        }
        scheduler.check_invalid(&format!("step {step}"))?;
        engines.sleep().await?;
        held.into_iter().for_each(|group| feed.push(group));
        // Only now, after every check: without its end the learner keeps nothing of a step.
        feed.close();
        let epoch = self.order().epoch_of(cursor);
        let (last_rollout, last_verdict) = (scheduler.last_rollout(), Instant::now());
        Ok(SampledStep { batch, epoch, next_cursor, last_rollout, last_verdict })
    }

    fn plan(&self, step: u64, number: u64) -> GroupPlan {
        let place = self.order().at(number);
        GroupPlan::new(Purpose::Train, step, number, &self.prompts.train[place], &self.group)
    }

    fn order(&self) -> MutexGuard<'_, PromptSampler> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells once where the next step begins. Nobody waits for it any more where the run has ended.
fn tell(next: &mut Option<oneshot::Sender<u64>>, cursor: u64) {
    if let Some(next) = next.take() {
        let _ = next.send(cursor);
    }
}

fn spec(weights: &WeightsRef) -> RolloutSpec {
    RolloutSpec { weights: Some(weights.clone()), for_training: true }
}

fn group_sampling(settings: &crate::settings::SamplingSettings) -> GroupSampling {
    let sampling = SamplingSettings {
        temperature: settings.temperature,
        top_p: settings.top_p,
        top_k: settings.top_k,
        min_p: settings.min_p,
        min_tokens: settings.min_tokens,
        stop_token_ids: settings.stop_token_ids.clone(),
        ..SamplingSettings::plain(settings.max_tokens, 0)
    };
    GroupSampling { settings: sampling, samples: settings.group_size }
}
