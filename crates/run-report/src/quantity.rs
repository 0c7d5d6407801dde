//! Values of evaluations for people.

use evenkeel_charts::{number, percent};
use evenkeel_run::Quantity;

/// An accuracy in percent or a mean reward as a number, with its standard error where it has one.
pub fn in_words(quantity: Quantity, value: f64, standard_error: Option<f64>) -> String {
    match (quantity, standard_error) {
        (Quantity::Accuracy, error) => percent(value, error),
        (Quantity::Reward, Some(error)) => format!("{} ± {}", number(value), number(error)),
        (Quantity::Reward, None) => number(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reward_is_no_percentage() {
        assert_eq!(in_words(Quantity::Accuracy, 0.9125, Some(0.01)), "91.2 ± 1.0 %");
        assert_eq!(in_words(Quantity::Reward, 0.9125, Some(0.01)), "0.912 ± 0.01");
        assert_eq!(in_words(Quantity::Reward, -2.5, None), "-2.5");
    }
}
