//! Many tests at once.

use evenkeel_errors::FieldError;

/// Holm's adjusted p-values (1979), in the order of the p-values. Rejecting where the adjusted value is at most 0.05
/// keeps the probability of any false rejection in the family at 0.05, whatever depends on what: the smallest p-value
/// is multiplied by their number, the next by one less, and so on; none is below that of a smaller p-value, and none
/// above 1.
///
/// # Errors
/// A p-value outside 0 to 1.
pub fn holm(p: &[f64]) -> Result<Vec<f64>, FieldError> {
    for (at, value) in p.iter().enumerate() {
        FieldError::ensure((0.0..=1.0).contains(value), format!("p[{at}]"), value, "0 to 1")?;
    }
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*a].total_cmp(&p[*b]));
    let mut adjusted = vec![0.0; p.len()];
    let mut largest = 0.0_f64;
    for (rank, at) in order.into_iter().enumerate() {
        largest = largest.max(p[at] * (p.len() - rank) as f64).min(1.0);
        adjusted[at] = largest;
    }
    Ok(adjusted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::references::{numbers, section};

    #[test]
    fn adjusted_values_are_those_of_statsmodels() {
        for case in section("holm") {
            for (found, known) in holm(&numbers(&case["p"])).unwrap().iter().zip(numbers(&case["adjusted"])) {
                assert!((found - known).abs() < 1e-12, "{case}: {found}");
            }
        }
    }

    #[test]
    fn only_probabilities_are_adjusted() {
        assert_eq!(holm(&[]), Ok(vec![]));
        let errors = [[0.5, 1.1], [0.5, f64::NAN]].map(|p| holm(&p).unwrap_err().to_string());
        assert_eq!(errors, ["p[1] is 1.1, allowed: 0 to 1", "p[1] is NaN, allowed: 0 to 1"]);
    }
}
