//! The probability of improvement: how often a run of one arm is better than a run of the other.
//!
//! Within a task it is the share of pairs of runs in which the first has the higher score, ties counting half (the
//! statistic of Mann and Whitney over its maximum); over tasks their mean, as rliable's (arXiv 2108.13264).
//!
//! rliable's bootstrap interval has no width where one arm wins every pair, which 5 runs of each side often do. Here
//! the interval has the probabilities p that lie no further from the estimate than z of the standard errors that p
//! itself implies (Newcombe 2006, Statistics in Medicine 25, pages 559 to 573, method 5). Over tasks the same is done
//! with the standard error of the mean, as if p were that of every task: the variance is largest where tasks are alike,
//! so that the interval is rather too wide where they are not. Runs count as unpaired, which has the same effect where
//! seeds are shared.

use evenkeel_errors::FieldError;

use crate::distribution::normal_quantile;
use crate::interquartile::validate;
use crate::{Confidence, Interval};

/// A probability of improvement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Improvement {
    /// The probability, 0 to 1; 0.5 for arms that are alike.
    pub value: f64,
    /// Interval of the probability.
    pub interval: Interval,
}

impl Improvement {
    /// Computes the improvement of the first arm's scores over the second's, by task and run. Higher scores are better.
    ///
    /// # Errors
    /// Different numbers of tasks, a task with fewer than two runs, or a score that is not finite.
    pub fn of(first: &[Vec<f64>], second: &[Vec<f64>], confidence: Confidence) -> Result<Self, FieldError> {
        validate("first", first)?;
        validate("second", second)?;
        let allowed = || format!("as many as the first ({})", first.len());
        FieldError::ensure(first.len() == second.len(), "second", format!("{} tasks", second.len()), allowed())?;
        let tasks = || first.iter().zip(second);
        let count = first.len() as f64;
        let value = tasks().map(|(one, other)| share_of_wins(one, other)).sum::<f64>() / count;
        let z = normal_quantile(confidence.upper());
        let variance_of_sum = |p: f64| tasks().map(|(one, other)| variance(p, one.len(), other.len())).sum::<f64>();
        let agrees = |p: f64| (value - p).abs() <= z * variance_of_sum(p).sqrt() / count;
        Ok(Self { value, interval: Interval { low: edge(0.0, value, agrees), high: edge(1.0, value, agrees) } })
    }
}

fn share_of_wins(first: &[f64], second: &[f64]) -> f64 {
    let wins: f64 = first.iter().map(|one| second.iter().map(|other| win(*one, *other)).sum::<f64>()).sum();
    wins / (first.len() * second.len()) as f64
}

/// The variance of a share of wins whose expectation is p: what Hanley and McNeil (1982) derive for exponential scores,
/// with the mean number of runs in place of both.
fn variance(p: f64, first: usize, second: usize) -> f64 {
    let others = (first + second) as f64 / 2.0 - 1.0;
    p * (1.0 - p) * (1.0 + others * ((1.0 - p) / (2.0 - p) + p / (1.0 + p))) / (first * second) as f64
}

fn win(one: f64, other: f64) -> f64 {
    if one > other {
        1.0
    } else if one == other {
        0.5
    } else {
        0.0
    }
}

/// Where a condition that holds at `inside` begins to hold, coming from `outside`; by bisection to the last bit.
fn edge(mut outside: f64, mut inside: f64, holds: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..64 {
        let middle = f64::midpoint(outside, inside);
        if holds(middle) {
            inside = middle;
        } else {
            outside = middle;
        }
    }
    inside
}

#[cfg(test)]
mod tests {
    use std::slice::from_ref;

    use super::*;
    use crate::references::{numbers, rows, section};

    fn assert_is(found: Improvement, known: &[f64]) {
        let found = [found.value, found.interval.low, found.interval.high];
        for (found, known) in found.iter().zip(known) {
            assert!((found - known).abs() < 1e-9, "{found} and not {known}");
        }
    }

    #[test]
    fn values_are_those_of_rliable_and_ends_solve_newcombes_equation() {
        for case in section("tasks") {
            let first = rows(&case["first"]);
            let second = rows(&case["second"]);
            let found = Improvement::of(&first, &second, Confidence::P95).unwrap();
            assert!((found.value - case["improvement"].as_f64().unwrap()).abs() < 1e-12, "{found:?}");
            for ((first, second), known) in first.iter().zip(&second).zip(rows(&case["improvement_by_task"])) {
                let one = Improvement::of(from_ref(first), from_ref(second), Confidence::P95).unwrap();
                assert_is(one, &known);
            }
        }
        for case in section("improvement") {
            let tasks = |side: &str| vec![numbers(&case[side])];
            let found = Improvement::of(&tasks("first"), &tasks("second"), Confidence::P95).unwrap();
            assert_is(found, &numbers(&case["limits"]));
        }
    }

    #[test]
    fn a_clean_sweep_of_few_runs_is_not_certainty() {
        let sweep = Improvement::of(&[vec![0.9, 0.8, 0.7]], &[vec![0.3, 0.2, 0.1]], Confidence::P95).unwrap();
        assert_eq!((sweep.value, sweep.interval.high), (1.0, 1.0));
        assert!(sweep.interval.low < 0.7, "{sweep:?}");
    }

    #[test]
    fn more_tasks_leave_less_room() {
        let one = vec![0.9, 0.8, 0.4];
        let other = vec![0.3, 0.7, 0.1];
        let width = |tasks: usize| {
            let arm = |scores: &Vec<f64>| vec![scores.clone(); tasks];
            let Interval { low, high } = Improvement::of(&arm(&one), &arm(&other), Confidence::P95).unwrap().interval;
            high - low
        };
        assert!(width(4) < 0.7 * width(1), "{} {}", width(4), width(1));
    }

    #[test]
    fn swapping_the_arms_swaps_the_probability() {
        let one = vec![vec![0.2, 0.5, 0.5], vec![0.9, 0.4]];
        let other = vec![vec![0.5, 0.1, 0.3], vec![0.8, 0.9]];
        let forth = Improvement::of(&one, &other, Confidence::P95).unwrap();
        let back = Improvement::of(&other, &one, Confidence::P95).unwrap();
        assert_is(forth, &[1.0 - back.value, 1.0 - back.interval.high, 1.0 - back.interval.low]);
    }

    #[test]
    fn tasks_of_both_arms_must_be_the_same() {
        let error = Improvement::of(&[vec![0.1, 0.2]], &[vec![0.1, 0.2], vec![0.1, 0.2]], Confidence::P95).unwrap_err();
        assert_eq!(error.to_string(), "second is 2 tasks, allowed: as many as the first (1)");
    }
}
