//! How many prompts may be started, and which groups a step may take, so that no group ever becomes too old for its
//! step.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Rules;

/// The groups that were started and are in no step, by the step whose weights started them.
///
/// A group that was started with the weights of step w must be in step w + 1 + lag at the latest. Both rules follow: a
/// prompt is started only where all groups that are out still fit into the steps up to its last one, and a step takes a
/// group only where older ones keep the room that they need.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct GroupsOut(BTreeMap<u64, u64>);

/// The step that is being filled, and how many groups it has.
#[derive(Debug, Clone, Copy)]
pub(super) struct Filling {
    pub(super) step: u64,
    pub(super) groups: u64,
}

impl GroupsOut {
    /// Groups that are in no step.
    pub(super) fn count(&self) -> u64 {
        self.0.values().sum()
    }

    /// A prompt is started with the weights of a step.
    pub(super) fn start(&mut self, by: u64) {
        *self.0.entry(by).or_default() += 1;
    }

    /// A group is in a step, or leaves without one.
    pub(super) fn remove(&mut self, by: u64) {
        if let Some(out) = self.0.get_mut(&by) {
            *out -= 1;
            if *out == 0 {
                self.0.remove(&by);
            }
        }
    }

    /// Prompts that may be started now with the weights of a step, which are the newest.
    pub(super) fn may_start(&self, rules: &Rules, at: Filling, by: u64) -> u64 {
        room(rules, at, by).saturating_sub(self.count())
    }

    /// Whether the step may take a group of these weights. Otherwise its room belongs to older ones, which it waits
    /// for.
    pub(super) fn lets_take(&self, rules: &Rules, at: Filling, by: u64) -> bool {
        let mut older = 0;
        at.groups < rules.groups
            && self.0.range(..by).all(|(&by, &out)| {
                older += out;
                older < room(rules, at, by)
            })
    }
}

/// Room for groups that were started with the weights of a step or of earlier ones, in the steps that are not full.
fn room(rules: &Rules, at: Filling, by: u64) -> u64 {
    let last = (by + 1 + rules.lag).min(rules.steps);
    ((last + 1).saturating_sub(at.step) * rules.groups).saturating_sub(at.groups)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(groups: u64, lag: u64, steps: u64) -> Rules {
        Rules { groups, lag, steps, ..Rules::default() }
    }

    #[test]
    fn the_first_weights_start_what_fits_into_the_steps_up_to_their_last_one() {
        let rules = rules(4, 2, 100);
        let mut out = GroupsOut::default();
        assert_eq!(out.may_start(&rules, Filling { step: 8, groups: 0 }, 7), 12);
        (0..12).for_each(|_| out.start(7));
        (0..4).for_each(|_| out.remove(7));
        let next = Filling { step: 9, groups: 0 };
        assert_eq!(
            (out.may_start(&rules, next, 7), out.may_start(&rules, next, 8)),
            (0, 4),
            "a step that is full makes no room, newer weights do"
        );
    }

    #[test]
    fn nothing_is_started_that_no_step_of_the_run_could_take() {
        let may_start = |steps| GroupsOut::default().may_start(&rules(4, 2, steps), Filling { step: 8, groups: 0 }, 7);
        assert_eq!([may_start(9), may_start(7)], [8, 0]);
    }

    #[test]
    fn a_step_keeps_room_for_groups_that_would_be_too_old_for_the_next_one() {
        let rules = rules(2, 1, 100);
        let mut out = GroupsOut::default();
        let mut at = Filling { step: 2, groups: 0 };
        (0..2).for_each(|_| out.start(0));
        (0..2).for_each(|_| out.start(1));
        let lets_take = |out: &GroupsOut, at| [0, 1].map(|by| out.lets_take(&rules, at, by));
        assert_eq!(lets_take(&out, at), [true, false], "both places of step 2 belong to those of the first weights");
        out.remove(0);
        assert_eq!(lets_take(&out, at), [true, true], "one of them has no use for its place");
        out.remove(1);
        at.groups = 1;
        assert_eq!(lets_take(&out, at), [true, false]);
    }
}
