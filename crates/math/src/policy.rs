//! The choices of a check on which reasonable people differ. Each is one switch with a documented default.

use std::fmt::Display;

use evenkeel_errors::FieldError;
use serde::{Deserialize, Serialize};

/// Where a final answer may stand in a completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Marker {
    /// The last balanced `\boxed{}` or `\fbox{}`; neighbouring boxes are one list.
    Boxed,
    /// After `####` at the beginning of a line, as GSM8K writes it.
    Hashes,
    /// The last line of the form "Answer: ..." or "final answer is ...".
    AnswerLine,
    /// The last number or formula of a text that marks nothing. For comparison with graders that do this, not for training: any
    /// number of an abandoned attempt would do.
    Unmarked,
}

/// What `<think>` means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Thinking {
    /// The answer stands behind the last `</think>`; a `<think>` that was never closed has none.
    #[default]
    Tail,
    /// Nothing: the whole text may hold the answer.
    Ignore,
}

/// When a decimal equals another number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decimals {
    /// Only exactly.
    Exact,
    /// Also where the shorter decimal is the other number, rounded at its last digit, and has enough digits: two significant ones
    /// behind the point in a gold answer, three in a given one. Integers are never rounded to.
    #[default]
    Rounded,
}

/// What a percent sign means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Percent {
    /// A hundredth.
    Hundredth,
    /// Where only one side has the sign, also nothing: 50% is 1/2 and 50.
    #[default]
    Either,
}

/// What units mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Units {
    /// They must agree where both sides have one.
    #[default]
    Compare,
    /// They are never looked at.
    Ignore,
    /// They must agree, and be there where the gold answer has one.
    Require,
}

/// Whether order matters in lists without brackets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// It does not; how often an item occurs does.
    #[default]
    Free,
    /// It does.
    Strict,
}

/// Whether an equation may be answered with its right side alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Equations {
    /// Where its left side is a name: 5 answers `x = 5`, and `2x + 3` answers `y = 2x + 3`.
    #[default]
    Names,
    /// Only with an equation.
    Strict,
}

/// What a comma between digits means where the other side has a decimal point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DecimalComma {
    /// A decimal point: `2,74` is 2.74.
    #[default]
    Point,
    /// A list, always.
    List,
}

/// Whether case matters in answers that are words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TextCase {
    /// It does not.
    #[default]
    Fold,
    /// It does.
    Exact,
}

/// Bounds of one check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Longest answer, gold or given, that is read.
    pub max_answer_bytes: usize,
    /// Steps that one check may take.
    pub fuel: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_answer_bytes: 64 << 10, fuel: 160_000 }
    }
}

/// All switches of a check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    /// Where the answer may stand; the first that is found wins.
    pub markers: Vec<Marker>,
    /// What `<think>` means.
    pub thinking: Thinking,
    /// When a decimal equals another number.
    pub decimals: Decimals,
    /// What a percent sign means.
    pub percent: Percent,
    /// What units mean.
    pub units: Units,
    /// Whether order matters in lists.
    pub order: Order,
    /// Whether case matters in words.
    pub text_case: TextCase,
    /// Whether an equation may be answered with its right side.
    pub equations: Equations,
    /// What a comma between digits means.
    pub decimal_comma: DecimalComma,
    /// Bounds.
    pub limits: Limits,
}

impl Default for Policy {
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
            limits: Limits::default(),
        }
    }
}

impl Policy {
    /// Refuses a policy under which nothing could ever be found or compared.
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
    fn the_defaults_are_a_policy() {
        assert_eq!(Policy::default().validate(), Ok(()));
    }

    #[test]
    fn what_could_never_judge_is_refused_by_name() {
        let refused = |change: fn(&mut Policy)| {
            let mut policy = Policy::default();
            change(&mut policy);
            policy.validate().unwrap_err().to_string()
        };
        assert_eq!(refused(|policy| policy.markers.clear()), "markers is empty, allowed: at least one marker");
        assert_eq!(
            refused(|policy| policy.markers = vec![Marker::Boxed, Marker::Boxed]),
            "markers is [Boxed, Boxed], allowed: each marker once"
        );
        assert_eq!(refused(|policy| policy.limits.fuel = 0), "limits.fuel is 0, allowed: at least 1");
        assert_eq!(
            refused(|policy| policy.limits.max_answer_bytes = 0),
            "limits.max_answer_bytes is 0, allowed: at least 1"
        );
    }
}
