//! Which groups wait before the learner gets them, and when it has the last one of a step.
//!
//! Groups wait for the audit of their step's samples, from the last group of the first update on, or all of them for
//! engines that share the learner's memory to sleep. Steps end in their order: what the audit saw of a step counts
//! after what it saw of the steps before.

use serde::{Deserialize, Serialize};

use super::{Action, BegunStep, LoopState, OpenStep, Rules};

/// What keeps groups of a step from the learner.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Hold {
    /// The place from which on groups wait.
    from: Option<u32>,
    held: u32,
    audit: Audit,
    /// All of it is sampled and checked, and engines sleep where they do.
    is_sampled: bool,
}

/// Where the audit of a step's samples is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
enum Audit {
    /// No audit, or one that is over.
    #[default]
    Idle,
    /// Samples that it has chosen are still missing, or engines are not asleep.
    Due,
    /// The learner scores them.
    Scoring,
}

impl Hold {
    /// What a step that begins holds back.
    fn new(rules: &Rules, step: u64) -> Self {
        let is_audited = rules.is_audited(step);
        let by_audit = is_audited.then(|| rules.audits.first_update.saturating_sub(1));
        let from = if rules.engines_sleep { Some(0) } else { by_audit };
        let audit = if is_audited { Audit::Due } else { Audit::Idle };
        Self { from, audit, ..Self::default() }
    }

    /// Whether a group at this place waits, which is counted.
    pub(super) fn holds(&mut self, index: u32) -> bool {
        let is_held = self.from.is_some_and(|from| index >= from);
        self.held += u32::from(is_held);
        is_held
    }

    fn begin_audit(&mut self, step: u64, out: &mut Vec<Action>) {
        if self.audit == Audit::Due {
            self.audit = Audit::Scoring;
            out.push(Action::Audit(step));
        }
    }

    /// No group waits any more. Returns whether any has waited.
    fn release(&mut self) -> bool {
        self.from = None;
        std::mem::take(&mut self.held) > 0
    }

    fn may_end(&self) -> bool {
        self.is_sampled && self.audit != Audit::Scoring
    }
}

impl LoopState {
    /// A step begins, with these weights and this prompt.
    pub(super) fn open_step(&mut self, rules: &Rules, step: u64, version: u64, out: &mut Vec<Action>) {
        let first_prompt = self.prompts.peek();
        let hold = Hold::new(rules, step);
        let is_audited = hold.audit == Audit::Due;
        self.steps.push_back(OpenStep { hold, ..OpenStep::new(step, version, first_prompt) });
        out.push(Action::BeginStep(BegunStep { step, version, first_prompt, is_audited }));
    }

    /// Every sample of the step that its audit has chosen is there. Engines that sleep make room for the learner first.
    pub(super) fn audit_has_samples(&mut self, rules: &Rules, step: u64, out: &mut Vec<Action>) {
        if let Some(open) = self.open_mut(step).filter(|_| !rules.engines_sleep) {
            open.hold.begin_audit(step, out);
        }
    }

    /// Nothing of the step is left to sample.
    pub(super) fn sampled(&mut self, step: u64, out: &mut Vec<Action>) {
        if let Some(open) = self.open_mut(step) {
            open.hold.is_sampled = true;
            open.hold.begin_audit(step, out);
            self.end_steps(out);
        }
    }

    /// The audited samples of the step are scored.
    pub(super) fn audited(&mut self, step: u64, out: &mut Vec<Action>) {
        if let Some(open) = self.open_mut(step).filter(|open| open.hold.audit == Audit::Scoring) {
            open.hold.audit = Audit::Idle;
            if open.hold.release() {
                out.push(Action::Release(step));
            }
            self.end_steps(out);
        }
    }

    /// Ends the steps that wait for nothing, in their order.
    fn end_steps(&mut self, out: &mut Vec<Action>) {
        let left = self.steps.iter_mut().filter(|open| !open.is_closed);
        for open in left.take_while(|open| open.hold.may_end()) {
            open.hold.release();
            open.is_closed = true;
            out.push(Action::EndStep(open.step));
        }
    }

    fn open_mut(&mut self, step: u64) -> Option<&mut OpenStep> {
        self.steps.iter_mut().find(|open| open.step == step)
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_trust::AuditSchedule;

    use super::*;

    fn held(rules: &Rules, step: u64) -> Vec<bool> {
        let mut hold = Hold::new(rules, step);
        (0..4).map(|index| hold.holds(index)).collect()
    }

    #[test]
    fn groups_wait_from_the_last_one_of_the_first_update_on_and_all_of_them_for_engines_that_sleep() {
        let audits = AuditSchedule { is_on: true, first_update: 3, from: 4 };
        let awake = Rules { audits, ..Rules::default() };
        assert_eq!(held(&awake, 5), [false, false, true, true]);
        assert_eq!(held(&awake, 3), [false; 4], "it was audited before");
        let unaudited = Rules { audits: AuditSchedule::default(), ..awake.clone() };
        assert_eq!(held(&unaudited, 5), [false; 4]);
        let asleep = Rules { engines_sleep: true, ..awake };
        assert_eq!([held(&asleep, 5), held(&asleep, 3)], [[true; 4]; 2]);
    }
}
