//! What the groups of steps are made of, and which of them are good enough to train on.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use evenkeel_proto::Purpose;
use evenkeel_proto::v1::FinishReason;
use evenkeel_run::MetricsLine;
use evenkeel_trust::{AuditSchedule, SamplerAudit, StepAudit};

use super::function_failures::FunctionFailures;
use super::judge::Judge;
use super::step_groups::KeptTokens;
use crate::data::{PromptSampler, Prompts};
use crate::error::RunError;
use crate::events::Event;
use crate::rollout::{
    DroppedSamples, GroupRequest, GroupSampling, RolloutContext, RolloutSpec, Rollouts, SampledGroup, SegmentTokens,
    StepBatch,
};
use crate::settings::{LoopSettings, OnError, StepOrder};

/// Makes the groups of steps.
pub(super) struct StepSampler {
    rollouts: Arc<RolloutContext>,
    prompts: Arc<Prompts>,
    order: Mutex<PromptSampler>,
    settings: crate::settings::PolicySamplingSettings,
    spec: RolloutSpec,
    /// How each group is drawn.
    group: Arc<GroupSampling>,
    mask_truncated: bool,
    kept: KeptTokens,
    audit: Arc<SamplerAudit>,
    /// What failures of reward functions do, by verifier, and those of the last steps.
    on_error: BTreeMap<String, OnError>,
    failures: Mutex<FunctionFailures>,
    has_noted_truncated: AtomicBool,
}

impl StepSampler {
    pub(super) fn new(
        rollouts: Arc<RolloutContext>,
        prompts: Arc<Prompts>,
        settings: &LoopSettings,
        audit: Arc<SamplerAudit>,
    ) -> Self {
        Self {
            rollouts,
            order: Mutex::new(PromptSampler::of(&prompts, settings)),
            prompts,
            settings: settings.sampling.clone(),
            spec: RolloutSpec {
                by_newest: settings.pipeline.order == StepOrder::Completion,
                for_training: true,
                segments: SegmentTokens::new(settings),
            },
            group: Arc::new(GroupSampling {
                settings: settings.sampling.of_response(),
                samples: settings.sampling.group_size,
            }),
            mask_truncated: settings.shaping.mask_truncated,
            kept: KeptTokens::of(&settings.run),
            audit,
            on_error: settings.data.verifiers.iter().map(|(name, one)| (name.clone(), one.on_error)).collect(),
            failures: Mutex::default(),
            has_noted_truncated: AtomicBool::new(false),
        }
    }

    /// Refuses a step of which too much is left out.
    ///
    /// # Errors
    /// [`RunError::Late`], [`RunError::RewardFunction`], [`RunError::Invalid`]; [`RunError::NoSamples`] where nothing is left.
    pub(super) fn check(&self, step: u64, batch: &StepBatch) -> Result<(), RunError> {
        let what = format!("step {step}");
        let settings = self.rollouts.services().settings();
        let dropped_samples: DroppedSamples = batch.samples().collect();
        dropped_samples.check_late(&what, settings)?;
        let on_error = |judge: &Judge| match judge {
            Judge::Function(name) => self.on_error.get(name).copied().unwrap_or_default(),
            Judge::Environment(_) => OnError::default(),
        };
        self.failures().add(step, batch, on_error)?;
        let mut samples = batch.groups.iter().flat_map(SampledGroup::samples);
        if !samples.any(|sample| sample.rewards().is_some()) {
            return Err(RunError::NoSamples { step, last: dropped_samples.last_failure().to_owned() });
        }
        dropped_samples.check_invalid(&what, settings)?;
        self.note_truncated(step, batch);
        Ok(())
    }

    /// The run goes on after steps with these lines.
    pub(super) fn resume(&self, lines: &[MetricsLine]) {
        *self.failures() = FunctionFailures::of_lines(lines);
    }

    fn failures(&self) -> MutexGuard<'_, FunctionFailures> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says once that a step had nothing to learn from since every response was cut off and none of their tokens count.
    fn note_truncated(&self, step: u64, batch: &StepBatch) {
        let mut generated = batch.samples().filter(|sample| sample.is_generated());
        let all_cut = self.mask_truncated && generated.all(|sample| sample.finish_reason == FinishReason::Length);
        if all_cut && !self.has_noted_truncated.swap(true, Ordering::Relaxed) {
            let message = format!(
                "step {step}: every response was cut off at sampling.max_tokens = {}, so nothing is learned from them \
                 (shaping.mask_truncated)",
                self.settings.max_tokens
            );
            self.rollouts.services().events().emit(Event::Warning { message });
        }
    }

    /// The rollouts of a run, none of which has begun.
    pub(super) fn rollouts(&self) -> Rollouts {
        Rollouts::new(Arc::clone(&self.rollouts), self.spec)
    }

    /// Which steps are audited from now on. In order of completion there are none.
    pub(super) fn audits(&self) -> AuditSchedule {
        if self.spec.by_newest { AuditSchedule::default() } else { self.audit.schedule() }
    }

    /// The audit of a step whose first prompt has that number. In order of completion there is none.
    pub(super) fn audit(&self, step: u64, first_prompt: u64, is_audited: bool) -> Option<StepAudit> {
        (!self.spec.by_newest).then(|| self.audit.step(step, first_prompt, is_audited))
    }

    /// How steps are sampled.
    pub(super) fn settings(&self) -> &crate::settings::PolicySamplingSettings {
        &self.settings
    }

    /// Whether responses that were cut off stay out of the loss.
    pub(super) fn masks_truncated(&self) -> bool {
        self.mask_truncated
    }

    /// What is kept of samples until their step is recorded.
    pub(super) fn kept(&self) -> KeptTokens {
        self.kept
    }

    /// The pass over the data that a prompt is in, from 0.
    pub(super) fn epoch_of(&self, number: u64) -> u64 {
        self.order().epoch_of(number)
    }

    /// The group of a prompt, which is called after that step.
    pub(super) fn request(&self, step: u64, number: u64) -> GroupRequest {
        let row = self.order().at(number);
        GroupRequest::new(Purpose::Train, step, number, (row as u64, &self.prompts.train[row]), &self.group)
    }

    fn order(&self) -> MutexGuard<'_, PromptSampler> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
