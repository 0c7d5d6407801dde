//! What a peak is worth: the highest of several noisy evaluations stands above the truth by chance alone.

use evenkeel_errors::FieldError;

use crate::distribution::normal_below;

/// Nodes of the integration on either side of zero.
const NODES: usize = 200;
/// Where the integration ends, in the largest of the errors.
const TAILS: f64 = 9.0;

/// By how much the highest of several evaluations is expected to stand above an accuracy that does not change, if each
/// evaluation has independent normal noise with its own standard error: 0.02 for 25 evaluations of 0.01.
///
/// It is also the expected drop from the peak to the last evaluation, since the last one stands above the accuracy by
/// nothing on average. Computed as `∫ 1 - F` above zero minus `∫ F` below, where F, the probability that all are below
/// x, is the product of their normal distributions; exact to nine digits where no error is a thousand times another.
///
/// # Errors
/// No error, or one that is negative or not finite.
pub fn peak_by_chance(standard_errors: &[f64]) -> Result<f64, FieldError> {
    FieldError::ensure(!standard_errors.is_empty(), "standard_errors", "empty", "one or more")?;
    for (at, error) in standard_errors.iter().enumerate() {
        let holds = error.is_finite() && *error >= 0.0;
        FieldError::ensure(holds, format!("standard_errors[{at}]"), error, "a finite number, at least 0")?;
    }
    let largest = standard_errors.iter().copied().fold(0.0, f64::max);
    if largest == 0.0 {
        return Ok(0.0);
    }
    let all_below = |x: f64| standard_errors.iter().map(|error| below(x, *error)).product::<f64>();
    Ok(largest * integral(|x| 1.0 - all_below(x * largest) - all_below(-x * largest)))
}

fn below(x: f64, error: f64) -> f64 {
    if error > 0.0 { normal_below(x / error) } else { f64::from(u8::from(x >= 0.0)) }
}

/// The integral from 0 to [`TAILS`] by Simpson's rule in the cube root of x: errors much smaller than the largest make
/// the integrand steep near zero, where most nodes are then.
fn integral(of: impl Fn(f64) -> f64) -> f64 {
    let width = 1.0 / NODES as f64;
    let value = |node: usize| {
        let u = node as f64 * width;
        of(TAILS * u * u * u) * 3.0 * TAILS * u * u
    };
    let weighted = |node: usize| value(node) * if node % 2 == 1 { 4.0 } else { 2.0 };
    (value(0) + (1..NODES).map(weighted).sum::<f64>() + value(NODES)) * width / 3.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::references::{numbers, section};

    #[test]
    fn expectations_are_those_of_an_adaptive_integration() {
        for case in section("chance") {
            let errors = numbers(&case["errors"]);
            let found = peak_by_chance(&errors).unwrap();
            let known = case["expected"].as_f64().unwrap();
            assert!((found - known).abs() < 1e-9 * known, "{errors:?}: {found} and not {known}");
        }
    }

    #[test]
    fn known_expectations_of_the_highest_normal_value() {
        let root_of_pi = std::f64::consts::PI.sqrt();
        for (count, known) in [(1, 0.0), (2, 1.0 / root_of_pi), (3, 1.5 / root_of_pi)] {
            assert!((peak_by_chance(&vec![1.0; count]).unwrap() - known).abs() < 1e-12, "{count}");
        }
        assert!((peak_by_chance(&[0.01; 25]).unwrap() - 0.0197).abs() < 5e-5, "25 evaluations of 0.01");
    }

    #[test]
    fn an_evaluation_without_noise_is_a_floor() {
        // The mean of the positive half of a normal distribution.
        let half = 1.0 / (2.0 * std::f64::consts::PI).sqrt();
        assert!((peak_by_chance(&[0.0, 1.0]).unwrap() - half).abs() < 1e-9);
        assert_eq!(peak_by_chance(&[0.0, 0.0]), Ok(0.0));
    }

    #[test]
    fn only_standard_errors_are_taken() {
        let errors = [vec![], vec![0.1, -0.1], vec![f64::NAN]].map(|e| peak_by_chance(&e).unwrap_err().to_string());
        assert_eq!(
            errors,
            [
                "standard_errors is empty, allowed: one or more",
                "standard_errors[1] is -0.1, allowed: a finite number, at least 0",
                "standard_errors[0] is NaN, allowed: a finite number, at least 0",
            ]
        );
    }
}
