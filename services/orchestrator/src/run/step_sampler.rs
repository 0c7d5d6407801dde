//! The groups of a GRPO step: prompts in data order, sampled, verified, and fed to the learner in data order.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use evenkeel_proto::v1::{FinishReason, TrainGroup};
use evenkeel_proto::{Purpose, SamplingSettings};
use tokio::sync::oneshot;
use tokio::task::{JoinError, JoinSet};
use tracing::Instrument;

use super::sampler_audit::{AuditReport, SamplerAudit};
use super::step_lengths::StepLengths;
use super::weight_sync::WeightSync;
use crate::clients::TrainFeed;
use crate::data::{PromptSampler, Prompts};
use crate::error::{Halt, RunError};
use crate::events::Event;
use crate::rollout::{
    DroppedSamples, GroupRequest, GroupSampling, RolloutContext, RolloutScheduler, RolloutSpec, RoundSchedule, Rounds,
    SampledBy, SampledGroup, StepBatch, StepSelection,
};
use crate::settings::LoopSettings;

/// Samples the groups of steps.
pub(super) struct StepSampler {
    rollouts: Arc<RolloutContext>,
    prompts: Arc<Prompts>,
    order: Mutex<PromptSampler>,
    settings: crate::settings::PolicySamplingSettings,
    round_schedule: RoundSchedule,
    /// How each group is drawn.
    group: Arc<GroupSampling>,
    mask_truncated: bool,
    audit: Arc<SamplerAudit>,
    has_noted_truncated: AtomicBool,
}

/// A step that begins.
pub(super) struct StepStart {
    pub(super) step: u64,
    /// Number of its first prompt in the data order.
    pub(super) cursor: u64,
    /// The weights that sample it, one after the other.
    pub(super) rounds: Arc<Rounds>,
    /// Gets the number of the prompt that the next step begins with, once that is known.
    pub(super) next: oneshot::Sender<u64>,
}

/// The sampled groups of a step, and when they were complete. Their tokens are in the feed and nowhere else.
pub(super) struct SampledStep {
    pub(super) batch: StepBatch,
    /// The pass over the data that its first prompt is in, from 0.
    pub(super) epoch: u64,
    /// Number of the prompt with which the data order goes on.
    pub(super) next_cursor: u64,
    /// Numbers before it that are in no step so far.
    pub(super) waiting: Vec<u64>,
    /// What the order of completion did to lengths. `None` in data order.
    pub(super) lengths: Option<StepLengths>,
    /// What the audit of its samples saw. `None` where there was none.
    pub(super) audit: Option<AuditReport>,
    pub(super) last_rollout: Instant,
    pub(super) last_verdict: Instant,
}

impl StepSampler {
    pub(super) fn new(
        rollouts: Arc<RolloutContext>,
        prompts: Arc<Prompts>,
        settings: &LoopSettings,
        audit: Arc<SamplerAudit>,
    ) -> Self {
        let weights_of_sources: Vec<f64> = prompts.sources.iter().map(|source| source.weight).collect();
        let (seed, shuffle) = (settings.run.seed, settings.data.shuffle);
        Self {
            rollouts,
            order: Mutex::new(PromptSampler::new(prompts.sources_of_train(), &weights_of_sources, seed, shuffle)),
            prompts,
            settings: settings.sampling.clone(),
            round_schedule: RoundSchedule::new(settings),
            group: Arc::new(group_sampling(&settings.sampling)),
            mask_truncated: settings.shaping.mask_truncated,
            audit,
            has_noted_truncated: AtomicBool::new(false),
        }
    }

    /// How a step divides among its rounds.
    pub(super) fn round_schedule(&self) -> RoundSchedule {
        self.round_schedule
    }

    /// Samples a step until it is full. Groups go to the feed as soon as they are next in data order; the last one of the first update waits
    /// for the audit of the step's samples.
    pub(super) async fn sample(
        &self,
        start: StepStart,
        feed: &TrainFeed,
        engines: &WeightSync,
    ) -> Result<SampledStep, Halt> {
        let StepStart { step, cursor, rounds, next } = start;
        let target = u64::from(self.settings.prompts_per_step);
        let mut selection = StepSelection::new(self.settings.dynamic, target, self.settings.prompts_limit(), cursor);
        let spec = RolloutSpec { weights: SampledBy::Rounds(Arc::clone(&rounds)), for_training: true };
        let mut scheduler = RolloutScheduler::new(Arc::clone(&self.rollouts), spec);
        let (mut next, mut started) = (Some(next), 0);
        let mut audit = self.audit.step(step, cursor);
        let (mut auditing, mut audited) = (JoinSet::new(), None);
        // Engines that sleep share the learner's memory: it gets the groups once they do.
        let mut held: Vec<TrainGroup> = Vec::new();
        let mut hold_from = match engines.engines_sleep() {
            true => 0,
            false => audit.holds_from(),
        };
        while !selection.is_full() {
            while started < selection.prompts_needed() {
                scheduler.add(self.request(step, cursor + started).in_rounds(self.round_schedule.rounds_of(started)));
                started += 1;
            }
            // With dynamic sampling any group may need another one, so that only the end of the step tells.
            match self.settings.dynamic {
                true => rounds.complete_before(self.round_schedule.rounds() - 1),
                false => {
                    rounds.complete_before(self.round_schedule.rounds());
                    tell(&mut next, cursor + target);
                }
            }
            let group = tokio::select! {
                biased;
                Some(done) = auditing.join_next() => {
                    audited = Some(finished(done)?);
                    hold_from = usize::MAX;
                    held.drain(..).for_each(|group| feed.push(group));
                    continue;
                }
                group = scheduler.next_group() => group?,
            };
            audit.add(&group)?;
            for (index, group) in selection.add(group) {
                let group = group.take_train(index, self.mask_truncated);
                if index as usize >= hold_from { held.push(group) } else { feed.push(group) }
            }
            if !engines.engines_sleep()
                && let Some(scoring) = audit.begin(false)
            {
                auditing.spawn(scoring.run().in_current_span());
            }
        }
        let (batch, next_cursor) = selection.finish();
        tell(&mut next, next_cursor);
        self.check(step, &batch)?;
        engines.sleep().await?;
        let (last_rollout, last_verdict) = (scheduler.last_rollout(), Instant::now());
        if let Some(scoring) = audit.begin(true) {
            auditing.spawn(scoring.run().in_current_span());
        }
        if let Some(done) = auditing.join_next().await {
            audited = Some(finished(done)?);
        }
        held.into_iter().for_each(|group| feed.push(group));
        // Only now, after every check: without its end the learner keeps nothing of a step.
        feed.close();
        let epoch = self.epoch_of(cursor);
        let (waiting, lengths) = (Vec::new(), None);
        let audit = audit.finish(audited);
        Ok(SampledStep { batch, epoch, next_cursor, waiting, lengths, audit, last_rollout, last_verdict })
    }

    /// Refuses a step of which too much is left out.
    ///
    /// # Errors
    /// [`RunError::Late`], [`RunError::Invalid`]; [`RunError::NoSamples`] where nothing is left.
    pub(super) fn check(&self, step: u64, batch: &StepBatch) -> Result<(), RunError> {
        let (what, settings) = (format!("step {step}"), self.rollouts.services().settings());
        let dropped_samples: DroppedSamples = batch.samples().collect();
        dropped_samples.check_late(&what, settings)?;
        let mut samples = batch.groups.iter().flat_map(SampledGroup::samples);
        if !samples.any(|sample| sample.rewards().is_some()) {
            return Err(RunError::NoSamples { step, last: dropped_samples.last_failure().to_owned() });
        }
        dropped_samples.check_invalid(&what, settings)?;
        self.note_truncated(step, batch);
        Ok(())
    }

    /// Says once that a step had nothing to learn from since every response was cut off and none of their tokens count.
    fn note_truncated(&self, step: u64, batch: &StepBatch) {
        let mut generated = batch.samples().filter(|sample| sample.is_generated());
        let all_cut = self.mask_truncated && generated.all(|sample| sample.finish_reason == FinishReason::Length);
        if all_cut && !self.has_noted_truncated.swap(true, Ordering::Relaxed) {
            let message = format!(
                "step {step}: every response was cut off at sampling.max_tokens = {}, and with shaping.mask_truncated none of them is learned \
                 from",
                self.settings.max_tokens
            );
            self.rollouts.services().events().emit(Event::Warning { message });
        }
    }

    /// What rollouts share.
    pub(super) fn rollouts(&self) -> &Arc<RolloutContext> {
        &self.rollouts
    }

    /// How steps are sampled.
    pub(super) fn settings(&self) -> &crate::settings::PolicySamplingSettings {
        &self.settings
    }

    /// Whether responses that were cut off stay out of the loss.
    pub(super) fn masks_truncated(&self) -> bool {
        self.mask_truncated
    }

    /// The pass over the data that a prompt is in, from 0.
    pub(super) fn epoch_of(&self, number: u64) -> u64 {
        self.order().epoch_of(number)
    }

    /// The group of a prompt, which is called after that step.
    pub(super) fn request(&self, step: u64, number: u64) -> GroupRequest {
        let row = self.order().at(number);
        GroupRequest::new(Purpose::Train, step, number, &self.prompts.train[row], &self.group)
    }

    fn order(&self) -> MutexGuard<'_, PromptSampler> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What became of an audit.
fn finished(done: Result<Result<AuditReport, Halt>, JoinError>) -> Result<AuditReport, Halt> {
    done.map_err(|defect| RunError::Defect(defect.to_string()))?
}

/// Tells once where the next step begins. Nobody waits for it any more where the run has ended.
fn tell(next: &mut Option<oneshot::Sender<u64>>, cursor: u64) {
    if let Some(next) = next.take() {
        let _ = next.send(cursor);
    }
}

fn group_sampling(settings: &crate::settings::PolicySamplingSettings) -> GroupSampling {
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
