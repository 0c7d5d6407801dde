//! The normal and Student's distribution, with the same bits on every machine (their functions are `libm`'s).

use std::f64::consts::{FRAC_1_SQRT_2, PI};

/// Density of the standard normal distribution.
pub(crate) fn normal_density(x: f64) -> f64 {
    libm::exp(-0.5 * x * x) / (2.0 * PI).sqrt()
}

/// Probability that a standard normal variable is at most `x`.
pub(crate) fn normal_cdf(x: f64) -> f64 {
    0.5 * libm::erfc(-x * FRAC_1_SQRT_2)
}

/// The number that a standard normal variable exceeds with probability `tail`, 0 < `tail` <= 1/2.
pub(crate) fn normal_quantile_above(tail: f64) -> f64 {
    // Below 38.5 the tail is still a number above 0.
    crossing(0.0, 39.0, |x| normal_cdf(-x) <= tail)
}

/// Probability that Student's t with these degrees of freedom (at least 1) exceeds `t` >= 0.
pub(crate) fn student_tail(t: f64, freedom: usize) -> f64 {
    let freedom = freedom as f64;
    let square = t * t;
    let sum = freedom + square;
    // Abramowitz and Stegun 26.7.1 with 26.5.27.
    0.5 * incomplete_beta(0.5 * freedom, 0.5, freedom / sum, square / sum)
}

/// The number that Student's t exceeds with probability `tail`, 0 < `tail` <= 1/2.
pub(crate) fn student_quantile_above(tail: f64, freedom: usize) -> f64 {
    let mut high = 2.0;
    while student_tail(high, freedom) > tail {
        high *= 2.0;
    }
    crossing(0.0, high, |t| student_tail(t, freedom) <= tail)
}

/// Where a condition that is false at `low` and true from some number on becomes true, to the last bits.
pub(crate) fn crossing(mut low: f64, mut high: f64, holds: impl Fn(f64) -> bool) -> f64 {
    loop {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            return high;
        }
        if holds(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
}

/// The regularised incomplete beta function `I_x(a, b)`; `y` is 1 - x, given apart so that neither loses digits near 0.
///
/// The continued fraction of Abramowitz and Stegun 26.5.8, evaluated by Lentz's method (Press et al., Numerical Recipes, section 6.4).
fn incomplete_beta(a: f64, b: f64, x: f64, y: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if y <= 0.0 {
        return 1.0;
    }
    // The fraction converges fast on this side; the other follows by symmetry.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(b, a, y, x);
    }
    let ln_beta = libm::lgamma(a) + libm::lgamma(b) - libm::lgamma(a + b);
    let ln_x = if x < 0.5 { libm::log(x) } else { libm::log1p(-y) };
    let ln_y = if y < 0.5 { libm::log(y) } else { libm::log1p(-x) };
    libm::exp(a * ln_x + b * ln_y - ln_beta) / (a * continued_fraction(a, b, x))
}

/// `1 + d1/(1 + d2/(1 + ...))` of the incomplete beta function. It needs about the root of the larger of `a` and `b` terms.
fn continued_fraction(a: f64, b: f64, x: f64) -> f64 {
    const TINY: f64 = 1e-300;
    const MAX_TERMS: u32 = 100_000;
    let away_from_zero = |value: f64| if value.abs() < TINY { TINY } else { value };
    let coefficient = |term: u32| {
        let m = f64::from(term / 2);
        let at = a + f64::from(term);
        if term.is_multiple_of(2) {
            m * (b - m) * x / ((at - 1.0) * at)
        } else {
            -(a + m) * (a + b + m) * x / ((at - 1.0) * at)
        }
    };
    let (mut fraction, mut numerator, mut denominator) = (1.0, 1.0, 0.0);
    for term in 1..=MAX_TERMS {
        let d = coefficient(term);
        denominator = 1.0 / away_from_zero(1.0 + d * denominator);
        numerator = away_from_zero(1.0 + d / numerator);
        let factor: f64 = numerator * denominator;
        fraction *= factor;
        if (factor - 1.0).abs() < f64::EPSILON {
            break;
        }
    }
    fraction
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn close(found: f64, expected: f64, relative: f64) -> bool {
        (found - expected).abs() <= relative * expected.abs()
    }

    #[test]
    fn students_t_with_one_and_two_degrees_has_its_closed_forms() {
        for t in [0.0, 1e-9, 0.3, 1.0, 4.0, 700.0, 1e6] {
            let cauchy = libm::atan2(1.0, t) / PI;
            // (1 - t / sqrt(2 + t^2)) / 2 without the cancellation.
            let root = (2.0 + t * t).sqrt();
            let two = 1.0 / (root * (root + t));
            assert!(close(student_tail(t, 1), cauchy, 1e-12), "{t}: {} {cauchy}", student_tail(t, 1));
            assert!(close(student_tail(t, 2), two, 1e-12), "{t}: {} {two}", student_tail(t, 2));
        }
    }

    #[test]
    fn students_t_with_many_degrees_is_nearly_normal() {
        for tail in [0.4, 0.1, 0.025, 1e-4] {
            let (student, normal) = (student_quantile_above(tail, 100_000_000), normal_quantile_above(tail));
            assert!(close(student, normal, 1e-6), "{student} {normal}");
        }
    }

    #[test]
    fn quantiles_are_scipys() {
        let goldens: serde_json::Value = serde_json::from_str(include_str!("../tests/golden/goldens.json")).unwrap();
        for case in goldens["quantiles"].as_array().unwrap() {
            let (tail, expected) = (case["tail"].as_f64().unwrap(), case["value"].as_f64().unwrap());
            let found = match case["freedom"].as_u64() {
                Some(freedom) => student_quantile_above(tail, usize::try_from(freedom).unwrap()),
                None => normal_quantile_above(tail),
            };
            assert!((found - expected).abs() <= 1e-12 * (1.0 + expected), "{case}: {found}");
        }
    }

    proptest! {
        #[test]
        fn a_quantile_has_its_probability(tail in 1e-12_f64..0.5, freedom in 1_usize..400) {
            let student = student_tail(student_quantile_above(tail, freedom), freedom);
            prop_assert!(close(student, tail, 1e-11), "{student}");
            let normal = normal_cdf(-normal_quantile_above(tail));
            prop_assert!(close(normal, tail, 1e-11), "{normal}");
        }

        #[test]
        fn the_incomplete_beta_function_is_a_sum_of_binomial_terms(successes in 1_u32..20, failures in 0_u32..20, x in 0.001_f64..0.999) {
            // I_x(k, n - k + 1) is the probability of at least k successes in n trials (Abramowitz and Stegun 26.5.24).
            let trials = successes + failures;
            let choose = |k: u32| (1..=k).map(|i| f64::from(trials + 1 - i) / f64::from(i)).product::<f64>();
            let term = |k: u32| choose(k) * libm::pow(x, f64::from(k)) * libm::pow(1.0 - x, f64::from(trials - k));
            let expected: f64 = (successes..=trials).map(term).sum();
            let found = incomplete_beta(f64::from(successes), f64::from(failures + 1), x, 1.0 - x);
            prop_assert!(close(found, expected, 1e-10), "{found} {expected}");
        }
    }
}
