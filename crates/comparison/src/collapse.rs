//! When a run counts as collapsed.
//!
//! A collapsed run is one that training left worse than it found it: its mean reward of the last steps is below that of
//! the first ones, by more than the noise of both. The windows are ten steps, or a third of the run where that is less;
//! the noise is that of the difference of the two means, and two of its standard errors are asked for, so that few of
//! the runs that have merely learnt nothing count (one in thirty or forty). A reward that is not finite is a collapse
//! whatever the rest is.
//!
//! A run that only lost a part of what it had learnt has not collapsed by this rule. That loss is the drop from peak to
//! last, which is reported for every run.

use evenkeel_statistics::{Curve, Estimate};
use serde::{Deserialize, Serialize};

/// Steps at either end that are compared.
pub(crate) const ENDS: usize = 10;
/// Fewer tell nothing of their noise.
const FEWEST: usize = 5;
/// In how many standard errors the end must be below the beginning.
const ERRORS: f64 = 2.0;

/// How a run collapsed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Collapse {
    /// A reward was not finite.
    NotFinite {
        /// The first such step.
        step: u64,
    },
    /// The reward ended below where it began.
    WorseThanBefore {
        /// Mean reward of the first steps.
        first: f64,
        /// Mean reward of the last steps.
        last: f64,
    },
}

impl Collapse {
    /// The collapse of a run with these rewards. `None` where it has not collapsed, or has fewer than 15 steps.
    pub(crate) fn of(rewards: &[(u64, f64)]) -> Option<Self> {
        if let Some((step, _)) = rewards.iter().find(|(_, reward)| !reward.is_finite()) {
            return Some(Self::NotFinite { step: *step });
        }
        let ends = ENDS.min(rewards.len() / 3);
        if ends < FEWEST {
            return None;
        }
        let mean = |points: &[(u64, f64)]| Estimate::of_mean(points.iter().map(|(_, reward)| *reward));
        let first = mean(&rewards[..ends])?;
        let last = mean(&rewards[rewards.len() - ends..])?;
        let noise = first.standard_error?.hypot(last.standard_error?);
        let is_below = first.value - last.value > (ERRORS * noise).max(1e-9);
        is_below.then_some(Self::WorseThanBefore { first: first.value, last: last.value })
    }

    /// The reason in words.
    pub fn reason(&self) -> String {
        match self {
            Self::NotFinite { step } => format!("the reward of step {step} is not finite"),
            Self::WorseThanBefore { first, last } => format!("the reward fell from {first:.3} to {last:.3}"),
        }
    }
}

/// The rewards as a curve; what is not finite counts as 0. `None` without rewards.
pub(crate) fn reward_curve(rewards: &[(u64, f64)]) -> Option<Curve> {
    let finite = |(step, reward): &(u64, f64)| (*step, if reward.is_finite() { *reward } else { 0.0 });
    Curve::new("rewards", rewards.iter().map(finite).collect()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collapse(rewards: impl IntoIterator<Item = f64>) -> Option<Collapse> {
        Collapse::of(&(1..).zip(rewards).collect::<Vec<_>>())
    }

    #[test]
    fn a_run_that_ends_below_its_beginning_has_collapsed() {
        let rewards = (0..60).map(|step| if step < 40 { 0.3 + 0.01 * f64::from(step) } else { 0.01 });
        let Some(Collapse::WorseThanBefore { first, last }) = collapse(rewards) else { panic!("collapsed") };
        assert!((first - 0.345).abs() < 1e-9 && (last - 0.01).abs() < 1e-9);
    }

    #[test]
    fn a_run_that_learns_nothing_or_loses_a_part_has_not() {
        let noise = |step: i32| f64::from(step * 7919 % 13) / 100.0;
        assert_eq!(collapse((0..60).map(|step| 0.3 + noise(step))), None);
        assert_eq!(
            collapse((0..60).map(|step| noise(step) + if step < 40 { 0.01 * f64::from(step) } else { 0.2 })),
            None
        );
        assert_eq!(collapse([0.5; 30]), None);
        assert_eq!((collapse([0.9, 0.8, 0.7, 0.2, 0.1]), collapse([])), (None, None));
    }

    #[test]
    fn a_reward_that_is_no_number_is_a_collapse_and_counts_as_nothing() {
        let rewards = [(1, 0.5), (2, f64::NAN), (3, 0.7)];
        assert_eq!(Collapse::of(&rewards), Some(Collapse::NotFinite { step: 2 }));
        assert_eq!(reward_curve(&rewards).unwrap().points(), [(1, 0.5), (2, 0.0), (3, 0.7)]);
    }
}
