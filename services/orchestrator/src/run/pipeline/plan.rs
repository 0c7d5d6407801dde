//! Which weights sample which step.

use std::ops::Range;

use crate::settings::{PipelineSettings, StepOrder};

/// The schedule of a run. W_n are the weights after n GRPO steps. A step is sampled in one round or more: round i of step n by
/// W_max(origin, n - lag + i). It is trained from W_n. Nothing else decides it: no clock, no order in which anything ends. In order of
/// completion no step has weights of its own, and the lag is the maximum allowed.
#[derive(Debug, Clone, Copy)]
pub(in crate::run) struct VersionPlan {
    order: StepOrder,
    lag: u64,
    rounds: usize,
    origin: u64,
    steps: u64,
}

impl VersionPlan {
    /// A run of `steps` GRPO steps that began at step `origin`, each sampled in `rounds` rounds: 1 to `max_lag` + 1.
    pub(in crate::run) fn new(settings: &PipelineSettings, rounds: usize, origin: u64, steps: u64) -> Self {
        Self { order: settings.order, lag: settings.max_lag.into(), rounds, origin, steps }
    }

    /// How steps are filled.
    pub(super) fn order(self) -> StepOrder {
        self.order
    }

    /// How many steps the weights that sample may be behind those that are trained.
    pub(super) fn lag(self) -> u64 {
        self.lag
    }

    /// GRPO steps before the weights that sample the first round of a step.
    pub(super) fn weights_of(self, step: u64) -> u64 {
        self.weights_of_round(step, 0)
    }

    /// GRPO steps before the weights that sample a round of a step.
    pub(super) fn weights_of_round(self, step: u64, round: usize) -> u64 {
        (step + round as u64).saturating_sub(self.lag).max(self.origin)
    }

    /// The steps from `from` on whose first round is sampled with the weights after `weights_step` steps.
    pub(super) fn steps_of(self, weights_step: u64, from: u64) -> Range<u64> {
        let first = if weights_step <= self.origin { self.origin } else { weights_step + self.lag };
        first.max(from)..(weights_step + self.lag + 1).min(self.steps)
    }

    /// Whether any round of the steps from `from` on is sampled with the weights after `weights_step` steps.
    pub(super) fn samples(self, weights_step: u64, from: u64) -> bool {
        let first = (weights_step + self.lag + 1).saturating_sub(self.rounds as u64).max(from);
        let mut near = first..(weights_step + self.lag + 1).min(self.steps);
        near.any(|step| (0..self.rounds).any(|round| self.weights_of_round(step, round) == weights_step))
            || !self.steps_of(weights_step, from).is_empty()
    }

    /// GRPO steps of the whole run.
    pub(super) fn steps(self) -> u64 {
        self.steps
    }

    /// Rounds of a step.
    pub(super) fn rounds(self) -> usize {
        self.rounds
    }

    /// Whether steps are sampled while earlier ones are trained. Otherwise sampling and training alternate.
    pub(super) fn samples_ahead(self) -> bool {
        self.lag > 0
    }

    /// Whether a checkpoint after `step` steps needs the weights after `weights_step` steps, to draw the samples of later steps again. In
    /// order of completion they are drawn again by those of the checkpoint.
    pub(super) fn is_needed_at(self, step: u64, weights_step: u64) -> bool {
        self.order == StepOrder::Data && (self.weights_of(step)..step).contains(&weights_step)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn data_order(max_lag: u32, rounds: usize, origin: u64, steps: u64) -> VersionPlan {
        VersionPlan::new(&PipelineSettings { max_lag, ..PipelineSettings::default() }, rounds, origin, steps)
    }

    #[test]
    fn a_step_is_sampled_with_the_weights_of_lag_steps_before_it_and_not_before_the_origin() {
        let of = |lag, origin, round| {
            let plan = data_order(lag, 2, origin, 9);
            (origin..9).map(|step| plan.weights_of_round(step, round)).collect::<Vec<_>>()
        };
        assert_eq!(of(0, 0, 0), [0, 1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(of(1, 0, 0), [0, 0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(of(1, 0, 1), [0, 1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(of(2, 5, 0), [5, 5, 5, 6]);
        assert_eq!(of(2, 5, 1), [5, 5, 6, 7]);
    }

    #[test]
    fn a_checkpoint_needs_the_weights_between_those_of_its_first_step_and_its_own() {
        let needed = |lag, step| {
            let plan = data_order(lag, 1, 1, 9);
            (0..9).filter(|&weights_step| plan.is_needed_at(step, weights_step)).collect::<Vec<_>>()
        };
        assert_eq!((needed(0, 5), needed(2, 5), needed(2, 2)), (vec![], vec![3, 4], vec![1]));
    }

    /// A schedule, and the step that a run goes on with.
    fn plans() -> impl Strategy<Value = (VersionPlan, u64)> {
        (0..6_u32, 0..4_u64, 0..12_u64).prop_flat_map(|(lag, origin, more)| {
            let (rounds, from) = (1..=lag as usize + 1, origin..=origin + more);
            (rounds, from).prop_map(move |(rounds, from)| (data_order(lag, rounds, origin, origin + more), from))
        })
    }

    proptest! {
        #[test]
        fn every_step_from_anywhere_on_is_begun_once_with_its_first_weights_in_order((plan, from) in plans()) {
            let mut begun = Vec::new();
            for weights_step in plan.weights_of(from)..=plan.steps() {
                for step in plan.steps_of(weights_step, from) {
                    prop_assert_eq!(plan.weights_of(step), weights_step);
                    begun.push(step);
                }
            }
            prop_assert_eq!(begun, (from..plan.steps()).collect::<Vec<_>>());
        }

        #[test]
        fn the_rounds_of_a_step_are_of_successive_weights_that_it_does_not_make_itself((plan, from) in plans()) {
            for step in from..plan.steps() {
                let all: Vec<u64> = (0..plan.rounds()).map(|round| plan.weights_of_round(step, round)).collect();
                prop_assert!(all.windows(2).all(|pair| pair[1] == pair[0] || pair[1] == pair[0] + 1), "{:?}", all);
                prop_assert!(all.iter().all(|&weights_step| weights_step <= step), "{:?}", all);
            }
        }

        #[test]
        fn weights_are_gone_through_exactly_where_a_round_needs_them((plan, from) in plans()) {
            for weights_step in plan.weights_of(from)..=plan.steps() {
                let all = (from..plan.steps()).flat_map(|step| (0..plan.rounds()).map(move |round| (step, round)));
                let needed = all.into_iter().any(|(step, round)| plan.weights_of_round(step, round) == weights_step);
                prop_assert_eq!(plan.samples(weights_step, from), needed, "weights {}", weights_step);
            }
        }

        #[test]
        fn what_a_checkpoint_does_not_name_no_later_round_needs((plan, from) in plans()) {
            for (step, round) in (from..plan.steps()).flat_map(|step| (0..plan.rounds()).map(move |round| (step, round))) {
                let weights_step = plan.weights_of_round(step, round);
                prop_assert!(weights_step >= from || plan.is_needed_at(from, weights_step));
            }
        }
    }
}
