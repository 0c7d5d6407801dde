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

    /// Whether it is about to begin that step, of a run that has done `done` of them: the proof of the weights is awaited,
    /// or the checkpoint is written.
    pub(super) fn will_begin(self, done: u64, step: u64) -> bool {
        matches!(self, Self::Between | Self::Keeping(Next::Step) | Self::Kept(Next::Step)) && step == done + 1
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
            // A stop may have been requested since. Without a lag what the step has sampled meanwhile is dropped.
            LearnerWork::Kept(Next::Step) if self.abandons || (self.stops && self.may_drop(rules, step)) => stop(),
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

    /// Whether a step that the learner has not begun may be given up for a stop.
    fn may_drop(&self, rules: &Rules, step: u64) -> bool {
        !rules.samples_ahead() || self.next_step() == step
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

#[cfg(test)]
mod tests {
    use super::super::LoopEvent;
    use super::super::outside::weights;
    use super::*;

    #[test]
    fn without_a_lag_the_first_samples_wait_for_no_proof_and_no_checkpoint_and_training_waits_for_both() {
        let rules = Rules {
            steps: 1,
            groups: 1,
            group_size: 1,
            prompts_limit: 1,
            segments: 1,
            most_in_flight: 1,
            ..Rules::default()
        };
        let mut state = LoopState::default();
        let mut so_far = state.begin(&rules, weights(0));
        so_far.extend(state.apply(&rules, LoopEvent::Settled));
        assert!(so_far.iter().any(|action| matches!(action, Action::Sample { .. })), "{so_far:?}");
        let before_training = [LoopEvent::EnginesUpdated { version: 0 }, LoopEvent::EnginesReady { version: 0 }];
        so_far.extend(before_training.into_iter().flat_map(|event| state.apply(&rules, event)));
        assert!(so_far.contains(&Action::Prove { version: 0 }) && so_far.contains(&Action::Keep(Next::Step)));
        assert!(!so_far.contains(&Action::Train(1)));
        assert!(state.apply(&rules, LoopEvent::Kept).contains(&Action::Train(1)));
    }

    #[test]
    fn a_stop_while_the_first_checkpoint_is_written_ends_the_run_before_its_first_step() {
        let rules = Rules { steps: 1, groups: 1, group_size: 1, prompts_limit: 1, segments: 1, ..Rules::default() };
        let rules = Rules { most_in_flight: 1, ..rules };
        let mut state = LoopState::default();
        state.begin(&rules, weights(0));
        for event in [
            LoopEvent::Settled,
            LoopEvent::EnginesUpdated { version: 0 },
            LoopEvent::EnginesReady { version: 0 },
            LoopEvent::Stop,
        ] {
            state.apply(&rules, event);
        }
        assert_eq!(state.apply(&rules, LoopEvent::Kept), [Action::Keep(Next::Stop)]);
        assert_eq!(state.apply(&rules, LoopEvent::Kept), [Action::Finish { completed: false }]);
    }
}
