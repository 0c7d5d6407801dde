//! What the learner does next: trains the steps in their order, publishes, and keeps checkpoints.

use serde::{Deserialize, Serialize};

use super::event::Next;
use super::{Action, LoopState, Rules};
use crate::settings::StepOrder;

/// Where the learner is in the step after the last one that is done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum LearnerWork {
    /// Before it: the weights of the step before may have to be evaluated, and a stop may end the run.
    #[default]
    Between,
    /// The checkpoint is written.
    Keeping(Next),
    /// The checkpoint is there.
    Kept(Next),
    /// The step is to be trained, once engines have begun to sample it.
    Begun,
    Training,
    /// The step is given up.
    Abandoned,
    /// The report is in.
    Trained,
    /// The weights are being published.
    Publishing,
    Published,
    /// The line of the step is written.
    Recording,
    /// The run is over.
    Over,
}

impl LearnerWork {
    /// Whether it has begun a step, of a run that has done `done` of them.
    pub(super) fn has_begun(self, done: u64, step: u64) -> bool {
        let is_within = !matches!(self, Self::Between | Self::Keeping(_) | Self::Kept(_) | Self::Over);
        step <= done || (is_within && step == done + 1)
    }

    pub(super) fn may_be_abandoned(self) -> bool {
        matches!(self, Self::Begun | Self::Training)
    }

    pub(super) fn abandon(&mut self) {
        if self.may_be_abandoned() {
            *self = Self::Abandoned;
        }
    }

    pub(super) fn has_trained(&mut self) {
        self.advance(Self::Training, Self::Trained);
    }

    pub(super) fn has_published(&mut self) {
        self.advance(Self::Publishing, Self::Published);
    }

    pub(super) fn has_recorded(&mut self) {
        self.advance(Self::Recording, Self::Between);
    }

    pub(super) fn has_kept(&mut self) {
        if let Self::Keeping(next) = *self {
            *self = Self::Kept(next);
        }
    }

    fn advance(&mut self, from: Self, to: Self) {
        if *self == from {
            *self = to;
        }
    }
}

impl LoopState {
    /// Returns whether anything has changed.
    pub(super) fn learn(&mut self, rules: &Rules, out: &mut Vec<Action>) -> bool {
        let step = self.step + 1;
        let (next, action) = match self.learner {
            LearnerWork::Between if self.engines.ready.is_none() || self.waits_for_evaluation(rules) => return false,
            LearnerWork::Between => {
                let is_done = self.step >= rules.steps;
                let next = match (is_done && !self.engines.was_cut_short, self.stops) {
                    (true, _) => Next::End,
                    (false, true) => Next::Stop,
                    (false, false) if is_done => Next::End,
                    (false, false) => Next::Step,
                };
                (LearnerWork::Keeping(next), Some(Action::Keep(next)))
            }
            LearnerWork::Kept(Next::End) => (LearnerWork::Over, Some(Action::Finish { completed: true })),
            LearnerWork::Kept(Next::Stop) => (LearnerWork::Over, Some(Action::Finish { completed: false })),
            // A stop may have been requested since.
            LearnerWork::Kept(Next::Step) if self.abandons || (self.stops && self.next_step() == step) => stop(),
            LearnerWork::Kept(Next::Step) => (LearnerWork::Begun, None),
            LearnerWork::Begun => match self.steps.front() {
                // No update may use what engines sampled before it is known whether they had the weights.
                Some(open) if self.engines.ready >= Some(open.version) => {
                    (LearnerWork::Training, Some(Action::Train(step)))
                }
                None if self.ends_before.is_some_and(|end| end <= step) => stop(),
                _ => return false,
            },
            LearnerWork::Abandoned => stop(),
            LearnerWork::Trained if self.steps.front().is_some_and(|open| open.is_closed) => {
                (LearnerWork::Publishing, Some(Action::Publish { version: self.version_of(step) }))
            }
            // Where the next step cannot begin before, engines come first: the line includes what the whole step took.
            LearnerWork::Published if rules.samples_ahead() || self.engines.ready >= Some(self.version_of(step)) => {
                (LearnerWork::Recording, Some(Action::Record(step)))
            }
            _ => return false,
        };
        self.learner = next;
        out.extend(action);
        true
    }

    /// Whether the evaluation of the newest weights comes before the next step. Where steps are sampled ahead it
    /// overlaps with training, except at the end and where it decides whether the checkpoint stays. In order of
    /// completion it does not: a run that is resumed after the next step never comes back to these weights.
    fn waits_for_evaluation(&self, rules: &Rules) -> bool {
        if self.engines.was_cut_short {
            return false;
        }
        let is_left = self.evaluates(rules, self.step);
        if self.step >= rules.steps || !rules.samples_ahead() {
            return is_left || self.engines.ready < Some(self.version);
        }
        is_left && (rules.keeps_best || rules.order == StepOrder::Completion)
    }
}

fn stop() -> (LearnerWork, Option<Action>) {
    (LearnerWork::Keeping(Next::Stop), Some(Action::Keep(Next::Stop)))
}
