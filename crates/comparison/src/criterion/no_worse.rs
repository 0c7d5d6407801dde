//! Whether an arm is no worse than another: a test of non-inferiority with a stated margin.
//!
//! "No worse" is not "not shown to be worse", which few seeds give for nothing. An arm counts as no worse where it is
//! shown not to be below the other by the margin or more: the lower end of the paired interval of 95 % lies above minus
//! the margin, and the sign-flip test of the differences plus the margin stands after Holm's correction over the arms
//! that it is compared with.

use evenkeel_errors::FieldError;
use evenkeel_statistics::{Confidence, Interval, Sample, holm};
use serde::{Deserialize, Serialize};

use crate::arms::ArmSummary;
use crate::measure::Measure;
use crate::pairs::{LEVEL, seeds_needed};

/// The test for two arms.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct NoWorse {
    /// How far below the other the arm may be, in the units of the measure.
    pub margin: f64,
    /// How much better the arm is, mean over the seeds that both have: positive is better, also for drops.
    pub gain: f64,
    /// 95 % interval of the gain; absent where seeds do not differ.
    pub interval: Option<Interval>,
    /// The p-value of the sign-flip test of the gains plus the margin; two-sided.
    pub p: f64,
    /// The p-value after Holm's correction over the arms that this one is compared with.
    pub adjusted_p: f64,
    /// The seeds that both arms have.
    pub seeds: usize,
    /// The seeds that a verdict takes.
    pub needed: usize,
}

impl NoWorse {
    /// The tests of pairs of arms, the first of each against the second; `None` for a pair without shared seeds, and
    /// for all where the measure is on no scale of accuracies and rewards.
    ///
    /// # Errors
    /// Values that are not finite.
    pub(super) fn of(
        pairs: &[(&ArmSummary, &ArmSummary)],
        measure: Measure,
        margin: f64,
        seed: u64,
    ) -> Result<Vec<Option<Self>>, FieldError> {
        if measure == Measure::StepsToReward {
            return Ok(vec![None; pairs.len()]);
        }
        let mut tests: Vec<Option<Self>> = Vec::new();
        for (arm, other) in pairs {
            tests.push(test(&gains(arm, other, measure), margin, seed)?);
        }
        let p: Vec<f64> = tests.iter().flatten().map(|test| test.p).collect();
        let needed = seeds_needed(p.len());
        for (test, adjusted) in tests.iter_mut().flatten().zip(holm(&p)?) {
            (test.adjusted_p, test.needed) = (adjusted, needed);
        }
        Ok(tests)
    }

    /// Whether the arm is shown to be no worse by the margin or more.
    pub fn is_shown(&self) -> bool {
        let is_above = self.interval.is_some_and(|interval| interval.low > -self.margin);
        self.seeds >= self.needed && is_above && self.adjusted_p <= LEVEL
    }
}

fn test(gains: &[f64], margin: f64, seed: u64) -> Result<Option<NoWorse>, FieldError> {
    if gains.is_empty() {
        return Ok(None);
    }
    let sample = Sample::new("gains", gains.to_vec())?;
    let shifted = Sample::new("gains", gains.iter().map(|gain| gain + margin).collect())?;
    let p = shifted.sign_flip(seed).p;
    Ok(Some(NoWorse {
        margin,
        gain: sample.mean().value,
        interval: sample.t_interval(Confidence::P95),
        p,
        adjusted_p: p,
        seeds: gains.len(),
        needed: 0,
    }))
}

/// How much better an arm is than another, for each seed that both have.
pub(super) fn gains(arm: &ArmSummary, other: &ArmSummary, measure: Measure) -> Vec<f64> {
    let by_seed = |arm: &ArmSummary| -> Vec<(u64, f64)> {
        let values = arm.measure(measure).map(|summary| summary.by_seed.as_slice()).unwrap_or_default();
        arm.seeds.iter().copied().zip(values.iter().copied()).collect()
    };
    let sign = if measure.is_higher_better() { 1.0 } else { -1.0 };
    let others = by_seed(other);
    let gain = |(seed, value): (u64, f64)| {
        let (_, other) = others.iter().find(|(other, _)| *other == seed)?;
        Some(sign * (value - other))
    };
    by_seed(arm).into_iter().filter_map(gain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tested(gains: &[f64], margin: f64) -> NoWorse {
        NoWorse { needed: seeds_needed(1), ..test(gains, margin, 0).unwrap().unwrap() }
    }

    #[test]
    fn a_small_loss_within_the_margin_is_no_worse_and_a_wide_interval_shows_nothing() {
        let near = [-0.001, 0.0, 0.001, -0.002, 0.001, 0.0, -0.001, 0.002];
        assert!(tested(&near, 0.01).is_shown());
        assert!(!tested(&near, 0.0001).is_shown(), "the margin is what makes it so");
        let wide = near.map(|gain| 20.0 * gain);
        assert!(!tested(&wide, 0.01).is_shown(), "nothing is shown of an interval of four points");
        assert!(!tested(&near[..7], 0.01).is_shown(), "seven seeds decide nothing");
    }

    #[test]
    fn the_p_value_is_that_of_the_gains_plus_the_margin() {
        // Eight gains of nearly 0 plus 0.01 are all above 0: two of 256 choices of signs are as far from 0.
        let found = tested(&[0.001, 0.0, -0.001, 0.002, -0.002, 0.001, 0.0, 0.001], 0.01);
        assert_eq!(found.p, 2.0 / 256.0);
        // One loss of 3 points: signs that turn it or some others are as far.
        assert!(tested(&[-0.03, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], 0.01).p > 0.05);
    }
}
