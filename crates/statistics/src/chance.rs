//! What noise alone does to the peak of a curve.
//!
//! The highest of n evaluations lies above the accuracy even where the accuracy never changes, since it is chosen for its luck. For n
//! independent normal errors with standard deviation s the height is s times the expected largest of n standard normal numbers (David and
//! Nagaraja 2003, Order Statistics, section 3.2): 1.965 for 25, so that 25 evaluations with a standard error of 0.01 peak 0.02 too high. The
//! last evaluation has no such luck, so the expected drop from peak to last is the same number.
//!
//! What is assumed: normal errors, as means over many answers have nearly; the same size of error throughout; and an accuracy that does not
//! change. A curve that still rises has its peak near its end and profits less; the numbers here are then an upper bound.
//!
//! Evaluations of one run answer the same problems. The part of the standard error that comes from the choice of problems is the same in all
//! of them and moves the whole curve, not its peak. [`Noise::correlated`] leaves it out; an evaluation with several samples a problem measures
//! the rest directly ([`Accuracies::sampling_error`](crate::Accuracies::sampling_error)). Whatever other positive correlations there are (weights
//! that have hardly changed between two evaluations), they make the expected peak lower, never higher (Sudakov and Fernique; Vitale 2000,
//! Proceedings of the AMS 128, 3411-3414): [`Noise::independent`] is always an upper bound.

use evenkeel_errors::FieldError;

use crate::distribution::{crossing, normal_cdf, normal_density, normal_quantile_above};

/// The error of one evaluation that differs from one evaluation to the next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Noise(f64);

impl Noise {
    /// Independent errors with this standard error, in the unit of the accuracy.
    ///
    /// # Errors
    /// A standard error that is negative or not finite.
    pub fn independent(standard_error: f64) -> Result<Self, FieldError> {
        let holds = standard_error.is_finite() && standard_error >= 0.0;
        FieldError::ensure(holds, "standard_error", standard_error, "a finite number, at least 0")?;
        Ok(Self(standard_error))
    }

    /// Errors any two of which have this correlation: the share of their variance that comes from what all evaluations have in common.
    ///
    /// # Errors
    /// As [`independent`](Self::independent), and a correlation below 0 or above 1.
    pub fn correlated(standard_error: f64, correlation: f64) -> Result<Self, FieldError> {
        FieldError::ensure((0.0..=1.0).contains(&correlation), "correlation", correlation, "0 to 1")?;
        Self::independent(standard_error * (1.0 - correlation).sqrt())
    }
}

/// The distribution of a height that is due to chance, for one run. (The mean over runs has the same expected value and varies less.)
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ByChance {
    /// Its expected value.
    pub expected: f64,
    /// It is exceeded in one run of twenty.
    pub exceeded_by_5_percent: f64,
}

const UPPER: f64 = 0.95;

/// How far the highest of `evaluations` lies above the constant accuracy on these problems.
///
/// # Errors
/// No evaluations.
pub fn peak_by_chance(evaluations: usize, noise: Noise) -> Result<ByChance, FieldError> {
    let count = ensure_some(evaluations)?;
    // All of n lie below a number with the n-th power of the probability of one.
    let tail = -libm::expm1(libm::log(UPPER) / count);
    Ok(ByChance {
        expected: noise.0 * expected_maximum(count),
        exceeded_by_5_percent: noise.0 * normal_quantile_above(tail),
    })
}

/// How far the last of `evaluations` lies below the highest of them, while the accuracy is constant.
///
/// # Errors
/// No evaluations.
pub fn drop_by_chance(evaluations: usize, noise: Noise) -> Result<ByChance, FieldError> {
    let count = ensure_some(evaluations)?;
    if evaluations == 1 {
        return Ok(ByChance { expected: 0.0, exceeded_by_5_percent: 0.0 });
    }
    // Given the last, none of the others may be higher by more than the drop.
    let at_most = |drop: f64| integral(|last| normal_density(last) * libm::pow(normal_cdf(last + drop), count - 1.0));
    let exceeded = crossing(0.0, 16.0, |drop| at_most(drop) >= UPPER);
    Ok(ByChance { expected: noise.0 * expected_maximum(count), exceeded_by_5_percent: noise.0 * exceeded })
}

fn ensure_some(evaluations: usize) -> Result<f64, FieldError> {
    FieldError::ensure(evaluations > 0, "evaluations", evaluations, "at least 1")?;
    Ok(evaluations as f64)
}

/// The expected largest of `count` independent standard normal numbers.
fn expected_maximum(count: f64) -> f64 {
    integral(|x| x * count * normal_density(x) * libm::pow(normal_cdf(x), count - 1.0))
}

/// The integral over the line of what falls off like the normal density. The trapezoidal rule is exact to rounding for such functions, since
/// they are analytic (Trefethen and Weideman 2014, SIAM Review 56, 385-458).
fn integral(of: impl Fn(f64) -> f64) -> f64 {
    const STEPS_PER_UNIT: i32 = 32;
    const REACH: i32 = 10;
    let steps = -REACH * STEPS_PER_UNIT..=REACH * STEPS_PER_UNIT;
    steps.map(|step| of(f64::from(step) / f64::from(STEPS_PER_UNIT))).sum::<f64>() / f64::from(STEPS_PER_UNIT)
}

#[cfg(test)]
mod tests {
    use std::f64::consts::PI;

    use super::*;

    fn close(found: f64, expected: f64) -> bool {
        (found - expected).abs() < 1e-9
    }

    #[test]
    fn the_expected_maximum_of_a_few_has_its_closed_form() {
        // David and Nagaraja 2003, section 3.2.
        let root = PI.sqrt();
        let angle = libm::asin(1.0 / 3.0);
        let expected =
            [0.0, 1.0 / root, 1.5 / root, 3.0 / root * (0.5 + angle / PI), 2.5 / root * (0.5 + 3.0 * angle / PI)];
        for (count, expected) in (1..).zip(expected) {
            let found = expected_maximum(f64::from(count));
            assert!(close(found, expected), "{count}: {found} {expected}");
        }
    }

    #[test]
    fn twenty_five_evaluations_with_an_error_of_a_hundredth_peak_two_hundredths_too_high() {
        let noise = Noise::independent(0.01).unwrap();
        let (peak, drop) = (peak_by_chance(25, noise).unwrap(), drop_by_chance(25, noise).unwrap());
        assert!((peak.expected - 0.019_653).abs() < 1e-6, "{peak:?}");
        assert_eq!(peak.expected, drop.expected);
        assert!(drop.exceeded_by_5_percent > peak.exceeded_by_5_percent, "the last varies as well: {drop:?} {peak:?}");
        assert!(peak.exceeded_by_5_percent > peak.expected);
    }

    #[test]
    fn one_evaluation_has_no_peak_and_no_drop() {
        let noise = Noise::independent(1.0).unwrap();
        let peak = peak_by_chance(1, noise).unwrap();
        assert!(close(peak.expected, 0.0) && (peak.exceeded_by_5_percent - 1.644_853_627).abs() < 1e-9, "{peak:?}");
        assert_eq!(drop_by_chance(1, noise).unwrap(), ByChance { expected: 0.0, exceeded_by_5_percent: 0.0 });
        assert_eq!(peak_by_chance(0, noise).unwrap_err().to_string(), "evaluations is 0, allowed: at least 1");
    }

    #[test]
    fn of_two_evaluations_the_drop_is_half_a_normal_difference() {
        // max(x, y) - y is 0 or, with probability 1/2, |x - y|, which is sqrt(2) times half-normal: 5 % lie above sqrt(2) z(0.05).
        let drop = drop_by_chance(2, Noise::independent(1.0).unwrap()).unwrap();
        assert!((drop.exceeded_by_5_percent - 2.0_f64.sqrt() * 1.644_853_627).abs() < 1e-8, "{drop:?}");
    }

    #[test]
    fn what_all_evaluations_share_does_not_move_the_peak() {
        let of = |correlation| peak_by_chance(9, Noise::correlated(0.02, correlation).unwrap()).unwrap().expected;
        assert!(close(of(1.0), 0.0));
        assert!(close(of(0.75), of(0.0) / 2.0));
        let refused = |error: FieldError| error.to_string();
        assert_eq!(refused(Noise::correlated(0.02, 1.5).unwrap_err()), "correlation is 1.5, allowed: 0 to 1");
        assert_eq!(
            refused(Noise::independent(-0.1).unwrap_err()),
            "standard_error is -0.1, allowed: a finite number, at least 0"
        );
    }

    #[test]
    fn many_evaluations_stay_exact() {
        // Harter 1961, Biometrika 48, table 1: 2.50759 for 100; 3.24144 for 1000.
        assert!((expected_maximum(100.0) - 2.507_594).abs() < 1e-5);
        assert!((expected_maximum(1000.0) - 3.241_436).abs() < 1e-5);
    }
}
