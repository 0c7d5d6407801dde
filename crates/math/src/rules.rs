//! The decisions of a check on which graders differ, each a switch with a documented default.

use std::fmt::Display;

use evenkeel_errors::FieldError;
use serde::{Deserialize, Serialize};

/// Where a final answer may be in a completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Marker {
    /// The last balanced `\boxed{}` or `\fbox{}`; adjacent boxes form one list.
    Boxed,
    /// After `####` at the start of a line, as in GSM8K.
    Hashes,
    /// The last line of the form "Answer: ..." or "final answer is ...".
    AnswerLine,
    /// The last number or formula of a text without a marker. For comparison with other graders, not for training: it
    /// would reward any number of an abandoned attempt.
    Unmarked,
}

/// How `<think>` is treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Thinking {
    /// The answer follows the last `</think>`; a completion with an unclosed `<think>` has no answer.
    #[default]
    Tail,
    /// Ignored: the whole text may hold the answer.
    Ignore,
}

/// When a decimal equals another number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decimals {
    /// Only if exactly equal.
    Exact,
    /// Also if the shorter decimal is the other number rounded at its last digit and has enough digits: two significant
    /// digits after the point in a gold answer, three in a given answer. Nothing rounds to an integer.
    #[default]
    Rounded,
}

/// What a percent sign means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Percent {
    /// A percent sign always means a hundredth.
    Hundredth,
    /// If only one side has the sign, it may also be ignored: 50% equals 1/2 and 50.
    #[default]
    Either,
}

/// How units are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Units {
    /// Units must agree if both sides have one.
    #[default]
    Compare,
    /// Units are not compared.
    Ignore,
    /// Units must agree, and must be present if the gold answer has one.
    Require,
}

/// Whether order matters in unbracketed lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Order does not matter, but multiplicity does.
    #[default]
    Free,
    /// Items must stand in the order of the gold answer.
    Strict,
}

/// Whether an equation may be answered with its right-hand side alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Equations {
    /// A right-hand side is enough if the left-hand side is a name: 5 answers `x = 5`, and `2x + 3` answers `y = 2x +
    /// 3`.
    #[default]
    Names,
    /// Only an equation answers an equation.
    Strict,
}

/// What a comma between digits means when the other side has a decimal point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DecimalComma {
    /// A decimal point: `2,74` is 2.74.
    #[default]
    Point,
    /// Always a list separator.
    List,
}

/// Whether case matters in textual answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TextCase {
    /// Upper and lower case are equal.
    #[default]
    Fold,
    /// Upper and lower case differ.
    Exact,
}

/// What an unevaluated expression that stands in the task is worth, if it equals the gold answer and is not the gold
/// answer as written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Copied {
    /// Nothing: the verdict is `copied`. Needs the task's text.
    #[default]
    Refuse,
    /// As much as any other answer.
    Accept,
}

/// Limits of one check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CheckLimits {
    /// Longest answer that is read, gold or given, in bytes.
    pub max_answer_bytes: usize,
    /// Steps that one check may take (about 25 ns each).
    pub fuel: u64,
}

impl Default for CheckLimits {
    fn default() -> Self {
        Self { max_answer_bytes: 64 << 10, fuel: 160_000 }
    }
}

/// All settings of a check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Rules {
    /// Where the answer may be, in order of precedence.
    pub markers: Vec<Marker>,
    /// How `<think>` is treated.
    pub thinking: Thinking,
    /// When a decimal equals another number.
    pub decimals: Decimals,
    /// What a percent sign means.
    pub percent: Percent,
    /// How units are compared.
    pub units: Units,
    /// Whether order matters in unbracketed lists.
    pub order: Order,
    /// Whether case matters in textual answers.
    pub text_case: TextCase,
    /// Whether an equation may be answered with its right-hand side alone.
    pub equations: Equations,
    /// What a comma between digits means.
    pub decimal_comma: DecimalComma,
    /// What an expression copied from the task is worth.
    pub copied: Copied,
    /// Limits of one check.
    pub limits: CheckLimits,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            markers: vec![Marker::Boxed, Marker::Hashes, Marker::AnswerLine],
            thinking: Thinking::default(),
            decimals: Decimals::default(),
            percent: Percent::default(),
            units: Units::default(),
            order: Order::default(),
            text_case: TextCase::default(),
            equations: Equations::default(),
            decimal_comma: DecimalComma::default(),
            copied: Copied::default(),
            limits: CheckLimits::default(),
        }
    }
}

impl Rules {
    /// Rejects rules under which no answer could be found or compared.
    pub fn validate(&self) -> Result<(), FieldError> {
        let refuse = |field, value: &dyn Display, allowed| Err(FieldError::new(field, value, allowed));
        if self.markers.is_empty() {
            return refuse("markers", &"empty", "at least one marker");
        }
        for (index, marker) in self.markers.iter().enumerate() {
            if self.markers.iter().take(index).any(|earlier| earlier == marker) {
                return refuse("markers", &format_args!("{:?}", self.markers), "each marker once");
            }
        }
        if self.limits.max_answer_bytes == 0 {
            return refuse("limits.max_answer_bytes", &0, "at least 1");
        }
        if self.limits.fuel == 0 {
            return refuse("limits.fuel", &0, "at least 1");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_valid() {
        assert_eq!(Rules::default().validate(), Ok(()));
    }

    #[test]
    fn what_could_never_judge_is_refused_by_name() {
        let refused = |change: fn(&mut Rules)| {
            let mut rules = Rules::default();
            change(&mut rules);
            rules.validate().unwrap_err().to_string()
        };
        assert_eq!(refused(|rules| rules.markers.clear()), "markers is empty, allowed: at least one marker");
        assert_eq!(
            refused(|rules| rules.markers = vec![Marker::Boxed, Marker::Boxed]),
            "markers is [Boxed, Boxed], allowed: each marker once"
        );
        assert_eq!(refused(|rules| rules.limits.fuel = 0), "limits.fuel is 0, allowed: at least 1");
        assert_eq!(
            refused(|rules| rules.limits.max_answer_bytes = 0),
            "limits.max_answer_bytes is 0, allowed: at least 1"
        );
    }
}
