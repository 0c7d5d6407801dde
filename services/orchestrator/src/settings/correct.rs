//! Which answers count as *correct* where a setting says so, and the verifier's verdict does not decide.

use std::collections::BTreeMap;

use evenkeel_proto::FieldError;
use evenkeel_proto::v1::Outcome;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which answers are *correct*: those whose reward is at least a number (`0.5`), those with a component of at least 1 or
/// another number (`{ component = "right", at_least = 0.5 }`), or nobody says so (`"unknown"`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "a reward (0.5), a component ({ component = \"right\" }) or \"unknown\"")]
pub enum CorrectRule {
    /// The lowest reward of a correct answer, before any shaping.
    Reward(f64),
    /// A component of the verdict.
    Component(ComponentRule),
    /// A word.
    Word(CorrectWord),
}

/// A component that says which answers are correct.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ComponentRule {
    /// The component's name: that of one of several functions, or a key of the dict that a function returns.
    pub component: String,
    /// The component's lowest value in a correct answer.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub at_least: f64,
}

/// A word that says which answers are correct.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CorrectWord {
    /// Nobody knows it: evaluations have mean rewards and no accuracy.
    Unknown,
}

fn one() -> f64 {
    1.0
}

fn is_one(value: &f64) -> bool {
    *value == 1.0
}

impl CorrectRule {
    pub(super) fn validate(&self) -> Result<(), FieldError> {
        match self {
            Self::Reward(least) => {
                let allowed = "a finite number: the lowest reward of a correct answer";
                FieldError::ensure(least.is_finite(), "", least, allowed)
            }
            Self::Component(ComponentRule { component, at_least }) => {
                FieldError::ensure(!component.is_empty(), "component", "empty", "the name of a component")?;
                FieldError::ensure(at_least.is_finite(), "at_least", at_least, "a finite number")
            }
            Self::Word(CorrectWord::Unknown) => Ok(()),
        }
    }

    /// Refuses a bound that no answer reaches, since the ends of `range` count as 0 and 1.
    pub(super) fn validate_in_range(&self) -> Result<(), FieldError> {
        let (field, least) = match self {
            Self::Reward(least) => ("", *least),
            Self::Component(rule) => ("at_least", rule.at_least),
            Self::Word(_) => return Ok(()),
        };
        let allowed = "at most 1, since the ends of `range` count as 0 and 1";
        FieldError::ensure(least <= 1.0, field, least, allowed)
    }

    /// The outcome of a verdict by this rule. An answer without the component has a reward alone.
    pub(crate) fn outcome(&self, verdict: Outcome, reward: f64, components: &BTreeMap<String, f64>) -> Outcome {
        let correct = match self {
            Self::Reward(least) => Some(reward >= *least),
            Self::Component(rule) => components.get(&rule.component).map(|value| *value >= rule.at_least),
            Self::Word(CorrectWord::Unknown) => None,
        };
        match correct {
            None => Outcome::Scored,
            Some(true) => Outcome::Correct,
            Some(false) if verdict.correct() == Some(false) => verdict,
            Some(false) => Outcome::Incorrect,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::tests::load;

    fn rule(text: &str) -> CorrectRule {
        let text = format!("[data.verifiers.a]\npath = \"a.py\"\ncorrect = {text}");
        load(&text).unwrap().data.verifiers["a"].correct.clone().unwrap()
    }

    #[test]
    fn a_rule_is_a_reward_a_component_or_unknown() {
        let outcome = |text: &str, verdict: Outcome, reward: f64, right: Option<f64>| {
            let components = right.map(|value| ("right".to_owned(), value)).into_iter().collect();
            rule(text).outcome(verdict, reward, &components)
        };
        use Outcome::{Correct, Incorrect, NoAnswer, Scored};
        assert_eq!(outcome("0.5", Incorrect, 0.5, None), Correct);
        assert_eq!(outcome("0.5", Incorrect, 0.49, None), Incorrect);
        assert_eq!(outcome("1", Correct, 0.9, None), Incorrect, "the setting decides, and not the verdict");
        assert_eq!(outcome("0.5", NoAnswer, 0.0, None), NoAnswer, "what the verifier says of a wrong answer stays");
        assert_eq!(outcome("{ component = \"right\" }", Incorrect, 0.75, Some(1.0)), Correct);
        assert_eq!(outcome("{ component = \"right\" }", Correct, 1.0, Some(0.5)), Incorrect);
        assert_eq!(outcome("{ component = \"right\", at_least = 0.5 }", Incorrect, 0.2, Some(0.5)), Correct);
        assert_eq!(outcome("{ component = \"right\" }", Incorrect, 0.75, None), Scored);
        assert_eq!(outcome("\"unknown\"", Correct, 1.0, Some(1.0)), Scored);
    }

    #[test]
    fn anything_else_is_refused_with_what_may_stand_there() {
        for (text, words) in [
            ("\"often\"", "a reward (0.5), a component ({ component = \"right\" }) or \"unknown\""),
            ("{ component = \"\" }", "`data.verifiers.a.correct.component` is empty in test"),
            ("nan", "`data.verifiers.a.correct` is NaN in test, allowed: a finite number"),
            (
                "3\nrange = [0, 5]",
                "`data.verifiers.a.correct` is 3 in test, allowed: at most 1, since the ends of `range`",
            ),
            (
                "{ component = \"b\", at_least = 2 }\nrange = [0, 5]",
                "`data.verifiers.a.correct.at_least` is 2 in test, allowed: at most 1",
            ),
        ] {
            let error = load(&format!("[data.verifiers.a]\npath = \"a.py\"\ncorrect = {text}")).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
        assert_eq!(rule("3"), CorrectRule::Reward(3.0), "without a range any number may be the bound");
        let affecting =
            |text: &str| load(&format!("[data.verifiers.a]\npath = \"a.py\"\n{text}")).unwrap().result_affecting();
        assert_ne!(affecting(""), affecting("correct = 0.5"), "accuracies of one run follow one rule");
    }
}
