//! The weights of the components of a reward.

use std::collections::BTreeSet;

use evenkeel_proto::FieldError;
pub(crate) use evenkeel_run::CORRECTNESS;

use super::{PolicySamplingSettings, ShapingSettings};

/// Minus the overlong penalty.
pub(crate) const LENGTH: &str = "length";
/// Whether the response has the form in which a verifier finds what it judges.
pub(crate) const FORMAT: &str = "format";

/// The verifier's reward where the response is its answer and nothing besides, otherwise 0; only where it has a weight.
pub(crate) const BARE: &str = "bare";

/// The components that every run has or may have.
const COMPONENTS: [&str; 4] = [CORRECTNESS, LENGTH, FORMAT, BARE];

impl ShapingSettings {
    /// The weight of a component in the shaped reward.
    pub fn weight(&self, component: &str) -> f64 {
        let usual = if matches!(component, CORRECTNESS | LENGTH) { 1.0 } else { 0.0 };
        self.weights.get(component).copied().unwrap_or(usual)
    }

    /// Every component with a weight of its own or by default, in the order of names.
    fn weighted(&self) -> impl Iterator<Item = (&str, f64)> {
        let usual = COMPONENTS.into_iter().filter(|name| !self.weights.contains_key(*name));
        usual.chain(self.weights.keys().map(String::as_str)).map(|name| (name, self.weight(name)))
    }

    /// Each setting that shapes rewards, its value, and what it adds to the size of a shaped reward at most.
    pub fn bounds(&self) -> Vec<(String, f64, f64)> {
        let (largest, name) = if self.correct.abs() >= self.wrong.abs() {
            (self.correct, "shaping.correct")
        } else {
            (self.wrong, "shaping.wrong")
        };
        let of_weight = |(component, weight): (&str, f64)| match component {
            CORRECTNESS => (name.to_owned(), largest, weight * largest.abs()),
            LENGTH => ("shaping.overlong_penalty".to_owned(), self.overlong_penalty, weight * self.overlong_penalty),
            other => (format!("shaping.weights.{other}"), weight, weight),
        };
        self.weighted().map(of_weight).collect()
    }

    /// How many components a shaped reward is the weighted sum of at least.
    pub fn counted_components(&self) -> usize {
        let counts = |(name, weight): (&str, f64)| weight > 0.0 && self.counts(name);
        self.weighted().filter(|component| counts(*component)).count()
    }

    /// The setting that makes rewards of answers negative, with its value; custom verifiers may do so besides.
    pub fn below_zero(&self) -> Option<(&'static str, f64)> {
        if self.wrong < 0.0 {
            return Some(("shaping.wrong", self.wrong));
        }
        let penalised = self.weight(LENGTH) > 0.0 && self.counts(LENGTH);
        penalised.then_some(("shaping.overlong_penalty", self.overlong_penalty))
    }

    /// Without a buffer the length of a response counts nothing, whatever it weighs.
    fn counts(&self, name: &str) -> bool {
        name != LENGTH || (self.overlong_buffer_tokens > 0 && self.overlong_penalty > 0.0)
    }

    /// Refuses weights of components that nobody has. `others` are those that the verifiers of the run have besides the
    /// components of every run.
    ///
    /// # Errors
    /// The first such weight, with the components that there are.
    pub fn check_components<'a>(&self, others: impl Iterator<Item = &'a str>) -> Result<(), FieldError> {
        let known: BTreeSet<&str> = COMPONENTS.into_iter().chain(others).collect();
        match self.weights.iter().find(|(name, _)| !known.contains(name.as_str())) {
            None => Ok(()),
            Some((name, weight)) => {
                let known = known.into_iter().collect::<Vec<_>>().join(", ");
                let allowed = format!("weights of {known} (the status of a custom verifier names its components)");
                Err(FieldError::new(format!("shaping.weights.{name}"), weight, allowed))
            }
        }
    }

    /// Checks the section against the one that it refers to.
    pub(crate) fn validate_with(&self, sampling: &PolicySamplingSettings) -> Result<(), FieldError> {
        let finite = |field: &str, value: f64| FieldError::ensure(value.is_finite(), field, value, "a finite number");
        finite("correct", self.correct)?;
        finite("wrong", self.wrong)?;
        let allowed = format!("above shaping.wrong, which is {}", self.wrong);
        FieldError::ensure(self.correct > self.wrong, "correct", self.correct, allowed)?;
        let buffer = self.overlong_buffer_tokens;
        let most = sampling.max_tokens;
        let allowed = format!("0 to sampling.max_tokens, which is {most}");
        FieldError::ensure(buffer <= most, "overlong_buffer_tokens", buffer, allowed)?;
        let penalty = self.overlong_penalty;
        FieldError::ensure(
            penalty.is_finite() && penalty >= 0.0,
            "overlong_penalty",
            penalty,
            "a finite number, at least 0",
        )?;
        for (name, &weight) in &self.weights {
            let good = weight.is_finite() && weight >= 0.0;
            FieldError::ensure(good, format!("weights.{name}"), weight, "a finite number, at least 0")?;
        }
        let sum: f64 = self.weighted().filter(|(name, _)| self.counts(name)).map(|(_, weight)| weight).sum();
        let allowed = "a sum above 0 (of components that can differ between answers), or every reward would be 0";
        FieldError::ensure(sum > 0.0, "weights", format_args!("{sum} in all"), allowed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(change: impl Fn(&mut ShapingSettings)) -> Result<(), String> {
        let mut shaping = ShapingSettings::default();
        change(&mut shaping);
        shaping.validate_with(&PolicySamplingSettings::default()).map_err(|error| error.to_string())
    }

    fn weights(pairs: &[(&str, f64)]) -> Result<(), String> {
        check(|shaping| shaping.weights = pairs.iter().map(|(name, weight)| ((*name).to_owned(), *weight)).collect())
    }

    #[test]
    fn weights_that_sum_to_nothing_are_refused() {
        assert_eq!(weights(&[("format", 0.2)]), Ok(()));
        assert_eq!(weights(&[("correctness", 0.0), ("style", 1.0)]), Ok(()));
        let error = weights(&[("correctness", 0.0)]).unwrap_err();
        assert!(error.starts_with("weights is 0 in all, allowed: a sum above 0"), "{error}");
        assert!(weights(&[("correctness", 0.0), ("length", 5.0)]).is_err(), "without a buffer length counts nothing");
        for weight in [-1.0, f64::NAN, f64::INFINITY] {
            let error = weights(&[("style", weight)]).unwrap_err();
            assert!(error.starts_with("weights.style is") && error.ends_with("at least 0"), "{error}");
        }
    }

    #[test]
    fn a_right_answer_is_worth_more_than_a_wrong_one() {
        assert_eq!(check(|shaping| shaping.wrong = -1.0), Ok(()));
        let error = check(|shaping| shaping.wrong = 1.0).unwrap_err();
        assert_eq!(error, "correct is 1, allowed: above shaping.wrong, which is 1");
        assert!(check(|shaping| shaping.correct = f64::NAN).is_err());
        assert!(check(|shaping| shaping.wrong = f64::NEG_INFINITY).is_err());
    }
}
