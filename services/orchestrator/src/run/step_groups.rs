//! The groups of a step on their way to the learner: taken or left out, audited, sent in their order.

use std::time::{Duration, Instant};

use evenkeel_proto::v1::TrainGroup;
use tracing::Span;

use super::sampler_audit::{AuditReport, Scored, Scoring, StepAudit};
use super::state::ClosedStep;
use super::step_lengths::StepLengths;
use crate::clients::TrainFeed;
use crate::error::Halt;
use crate::rollout::{SampledGroup, StepBatch};
use crate::settings::{KeptRollouts, RunSettings};

/// A step that is being sampled, or was.
pub(super) struct StepGroups {
    /// What the learner gets.
    pub(super) feed: TrainFeed,
    /// What logs say of it belongs there.
    pub(super) span: Span,
    /// Version of the weights that sample it, or its first groups.
    pub(super) version: u64,
    pub(super) began: Instant,
    /// How long sampling waited for these weights.
    pub(super) waited: Duration,
    pub(super) batch: StepBatch,
    rewards: (f64, u64),
    audit: Option<StepAudit>,
    kept: KeptTokens,
    /// Nothing is left to sample, and engines sleep where they do.
    is_sampled: bool,
    /// Scoring of audited samples has begun and not ended.
    is_auditing: bool,
    is_ended: bool,
    audited: Option<Scored>,
    /// What the audit of its samples saw, up to its end.
    audit_report: Option<AuditReport>,
    /// Groups from this one on wait for the audit, or for engines that share the learner's memory to sleep.
    hold_from: usize,
    held: Vec<TrainGroup>,
    closed: Option<(ClosedStep, Option<StepLengths>)>,
    last_rollout: Instant,
    last_verdict: Instant,
}

/// What is kept of samples after the learner got them, until their step is recorded.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeptTokens {
    /// Their text.
    pub(super) text: bool,
    /// Their tokens and log-probabilities.
    pub(super) tokens: bool,
}

impl KeptTokens {
    pub(super) fn of(settings: &RunSettings) -> Self {
        let text = settings.rollouts != KeptRollouts::Off;
        Self { text, tokens: text && settings.rollout_tokens }
    }
}

/// The sampled groups of a step, and when they were complete. Their tokens are in the feed and nowhere else, unless the
/// run keeps them.
pub(super) struct SampledStep {
    pub(super) batch: StepBatch,
    /// The pass over the data that its first prompt is in, from 0.
    pub(super) epoch: u64,
    /// Number of the prompt with which the data order goes on.
    pub(super) next_prompt: u64,
    /// Numbers before it that are in no step so far.
    pub(super) waiting: Vec<u64>,
    /// What the order of completion did to lengths. `None` in data order.
    pub(super) lengths: Option<StepLengths>,
    /// What the audit of its samples saw. `None` where there was none.
    pub(super) audit: Option<AuditReport>,
    pub(super) last_rollout: Instant,
    pub(super) last_verdict: Instant,
}

impl StepGroups {
    /// A step that begins. `engines_sleep`: the learner gets nothing before they do.
    pub(super) fn new(
        feed: TrainFeed,
        span: Span,
        version: u64,
        waited: Duration,
        audit: Option<StepAudit>,
        kept: KeptTokens,
        engines_sleep: bool,
    ) -> Self {
        let held_by_audit = audit.as_ref().map_or(usize::MAX, StepAudit::holds_from);
        let now = Instant::now();
        Self {
            feed,
            span,
            version,
            began: now,
            waited,
            batch: StepBatch {
                groups: Vec::new(),
                dynamic: false,
                prompts_tried: 0,
                dropped: Vec::new(),
                filled_up: 0,
                mean_reward_of_all: None,
            },
            rewards: (0.0, 0),
            audit,
            kept,
            is_sampled: false,
            is_auditing: false,
            is_ended: false,
            audited: None,
            audit_report: None,
            hold_from: if engines_sleep { 0 } else { held_by_audit },
            held: Vec::new(),
            closed: None,
            last_rollout: now,
            last_verdict: now,
        }
    }

    /// A group is complete, whatever becomes of it. Returns audited samples that are to be scored.
    pub(super) fn finished(&mut self, group: &SampledGroup, engines_sleep: bool) -> Result<Option<Scoring>, Halt> {
        let Some(audit) = &mut self.audit else { return Ok(None) };
        audit.add(group)?;
        let scoring = if engines_sleep { None } else { audit.begin(false) };
        self.is_auditing |= scoring.is_some();
        Ok(scoring)
    }

    /// The step takes a group, which goes to the learner at that place. One that was left out fills the step up.
    pub(super) fn take(&mut self, group: Option<SampledGroup>, prompt: u64, index: u32, mask_truncated: bool) {
        let mut group = match group {
            Some(group) => self.counted(group),
            None => match self.batch.dropped.iter().position(|group| group.number() == prompt) {
                Some(at) => self.batch.dropped.remove(at),
                None => return,
            },
        };
        let message = group.take_train(index, mask_truncated, self.kept.tokens);
        if index as usize >= self.hold_from {
            self.held.push(message)
        } else {
            self.feed.push(message)
        }
        self.batch.groups.push(group);
    }

    /// The step leaves a group out.
    pub(super) fn leave_out(&mut self, group: SampledGroup) {
        let group = self.counted(group);
        self.batch.dropped.push(group);
    }

    fn counted(&mut self, mut group: SampledGroup) -> SampledGroup {
        if !self.kept.text {
            group.forget_text();
        }
        for rewards in group.samples().iter().filter_map(|sample| sample.rewards()) {
            self.rewards.0 += rewards.raw;
            self.rewards.1 += 1;
        }
        self.last_rollout = self.last_rollout.max(group.last_rollout());
        group
    }

    /// The step has all its groups.
    pub(super) fn close(&mut self, closed: ClosedStep, dynamic: bool, lengths: Option<StepLengths>) {
        let (sum, count) = self.rewards;
        // Only a step that is not full may still take them.
        if !self.kept.tokens {
            self.batch.dropped.iter_mut().for_each(SampledGroup::forget_tokens);
        }
        self.batch.dynamic = dynamic;
        self.batch.filled_up = closed.filled_up;
        self.batch.prompts_tried = (self.batch.groups.len() + self.batch.dropped.len()) as u64;
        self.batch.mean_reward_of_all = (count > 0).then(|| sum / count as f64);
        self.closed = Some((closed, lengths));
    }

    /// All of it is sampled, and engines sleep where they do. Returns audited samples that are to be scored.
    pub(super) fn sampling_ended(&mut self) -> Option<Scoring> {
        self.is_sampled = true;
        self.last_verdict = Instant::now();
        let scoring = self.audit.as_mut().and_then(|audit| audit.begin(true));
        self.is_auditing |= scoring.is_some();
        scoring
    }

    /// The audit of its samples is over.
    pub(super) fn audited(&mut self, scored: Scored) {
        self.audited = Some(scored);
        self.is_auditing = false;
        self.hold_from = usize::MAX;
        self.held.drain(..).for_each(|group| self.feed.push(group));
    }

    /// Whether nothing of it is left to wait for, and the learner has not been told so.
    pub(super) fn is_complete(&self) -> bool {
        self.is_sampled && !self.is_auditing && !self.is_ended
    }

    /// Whether its samples are still to be added to what the audit knows.
    pub(super) fn awaits_audit(&self) -> bool {
        self.audit.is_some()
    }

    /// Ends what the learner gets of a complete step, after every check: without its end it keeps nothing of a step.
    pub(super) fn send_rest(&mut self) -> Result<(), Halt> {
        if let Some(audit) = self.audit.take() {
            self.audit_report = audit.finish(self.audited.take())?;
        }
        self.held.drain(..).for_each(|group| self.feed.push(group));
        self.feed.close();
        self.is_ended = true;
        Ok(())
    }

    /// Everything about it; `epoch_of` says in which pass over the data a prompt is.
    pub(super) fn into_sampled(self, epoch_of: impl Fn(u64) -> u64) -> Option<SampledStep> {
        let (closed, lengths) = self.closed?;
        Some(SampledStep {
            batch: self.batch,
            epoch: epoch_of(closed.first_prompt),
            next_prompt: closed.next_prompt,
            waiting: closed.waiting,
            lengths,
            audit: self.audit_report,
            last_rollout: self.last_rollout,
            last_verdict: self.last_verdict,
        })
    }
}
