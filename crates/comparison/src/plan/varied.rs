//! Settings that are varied, and the arms that their combinations make.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

use evenkeel_errors::FieldError;
use serde::{Deserialize, Serialize};

use crate::run::Arm;

/// A setting and the values that it takes in turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Varied {
    /// Key of the setting, such as `learner.objective.aggregation`.
    pub key: String,
    /// The values, as `--set` takes them.
    pub values: Vec<String>,
}

/// Settings that have no part in what an arm is: where runs of the same arm differ by nature.
const OF_A_RUN: &[&str] = &["run.seed", "run.name"];

/// Why a setting cannot be varied so, in words that say what is allowed.
#[derive(Debug)]
pub(super) enum VariedFault {
    Empty,
    OfARun,
    OneValue,
    Twice(String),
}

impl Display for VariedFault {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => formatter.write_str("KEY=VALUE,VALUE"),
            Self::OfARun => formatter.write_str("another setting (--seeds says how many seeds there are)"),
            Self::OneValue => formatter.write_str("two values or more"),
            Self::Twice(value) => write!(formatter, "each value once ({value:?} is given twice)"),
        }
    }
}

impl Varied {
    /// Reads `KEY=VALUE,VALUE`. Commas within brackets, braces and quotes separate nothing.
    ///
    /// # Errors
    /// Another form, a single value, a value twice, and settings that belong to a run and not to an arm.
    pub fn parse(text: &str) -> Result<Self, FieldError> {
        let refused = |allowed: String| FieldError::quoted("--vary", text, allowed);
        let (key, values) = text.split_once('=').ok_or_else(|| refused("KEY=VALUE,VALUE".to_owned()))?;
        let values =
            separate(values).ok_or_else(|| refused("values whose brackets and quotes are closed".to_owned()))?;
        let varied = Self { key: key.trim().to_owned(), values };
        varied.validate().map_err(|fault| refused(fault.to_string()))?;
        Ok(varied)
    }

    /// # Errors
    /// What is allowed instead.
    pub(super) fn validate(&self) -> Result<(), VariedFault> {
        if self.key.is_empty() || self.values.iter().any(String::is_empty) {
            return Err(VariedFault::Empty);
        }
        if OF_A_RUN.contains(&self.key.as_str()) {
            return Err(VariedFault::OfARun);
        }
        if self.values.len() < 2 {
            return Err(VariedFault::OneValue);
        }
        let mut seen = self.values.clone();
        seen.sort_unstable();
        match seen.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(VariedFault::Twice(pair[0].clone())),
            None => Ok(()),
        }
    }
}

/// Every combination of the values, the first setting changing slowest.
pub(super) fn arms(varied: &[Varied]) -> Vec<Arm> {
    let mut arms = vec![BTreeMap::new()];
    for Varied { key, values } in varied {
        let arm_with = |arm: &BTreeMap<String, String>, value: &String| {
            let mut arm = arm.clone();
            arm.insert(key.clone(), value.clone());
            arm
        };
        arms = arms.iter().flat_map(|arm| values.iter().map(move |value| arm_with(arm, value))).collect();
    }
    arms.into_iter().map(Arm).collect()
}

/// Splits at the commas of the outermost level. `None` where something stays open.
fn separate(text: &str) -> Option<Vec<String>> {
    let mut parts = vec![String::new()];
    let mut depth = 0_u32;
    let mut quote = None;
    for character in text.chars() {
        match (quote, character) {
            (Some(open), _) if character == open => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(character),
            (None, '[' | '{') => depth += 1,
            (None, ']' | '}') => depth = depth.checked_sub(1)?,
            (None, ',') if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        parts.last_mut()?.push(character);
    }
    let is_closed = depth == 0 && quote.is_none();
    is_closed.then(|| parts.into_iter().map(|part| part.trim().to_owned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn varied(texts: &[&str]) -> Vec<Varied> {
        texts.iter().map(|text| Varied::parse(text).unwrap()).collect()
    }

    #[test]
    fn every_combination_is_an_arm() {
        let labels: Vec<_> =
            arms(&varied(&["a.rule=token,balanced", "a.rate=1e-4,2e-4"])).iter().map(Arm::label).collect();
        let expected = ["token, 1e-4", "token, 2e-4", "balanced, 1e-4", "balanced, 2e-4"];
        let swapped = |text: &str| {
            let (rule, rate) = text.split_once(", ").unwrap();
            format!("rate={rate}, rule={rule}")
        };
        assert_eq!(labels, expected.map(swapped));
        let names: Vec<_> = arms(&varied(&["a.b=[1, 2],x/y"])).iter().map(Arm::file_name).collect();
        assert_eq!(names, ["_1__2_", "x_y"]);
    }

    #[test]
    fn commas_within_brackets_and_quotes_belong_to_a_value() {
        let found = Varied::parse("data.files=[\"a,b\", 'c'],{x = 1, y = 2},z").unwrap();
        assert_eq!(found.values, ["[\"a,b\", 'c']", "{x = 1, y = 2}", "z"]);
    }

    #[test]
    fn what_varies_nothing_is_refused() {
        for (text, words) in [
            ("a.b", "allowed: KEY=VALUE,VALUE"),
            ("=1,2", "allowed: KEY=VALUE,VALUE"),
            ("a.b=1,", "allowed: KEY=VALUE,VALUE"),
            ("a.b=1", "two values or more"),
            ("a.b=1,2,1", "each value once (\"1\" is given twice)"),
            ("a.b=[1,2", "brackets and quotes are closed"),
            ("run.seed=1,2", "--seeds says how many"),
        ] {
            let error = Varied::parse(text).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
