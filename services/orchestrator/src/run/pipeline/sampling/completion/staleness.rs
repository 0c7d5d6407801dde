//! How many prompts may be started, and which groups a step may take, so that no group ever becomes too old for its step.

use std::collections::BTreeMap;

/// How many groups may be out: the room in steps that are not full yet, for groups that were started and are in no step. A group that was
/// started with the weights after w steps must be in step w + lag at the latest. Both rules follow: a prompt is started only where all
/// groups that are out still fit into the steps up to its last one, and a step takes a group only where older ones keep the room that they
/// need. `weights_step` is w throughout.
#[derive(Debug)]
pub(super) struct StalenessBudget {
    /// Groups of a step.
    size: u64,
    lag: u64,
    /// GRPO steps of the whole run.
    steps: u64,
    /// The step that is being filled, and how many groups it has.
    step: u64,
    filled: u64,
    /// Groups that are in no step, by the step of the weights that they were started with.
    out: BTreeMap<u64, u64>,
}

impl StalenessBudget {
    /// The budget of a run that goes on with a step and has nothing out.
    pub(super) fn new(size: u64, lag: u64, steps: u64, step: u64) -> Self {
        Self { size, lag, steps, step, filled: 0, out: BTreeMap::new() }
    }

    /// The step that is being filled; the run's number of steps once all are full.
    pub(super) fn step(&self) -> u64 {
        self.step
    }

    /// Whether every step of the run is full.
    pub(super) fn is_over(&self) -> bool {
        self.step >= self.steps
    }

    /// Whether the step that is being filled has all its groups.
    pub(super) fn is_full(&self) -> bool {
        self.filled >= self.size
    }

    /// Groups that the step still lacks.
    pub(super) fn missing(&self) -> u64 {
        self.size - self.filled
    }

    /// Groups that are in no step.
    pub(super) fn out(&self) -> u64 {
        self.out.values().sum()
    }

    /// Prompts that may be started now with these weights, which are the newest.
    pub(super) fn may_start(&self, weights_step: u64) -> u64 {
        self.until(weights_step).saturating_sub(self.out())
    }

    /// A prompt is started.
    pub(super) fn start(&mut self, weights_step: u64) {
        *self.out.entry(weights_step).or_default() += 1;
    }

    /// A group leaves without a step.
    pub(super) fn leave(&mut self, weights_step: u64) {
        if let Some(out) = self.out.get_mut(&weights_step) {
            *out -= 1;
            if *out == 0 {
                self.out.remove(&weights_step);
            }
        }
    }

    /// Whether the step may take a group of these weights. Otherwise its room belongs to older ones, which it waits for.
    pub(super) fn takes(&self, weights_step: u64) -> bool {
        let mut older = 0;
        !self.is_full()
            && self.out.range(..weights_step).all(|(&weights_step, &out)| {
                older += out;
                older < self.until(weights_step)
            })
    }

    /// The step takes a group.
    pub(super) fn take(&mut self, weights_step: u64) {
        self.leave(weights_step);
        self.filled += 1;
    }

    /// The step is full, and the next one begins.
    pub(super) fn next_step(&mut self) {
        self.step += 1;
        self.filled = 0;
    }

    /// Room for groups that were started with these weights or older ones.
    fn until(&self, weights_step: u64) -> u64 {
        let end = (weights_step + self.lag + 1).min(self.steps);
        (end.saturating_sub(self.step) * self.size).saturating_sub(self.filled)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_first_weights_start_what_fits_into_the_steps_up_to_their_last_one() {
        let mut budget = StalenessBudget::new(4, 2, 100, 7);
        assert_eq!(budget.may_start(7), 12);
        (0..12).for_each(|_| budget.start(7));
        assert_eq!(budget.may_start(7), 0);
        (0..4).for_each(|_| budget.take(7));
        budget.next_step();
        assert_eq!(
            (budget.may_start(7), budget.may_start(8)),
            (0, 4),
            "a step that is full makes no room, newer weights do"
        );
    }

    #[test]
    fn nothing_is_started_that_no_step_of_the_run_could_take() {
        let budget = StalenessBudget::new(4, 2, 9, 7);
        assert_eq!(budget.may_start(7), 8);
        assert_eq!(StalenessBudget::new(4, 2, 9, 9).may_start(9), 0);
    }

    #[test]
    fn a_step_keeps_room_for_groups_that_would_be_too_old_for_the_next_one() {
        let mut budget = StalenessBudget::new(2, 1, 100, 0);
        (0..4).for_each(|_| budget.start(0));
        (0..2).for_each(|_| budget.take(0));
        budget.next_step();
        (0..2).for_each(|_| budget.start(1));
        assert!(
            budget.takes(0) && !budget.takes(1),
            "both places of step 1 belong to the two that are left of step 0's weights"
        );
        budget.leave(0);
        assert!(budget.takes(1), "one of them has no use for its place");
        budget.take(1);
        assert!(!budget.takes(1) && budget.takes(0));
    }

    /// What happens next, as far as it is possible then.
    #[derive(Debug, Clone)]
    enum Action {
        /// New weights reach the engines.
        Weights(u64),
        /// A group is complete, and has no use for a step or has.
        Complete(usize, bool),
    }

    fn action() -> impl Strategy<Value = Action> {
        prop_oneof![
            1 => (1..3_u64).prop_map(Action::Weights),
            4 => (any::<usize>(), prop::bool::weighted(0.9)).prop_map(|(at, kept)| Action::Complete(at, kept)),
        ]
    }

    proptest! {
        #[test]
        fn whatever_completes_when_every_step_is_filled_and_no_group_is_older_than_the_lag(
            size in 1..5_u64,
            lag in 1..4_u64,
            steps in 1..12_u64,
            actions in prop::collection::vec(action(), 1..200),
        ) {
            let mut budget = StalenessBudget::new(size, lag, steps, 0);
            let (mut weights_step, mut in_flight, mut waiting, mut taken) = (0, Vec::new(), Vec::new(), 0);
            let mut actions = actions.into_iter();
            while !budget.is_over() {
                while let Some(at) = waiting.iter().position(|&group| budget.takes(group)) {
                    let group: u64 = waiting.remove(at);
                    prop_assert!(group + lag >= budget.step() && group <= budget.step());
                    budget.take(group);
                    taken += 1;
                }
                if budget.is_full() {
                    budget.next_step();
                    continue;
                }
                for _ in 0..budget.may_start(weights_step) {
                    budget.start(weights_step);
                    in_flight.push(weights_step);
                }
                prop_assert!(in_flight.len() + waiting.len() <= ((lag + 1) * size) as usize);
                // In the end everything completes, and the newest weights come.
                let action = actions.next().unwrap_or(match in_flight.is_empty() {
                    true => Action::Weights(u64::MAX),
                    false => Action::Complete(0, true),
                });
                match action {
                    // The weights after a step exist once it is full.
                    Action::Weights(more) => weights_step = weights_step.saturating_add(more).min(budget.step()),
                    Action::Complete(..) if in_flight.is_empty() => {}
                    Action::Complete(at, is_kept) => {
                        let group = in_flight.swap_remove(at % in_flight.len());
                        if is_kept { waiting.push(group) } else { budget.leave(group) }
                    }
                }
            }
            prop_assert_eq!(taken, size * steps);
            prop_assert!(in_flight.is_empty() && waiting.is_empty(), "the last step leaves nothing out");
        }
    }
}
