//! The groups of a step on their way to the learner. The state of the loop decides when each of them goes.

use std::time::Instant;

use evenkeel_proto::v1::TrainGroup;
use evenkeel_trust::{AuditReport, SampleScoring, ScoredSamples, StepAudit};
use tracing::Span;

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
    pub(super) batch: StepBatch,
    rewards: (f64, u64),
    audit: Option<StepAudit>,
    kept: KeptTokens,
    scored: Option<ScoredSamples>,
    /// What the audit of its samples saw, up to its end.
    audit_report: Option<AuditReport>,
    /// Groups that the learner does not get yet.
    held: Vec<TrainGroup>,
    closed: Option<(ClosedStep, Option<StepLengths>)>,
    last_rollout: Instant,
    last_verdict: Instant,
}

/// What is kept of samples after the learner got them, until their step is recorded.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeptTokens {
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
    /// A step that begins.
    pub(super) fn new(feed: TrainFeed, span: Span, audit: Option<StepAudit>, kept: KeptTokens) -> Self {
        let now = Instant::now();
        Self {
            feed,
            span,
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
            scored: None,
            audit_report: None,
            held: Vec::new(),
            closed: None,
            last_rollout: now,
            last_verdict: now,
        }
    }

    /// A group is complete. Returns whether every sample is there that the audit has chosen.
    pub(super) fn finished(&mut self, group: &SampledGroup) -> Result<bool, Halt> {
        let Some(audit) = &mut self.audit else { return Ok(false) };
        audit.add(group)?;
        Ok(audit.is_ready())
    }

    /// The step takes a group, which goes to the learner at that place, or is held. One that was left out fills the
    /// step up.
    pub(super) fn take(
        &mut self,
        group: Option<SampledGroup>,
        prompt: u64,
        index: u32,
        mask_truncated: bool,
        is_held: bool,
    ) {
        let mut group = match group {
            Some(group) => self.counted(group),
            None => match self.batch.dropped.iter().position(|group| group.number() == prompt) {
                Some(at) => self.batch.dropped.remove(at),
                None => return,
            },
        };
        let message = group.take_train(index, mask_truncated, self.kept.tokens);
        if is_held {
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

    /// All of it is sampled, and engines sleep where they do.
    pub(super) fn sampled(&mut self) {
        self.last_verdict = Instant::now();
    }

    /// The samples that the audit has chosen, to be scored.
    pub(super) fn take_audited(&mut self) -> Option<SampleScoring> {
        self.audit.as_mut()?.take_samples()
    }

    /// The chosen samples are scored.
    pub(super) fn scored(&mut self, scored: ScoredSamples) {
        self.scored = Some(scored);
    }

    /// The learner gets the groups that are held.
    pub(super) fn release(&mut self) {
        self.held.drain(..).for_each(|group| self.feed.push(group));
    }

    /// Ends what the learner gets, after every check: without its end it keeps nothing of a step.
    pub(super) fn end(&mut self) -> Result<(), Halt> {
        if let Some(audit) = self.audit.take() {
            self.audit_report = audit.finish(self.scored.take())?;
        }
        self.release();
        self.feed.close();
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
