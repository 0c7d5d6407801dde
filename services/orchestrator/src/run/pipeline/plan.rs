//! Which weights sample which step.

use std::ops::Range;

/// The schedule of a run. W_n are the weights after n GRPO steps; the groups of step n are sampled by W_max(origin, n - lag) and trained from
/// W_n. Nothing else decides it: no clock, no order in which anything ends.
#[derive(Debug, Clone, Copy)]
pub(in crate::run) struct VersionPlan {
    lag: u64,
    origin: u64,
    steps: u64,
}

impl VersionPlan {
    /// A run of `steps` GRPO steps that began at step `origin`.
    pub(in crate::run) fn new(lag: u32, origin: u64, steps: u64) -> Self {
        Self { lag: lag.into(), origin, steps }
    }

    /// GRPO steps before the weights that sample a step.
    pub(super) fn weights_of(self, step: u64) -> u64 {
        step.saturating_sub(self.lag).max(self.origin)
    }

    /// The steps from `from` on that are sampled by the weights after `weights` steps.
    pub(super) fn steps_of(self, weights: u64, from: u64) -> Range<u64> {
        let first = if weights <= self.origin { self.origin } else { weights + self.lag };
        first.max(from)..(weights + self.lag + 1).min(self.steps)
    }

    /// GRPO steps of the whole run.
    pub(super) fn steps(self) -> u64 {
        self.steps
    }

    /// Whether steps are sampled while earlier ones are trained. Otherwise sampling and training alternate.
    pub(super) fn samples_ahead(self) -> bool {
        self.lag > 0
    }

    /// Whether a checkpoint after `step` steps needs the weights after `weights` steps, to draw the samples of later steps again.
    pub(super) fn is_needed_at(self, step: u64, weights: u64) -> bool {
        (self.weights_of(step)..step).contains(&weights)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_sampled_by_the_weights_of_so_many_steps_before_it_and_not_before_the_origin() {
        let of = |lag, origin| {
            let plan = VersionPlan::new(lag, origin, 9);
            (origin..9).map(|step| plan.weights_of(step)).collect::<Vec<_>>()
        };
        assert_eq!(of(0, 0), [0, 1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(of(1, 0), [0, 0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(of(2, 5), [5, 5, 5, 6]);
    }

    #[test]
    fn every_step_from_anywhere_on_is_sampled_once_by_its_weights_in_order() {
        for lag in 0..5 {
            for origin in 0..3 {
                for from in origin..=9 {
                    let plan = VersionPlan::new(lag, origin, 9);
                    let mut sampled = Vec::new();
                    for weights in plan.weights_of(from)..=9 {
                        for step in plan.steps_of(weights, from) {
                            assert_eq!(plan.weights_of(step), weights);
                            sampled.push(step);
                        }
                    }
                    assert_eq!(sampled, (from..9).collect::<Vec<_>>(), "lag {lag}, origin {origin}, from {from}");
                }
            }
        }
    }

    #[test]
    fn a_checkpoint_needs_the_weights_between_those_of_its_first_step_and_its_own() {
        let needed = |lag, step| {
            let plan = VersionPlan::new(lag, 1, 9);
            (0..9).filter(|&weights| plan.is_needed_at(step, weights)).collect::<Vec<_>>()
        };
        assert_eq!((needed(0, 5), needed(2, 5), needed(2, 2)), (vec![], vec![3, 4], vec![1]));
    }
}
