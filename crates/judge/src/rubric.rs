//! Rubrics: criteria with weights, in a TOML file.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_proto::{FieldError, is_component_name};
use serde::Deserialize;

/// Most criteria: as many as a verdict may have components.
const MAX_CRITERIA: usize = 32;
/// Longest description of a criterion, in bytes.
const MAX_DESCRIPTION: usize = 4 << 10;
/// Components of every reward, which no criterion may be called.
const RESERVED: [&str; 4] = ["correctness", "length", "format", "bare"];

/// What a judge looks at in an answer, and what each thing counts.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rubric {
    criteria: Vec<Criterion>,
}

/// One criterion of a [`Rubric`].
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Criterion {
    /// Name in replies, components and metrics.
    pub name: String,
    /// Share in the score; below 0 the criterion is a penalty.
    pub weight: f64,
    /// What the judge reads.
    pub description: String,
}

impl Rubric {
    /// Reads and checks a rubric.
    ///
    /// # Errors
    /// A text that is not TOML; no criterion or more than 32; names that are no names of components or come twice;
    /// weights that are 0 or not finite; no weight above 0, so that nothing could be earned.
    pub fn parse(text: &str) -> Result<Self, FieldError> {
        let rubric: Self = toml::from_str(text)
            .map_err(|error| FieldError::new("", "not readable", format!("[[criteria]] in TOML: {error}")))?;
        rubric.validate()?;
        Ok(rubric)
    }

    fn validate(&self) -> Result<(), FieldError> {
        let count = self.criteria.len();
        let allowed = format!("1 to {MAX_CRITERIA} criteria");
        FieldError::ensure((1..=MAX_CRITERIA).contains(&count), "criteria", format_args!("{count} criteria"), allowed)?;
        let mut names = BTreeSet::new();
        for (index, Criterion { name, weight, description }) in self.criteria.iter().enumerate() {
            let field = |key: &str| format!("criteria[{index}].{key}");
            let is_free = is_component_name(name) && !RESERVED.contains(&name.as_str());
            let allowed = "1 to 64 letters, digits, `_`, `-` and `.`, and none of correctness, length, format and bare";
            FieldError::ensure(is_free, field("name"), format_args!("{name:?}"), allowed)?;
            let allowed = "a name that no other criterion has";
            FieldError::ensure(names.insert(name), field("name"), format_args!("{name:?}"), allowed)?;
            let allowed = "a finite number other than 0";
            FieldError::ensure(weight.is_finite() && *weight != 0.0, field("weight"), weight, allowed)?;
            let length = description.len();
            let allowed = format!("1 to {MAX_DESCRIPTION} bytes");
            let fits = !description.trim().is_empty() && length <= MAX_DESCRIPTION;
            FieldError::ensure(fits, field("description"), format_args!("{length} bytes"), allowed)?;
        }
        let total = self.positive_weight();
        let allowed = "at least one weight above 0, and a finite sum of them";
        FieldError::ensure(total > 0.0 && total.is_finite(), "criteria", "without a usable sum of weights", allowed)
    }

    /// The criteria, in the order of the file.
    pub fn criteria(&self) -> &[Criterion] {
        &self.criteria
    }

    /// The score of an answer: `sum of weight * value / sum of positive weights`, cut to 0 to 1. `values` has a number
    /// from 0 to 1 for each criterion; one that is missing counts 0.
    pub fn score(&self, values: &BTreeMap<String, f64>) -> f64 {
        let value = |criterion: &Criterion| values.get(&criterion.name).copied().unwrap_or_default();
        let earned: f64 = self.criteria.iter().map(|criterion| criterion.weight * value(criterion)).sum();
        (earned / self.positive_weight()).clamp(0.0, 1.0)
    }

    fn positive_weight(&self) -> f64 {
        self.criteria.iter().map(|criterion| criterion.weight).filter(|weight| *weight > 0.0).sum()
    }

    /// The criteria as the judge reads them, a line each. Weights are left out: a judge says what holds, not what it is
    /// worth.
    pub(crate) fn listed(&self) -> String {
        let line = |criterion: &Criterion| format!("- {}: {}", criterion.name, criterion.description.trim());
        self.criteria.iter().map(line).collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUBRIC: &str = "[[criteria]]\nname = \"right\"\nweight = 3\ndescription = \"equals the reference\"\n\
        [[criteria]]\nname = \"clear\"\nweight = 1.0\ndescription = \"is easy to follow\"\n\
        [[criteria]]\nname = \"rude\"\nweight = -2.0\ndescription = \"insults the reader\"\n";

    fn score(values: [f64; 3]) -> f64 {
        let names = ["right", "clear", "rude"].map(str::to_owned);
        Rubric::parse(RUBRIC).unwrap().score(&names.into_iter().zip(values).collect())
    }

    #[test]
    fn a_score_is_the_weighted_sum_over_the_positive_weights_and_cut_to_0_to_1() {
        assert_eq!(score([1.0, 1.0, 0.0]), 1.0);
        assert_eq!(score([1.0, 0.0, 0.0]), 0.75);
        assert_eq!(score([1.0, 1.0, 1.0]), 0.5, "a penalty");
        assert_eq!(score([0.0, 0.0, 1.0]), 0.0, "no less than 0");
        assert_eq!(score([0.5, 0.5, 0.25]), 0.375);
    }

    #[test]
    fn a_rubric_that_cannot_score_is_refused_by_its_field() {
        let refused = |text: &str| Rubric::parse(text).unwrap_err().to_string();
        let one = |name: &str, weight: &str| {
            format!("[[criteria]]\nname = \"{name}\"\nweight = {weight}\ndescription = \"a\"\n")
        };
        assert_eq!(refused("criteria = []"), "criteria is 0 criteria, allowed: 1 to 32 criteria");
        let error = refused(&one("rude", "-1.0"));
        assert_eq!(
            error,
            "criteria is without a usable sum of weights, allowed: at least one weight above 0, and a finite sum of them"
        );
        let error = refused(&one("right", "0.0"));
        assert_eq!(error, "criteria[0].weight is 0, allowed: a finite number other than 0");
        for weight in ["inf", "nan", "-inf"] {
            assert!(refused(&one("right", weight)).starts_with("criteria[0].weight is"), "{weight}");
        }
        assert!(refused(&one("format", "1.0")).starts_with("criteria[0].name is \"format\""));
        assert!(refused(&one("a b", "1.0")).starts_with("criteria[0].name is \"a b\""));
        assert!(refused(&(one("a", "1.0") + &one("a", "2.0"))).starts_with("criteria[1].name is \"a\""));
        assert!(refused("[[criteria]]\nname = \"a\"\nweight = 1.0\ndescription = \" \"").contains("description"));
        assert!(refused(&format!("{}points = 3", one("a", "1.0"))).contains("points"), "an unknown key");
        assert!(refused("criteria").contains("not readable"));
    }
}
