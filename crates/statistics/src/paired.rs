//! Two rules compared over seeds: differences of runs that share a seed.

use evenkeel_errors::FieldError;

use crate::distribution::student_quantile_above;
use crate::interval::ensure_finite;
use crate::resample::{Draws, Resampled};
use crate::{Estimate, Interval, Settings, sign_flip};

/// Fewest pairs that are tested; with fewer there are estimates and no verdict.
pub const MIN_PAIRS: usize = 8;

/// What the pairs of runs of two rules say: the first rule's outcome less the second's.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// Mean difference and its standard error over pairs; `None` without pairs.
    pub difference: Option<Estimate>,
    /// Intervals of the mean difference, each for this comparison alone.
    pub intervals: Intervals,
    /// What may be concluded.
    pub evidence: Evidence,
}

/// Intervals of one mean difference. Each is `None` where the pairs do not determine it: fewer than two, or all alike.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Intervals {
    /// Student's: mean ± t(n - 1) standard errors (Student 1908). Exact for normal differences.
    pub student: Option<Interval>,
    /// Studentised bootstrap, also called bootstrap-t (Efron and Tibshirani 1993, An Introduction to the Bootstrap, section
    /// 12.5): quantiles of (resampled mean - mean) / resampled standard error in place of Student's. It follows skew; `None` as well where so many resamples are
    /// all alike that an end would be infinite (the case for 3 pairs).
    pub bootstrap: Option<Interval>,
    /// The shifts that the sign-flip test does not reject (Hartigan 1969). Exact for symmetric differences, however heavy their tails; `None`
    /// for fewer than 6 pairs at 95 %, and above [`MAX_EXACT_PAIRS`](crate::MAX_EXACT_PAIRS).
    pub exact: Option<Interval>,
}

/// What may be concluded from a comparison. A p value exists only where there are pairs enough for one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Evidence {
    /// Fewer pairs than [`MIN_PAIRS`]: nothing was tested, and nothing may be concluded.
    TooFewPairs {
        /// Pairs that there are.
        pairs: usize,
    },
    /// The outcome of the sign-flip test.
    Tested(Test),
}

/// The sign-flip test of one comparison in its family.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Test {
    /// Two-sided p value of this comparison alone.
    pub p_value: f64,
    /// The same adjusted for the family by Holm's procedure.
    pub adjusted_p_value: f64,
    /// Whether all signs were tried; otherwise they were drawn.
    pub is_exact: bool,
    /// What follows.
    pub verdict: Verdict,
}

/// Whether a difference is shown. In a whole family of comparisons without any difference, one is shown wrongly with a probability of at most
/// 1 - confidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The first rule's outcome is higher: the adjusted p value is at most 1 - confidence, and Student's interval excludes 0.
    Higher,
    /// The first rule's outcome is lower, by the same criterion.
    Lower,
    /// No difference is shown. That is not to say that the rules do the same: the intervals say how large a difference may be.
    Undecided,
    /// Whatever the outcomes, this many pairs could show no difference in a family of this size.
    OutOfReach {
        /// Pairs that could.
        pairs_needed: usize,
    },
}

impl Intervals {
    /// Those of the mean of some differences.
    pub(crate) fn of(differences: &[f64], settings: &Settings) -> Self {
        Self {
            student: student(differences, settings),
            bootstrap: bootstrap(differences, settings),
            exact: sign_flip::interval(differences, settings),
        }
    }
}

/// Differences of paired outcomes, the first less the second: one for each seed.
///
/// # Errors
/// Slices of different lengths, and outcomes that are not finite.
pub fn differences(first: &[f64], second: &[f64]) -> Result<Vec<f64>, FieldError> {
    let allowed = format!("{}, as many as first has", first.len());
    FieldError::ensure(first.len() == second.len(), "second.len()", second.len(), allowed)?;
    ensure_finite("first", first)?;
    ensure_finite("second", second)?;
    Ok(first.iter().zip(second).map(|(first, second)| first - second).collect())
}

/// Mean and standard error, where neither is degenerate.
fn spread(differences: &[f64]) -> Option<(f64, f64)> {
    let estimate = Estimate::of_mean(differences.iter().copied())?;
    let error = estimate.standard_error.filter(|error| *error > 0.0)?;
    Some((estimate.value, error))
}

fn student(differences: &[f64], settings: &Settings) -> Option<Interval> {
    let (mean, error) = spread(differences)?;
    let half = student_quantile_above(settings.tail(), differences.len() - 1) * error;
    Some(Interval { low: mean - half, high: mean + half })
}

fn bootstrap(differences: &[f64], settings: &Settings) -> Option<Interval> {
    let (mean, error) = spread(differences)?;
    let mut draws = Draws::of_bootstrap(settings.seed);
    let mut studentised = || {
        let resample = std::iter::repeat_with(|| differences[draws.index(differences.len())]).take(differences.len());
        let resampled = Estimate::of_mean(resample).map(|estimate| (estimate.value, estimate.standard_error));
        match resampled {
            // A resample that is all alike lies infinitely many of its own standard errors from the mean, unless it lies there.
            Some((value, Some(error))) if error > 0.0 => (value - mean) / error,
            Some((value, _)) if value != mean => f64::INFINITY.copysign(value - mean),
            _ => 0.0,
        }
    };
    let (low, high) = Resampled::new(settings.resamples, &mut studentised).ends(settings.tail())?;
    let bounded = low.is_finite() && high.is_finite();
    bounded.then_some(Interval { low: mean - high * error, high: mean - low * error })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn students_interval_is_the_textbooks() {
        // t(4) at 97.5 % is 2.776445; mean 3, standard error sqrt(2.5 / 5).
        let found = student(&[1.0, 2.0, 3.0, 4.0, 5.0], &Settings::default()).unwrap();
        let half = 2.776_445_105_198 * 0.5_f64.sqrt();
        assert!((found.low - (3.0 - half)).abs() < 1e-10 && (found.high - (3.0 + half)).abs() < 1e-10, "{found:?}");
    }

    #[test]
    fn differences_that_do_not_vary_have_no_interval() {
        for alike in [&[][..], &[0.3], &[0.25; 8]] {
            let found = Intervals::of(alike, &Settings::default());
            assert_eq!((found.student, found.bootstrap), (None, None), "{alike:?}");
        }
        let exact = Intervals::of(&[0.25; 8], &Settings::default()).exact;
        assert_eq!(exact, Some(Interval { low: 0.25, high: 0.25 }), "no assumption about their spread");
    }

    #[test]
    fn three_pairs_have_no_bootstrap_interval() {
        // One resample in nine is all alike.
        assert_eq!(bootstrap(&[1.0, 2.0, 4.0], &Settings::default()), None);
        assert!(bootstrap(&[1.0, 2.0, 4.0, 5.0, 7.0], &Settings::default()).is_some());
    }

    #[test]
    fn the_bootstrap_follows_skew_where_students_interval_is_symmetric() {
        let skewed = [0.1, 0.1, 0.2, 0.2, 0.3, 0.3, 0.5, 0.9, 1.4, 3.0];
        let found = bootstrap(&skewed, &Settings::default()).unwrap();
        assert!(found.high - 0.7 > 2.0 * (0.7 - found.low), "{found:?}");
    }

    #[test]
    fn pairs_must_be_complete_and_finite() {
        let error = differences(&[1.0, 2.0], &[1.0]).unwrap_err();
        assert_eq!(error.to_string(), "second.len() is 1, allowed: 2, as many as first has");
        let error = differences(&[1.0, 2.0], &[1.0, f64::NAN]).unwrap_err();
        assert_eq!(error.to_string(), "second[1] is NaN, allowed: a finite number");
        assert_eq!(differences(&[1.0, 2.0], &[0.5, 4.0]).unwrap(), [0.5, -2.0]);
    }

    proptest! {
        #[test]
        fn intervals_move_and_stretch_with_the_differences(
            differences in prop::collection::vec(-8_i32..8, 6..10), shift in -4_i32..4, doublings in -3_i32..3,
        ) {
            // Powers of two and small integers are exact, so that resampling meets the same numbers.
            let settings = Settings { resamples: 999, ..Settings::default() };
            let scale = libm::exp2(f64::from(doublings));
            let values: Vec<f64> = differences.iter().copied().map(f64::from).collect();
            let moved: Vec<f64> = values.iter().map(|value| (value + f64::from(shift)) * scale).collect();
            let (before, after) = (Intervals::of(&values, &settings), Intervals::of(&moved, &settings));
            let move_interval = |interval: Interval| [interval.low, interval.high].map(|end| (end + f64::from(shift)) * scale);
            let pairs = [(before.student, after.student), (before.bootstrap, after.bootstrap), (before.exact, after.exact)];
            for (before, after) in pairs {
                let ends = after.map(|interval| [interval.low, interval.high]);
                match (before.map(move_interval), ends) {
                    (Some(expected), Some(found)) => {
                        let near = |(a, b): (f64, f64)| (a - b).abs() < 1e-9 * scale * 100.0;
                        prop_assert!(expected.into_iter().zip(found).all(near), "{expected:?} {found:?}");
                    }
                    (expected, found) => prop_assert_eq!(expected, found),
                }
            }
        }
    }
}
