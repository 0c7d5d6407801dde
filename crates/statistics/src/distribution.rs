//! The distributions that intervals and tests refer to.

use std::f64::consts::SQRT_2;

use statrs::distribution::{ContinuousCDF, Normal, StudentsT};
use statrs::function::beta::beta_reg;

/// The value below which Student's t with this many degrees of freedom lies with this probability.
pub(crate) fn student_quantile(probability: f64, freedom: f64) -> f64 {
    let student = StudentsT::new(0.0, 1.0, freedom).expect("callers have a positive number of degrees of freedom");
    student.inverse_cdf(probability)
}

/// The probability that Student's t is at least as far from 0 as this value. Through the incomplete beta function,
/// which does not cancel where the probability is small.
pub(crate) fn student_two_sided(t: f64, freedom: f64) -> f64 {
    beta_reg(freedom / 2.0, 0.5, freedom / (freedom + t * t))
}

/// The probability that a standard normal value is below this one.
pub(crate) fn normal_below(x: f64) -> f64 {
    libm::erfc(-x / SQRT_2) / 2.0
}

/// The value below which a standard normal value lies with this probability.
pub(crate) fn normal_quantile(probability: f64) -> f64 {
    Normal::standard().inverse_cdf(probability)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::references::section;

    #[test]
    fn student_is_that_of_scipy() {
        let close = |found: f64, known: &Value, what: &str| {
            let known = known.as_f64().unwrap();
            assert!((found - known).abs() <= 1e-9 * known.abs().max(1e-3), "{what}: {found} and not {known}");
        };
        for row in section("student") {
            let freedom = row["freedom"].as_f64().unwrap();
            for pair in row["quantiles"].as_array().unwrap() {
                close(
                    student_quantile(pair[0].as_f64().unwrap(), freedom),
                    &pair[1],
                    &format!("quantile {pair}, {freedom}"),
                );
            }
            for pair in row["two_sided"].as_array().unwrap() {
                close(student_two_sided(pair[0].as_f64().unwrap(), freedom), &pair[1], &format!("p {pair}, {freedom}"));
            }
        }
    }

    #[test]
    fn the_normal_distribution_is_the_known_one() {
        assert!((normal_below(1.959_963_984_540_054) - 0.975).abs() < 1e-12);
        assert!((normal_quantile(0.975) - 1.959_963_984_540_054).abs() < 1e-9);
        assert!((normal_below(-5.0) / 2.866_515_718_791_939e-7 - 1.0).abs() < 1e-10);
    }
}
