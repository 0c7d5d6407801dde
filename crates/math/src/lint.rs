//! Problems of a gold answer that can be found before training.

mod texts;

use std::fmt;

use crate::extract::extract;
use crate::{BadGold, CheckInput, CheckOutcome, Gold, Reason, Rules, Value};

/// A problem of a gold answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// The gold answer cannot be read.
    Unreadable(BadGold),
    /// The gold answer does not equal itself when boxed: every answer would be wrong.
    NotItself(Reason),
    /// The gold answer is prose, which only the same words would match.
    Prose,
    /// The gold answer is a pattern, a placeholder, a missing value, a proof or a refusal.
    Pattern,
    /// Several values of which one is meant, such as `12 or 15`, or several choices.
    Alternatives,
    /// A bracket has no partner.
    LoneBracket,
    /// A false statement, such as `x = 3 = 4`: no answer can be right.
    Contradiction,
    /// The gold answer is not understood as a whole, so that only the same spelling matches.
    OnlyAsWritten,
    /// The task asks for a form (factored, simplified, rounded) that equality does not check. Holds the words of the
    /// request.
    FormSensitive(&'static str),
}

impl Finding {
    /// Stable name of the finding.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unreadable(bad) => bad.reason().code(),
            Self::NotItself(_) => "not_itself",
            Self::Prose => "prose",
            Self::Pattern => "pattern",
            Self::Alternatives => "alternatives",
            Self::LoneBracket => "lone_bracket",
            Self::Contradiction => "contradiction",
            Self::OnlyAsWritten => "only_as_written",
            Self::FormSensitive(_) => "form_sensitive",
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(bad) => bad.fmt(f),
            Self::NotItself(reason) => write!(f, "the gold answer does not equal itself in a box: {reason}"),
            Self::Prose => f.write_str("the gold answer is prose, which only its own words answer"),
            Self::Pattern => f.write_str("the gold answer is a pattern, a placeholder, a proof or a refusal"),
            Self::Alternatives => f.write_str("the gold answer gives several values of which one is meant"),
            Self::LoneBracket => f.write_str("a bracket of the gold answer has no partner"),
            Self::Contradiction => f.write_str("the gold answer contradicts itself: its parts are not equal"),
            Self::OnlyAsWritten => {
                f.write_str("the gold answer is not understood as a whole: only the same spelling answers it")
            }
            Self::FormSensitive(words) => {
                write!(f, "the task says \"{words}\", and equality does not look at the form of an answer")
            }
        }
    }
}

/// Phrases that ask for a form.
const FORMS: [&str; 14] = [
    "factor completely",
    "factor the following",
    "factor the expression",
    "factored form",
    "completely factored",
    "fully factored",
    "expand the product",
    "expand the expression",
    "in expanded form",
    "partial fraction",
    "rationalize the denominator",
    "write in scientific notation",
    "as a product of",
    "prime factorization",
];
/// Phrases that ask for a form of a fraction.
const FORMS_OF_FRACTIONS: [&str; 6] =
    ["lowest terms", "mixed number", "improper fraction", "reduced fraction", "as a decimal", "decimal places"];
/// Words from which a text counts as prose.
const PROSE_WORDS: usize = 8;

/// The first problem of a gold answer, or `None`. The task's text is checked too if given.
pub fn lint(gold: &str, problem: Option<&str>, rules: &Rules) -> Option<Finding> {
    let read = match Gold::read(gold, rules) {
        Ok(read) => read,
        Err(bad) => return Some(Finding::Unreadable(bad)),
    };
    if texts::is_no_answer(gold) {
        return Some(Finding::Pattern);
    }
    if texts::lists_choices(gold) || is_alternative(gold, read.value(), rules) {
        return Some(Finding::Alternatives);
    }
    if texts::has_lone_bracket(gold) && extract(gold, rules).is_err() {
        return Some(Finding::LoneBracket);
    }
    // A gold answer that is a whole solution marks its own answer; boxing it would change its meaning.
    let boxed = match extract(gold, rules) {
        Ok(_) => gold.to_owned(),
        Err(_) => format!("\\boxed{{{}}}", gold.trim()),
    };
    let bare = read.check(CheckInput::Extracted(gold), rules);
    for verdict in [bare, read.check(CheckInput::Completion(&boxed), rules)] {
        if verdict.outcome() != CheckOutcome::Equal {
            return Some(Finding::NotItself(verdict.reason));
        }
    }
    if let Value::Text(text) = read.value()
        && text.as_str().split_whitespace().count() >= PROSE_WORDS
    {
        return Some(Finding::Prose);
    }
    if contradicts_itself(read.value(), rules) {
        return Some(Finding::Contradiction);
    }
    if !read.is_understood() {
        return Some(Finding::OnlyAsWritten);
    }
    form_of(&problem?.to_lowercase(), read.value()).map(Finding::FormSensitive)
}

/// Whether a chain of equal numbers has different ones.
fn contradicts_itself(value: &Value, rules: &Rules) -> bool {
    let Value::Relation(relation) = value else { return false };
    let Some(last) = relation.members.last() else { return false };
    let mut fuel = crate::Fuel::new(rules.limits.fuel);
    relation.members.len() > 1 && crate::equality::compare(last, value, rules, &mut fuel) == Reason::FalseChain
}

/// Whether a gold answer gives values of which one is meant: `12 or 15`.
fn is_alternative(gold: &str, value: &Value, rules: &Rules) -> bool {
    let Value::List(items) = value else { return false };
    let words = gold.split(|c: char| !c.is_alphabetic());
    let is_number = |item: &Value| matches!(item, Value::Number(_) | Value::Quantity(_));
    let mut fuel = crate::Fuel::new(rules.limits.fuel);
    words.clone().any(|word| word.eq_ignore_ascii_case("or"))
        && items.iter().all(is_number)
        // `3/4 or 0.75`
        && items.windows(2).any(|pair| match pair {
            [a, b] => crate::equality::compare(a, b, rules, &mut fuel).outcome() != CheckOutcome::Equal,
            _ => false,
        })
}

/// The words by which a task asks for a form that the gold answer may have or lack; `None` for integers, which have
/// one.
fn form_of(problem: &str, value: &Value) -> Option<&'static str> {
    if matches!(value, Value::Number(number) if number.exact().is_some_and(dashu_ratio::RBig::is_int)) {
        return None;
    }
    let is_fraction = matches!(value, Value::Number(number) if number.notation == crate::Notation::Fraction);
    let found = FORMS.iter().find(|form| problem.contains(**form)).copied();
    found.or_else(|| FORMS_OF_FRACTIONS.iter().find(|form| is_fraction && problem.contains(**form)).copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(gold: &str, problem: Option<&str>) -> Option<&'static str> {
        lint(gold, problem, &Rules::default()).map(|finding| finding.code())
    }

    #[test]
    fn good_answers_have_no_finding() {
        for gold in [
            "She has 9 eggs left.\n#### 18",
            "\\boxed{7}",
            "42",
            "\\frac{1}{2}",
            "x = 5",
            "(1, 2)",
            "[0, 1)",
            "\\text{Evelyn}",
            "3 \\pm \\sqrt{2}",
            "\\delta",
            "x = 3 = \\frac62",
            "no",
            "none",
            "\\frac34 \\text{ or } 0.75",
            "]3, 8[",
            "B)",
            "x = 2 or x = 3",
        ] {
            assert_eq!(code(gold, Some("What is it?")), None, "{gold}");
        }
    }

    #[test]
    fn what_cannot_be_trained_with_is_named() {
        assert_eq!(code("", None), Some("gold_empty"));
        assert_eq!(code("\\frac{1}{0}", None), Some("gold_undefined"));
        assert_eq!(code("\\frac{1}{2", None), Some("gold_unbalanced"));
        assert_eq!(code("(x-1)(x+1)", Some("Factor completely: $x^2-1$")), Some("form_sensitive"));
        for pattern in ["^\\d+$", "[0-9]+", "4.*", "N/A", "null", "{answer}", "?", "(?i)yes"] {
            assert_eq!(code(pattern, None), Some("pattern"), "{pattern}");
        }
        for missing in ["See solution", "proof", "-", "unknown", "I cannot help with that.", "See the figure above."] {
            assert_eq!(code(missing, None), Some("pattern"), "{missing}");
        }
        for several in ["12 or 15", "(A) 5 (B) 6 (C) 7"] {
            assert_eq!(code(several, None), Some("alternatives"), "{several}");
        }
        for lone in ["(3, 5", "\\left(3, 5)", "f(x)) = 3"] {
            assert_eq!(code(lone, None), Some("lone_bracket"), "{lone}");
        }
        assert_eq!(code("\\frac{2}{3}", Some("Give it in lowest terms.")), Some("form_sensitive"));
        assert_eq!(code("x = 3 = 4", None), Some("contradiction"));
        assert_eq!(code("42 = 7", None), Some("contradiction"));
        assert_eq!(code("\\int_0^1 x\\,dx", None), Some("only_as_written"));
        assert_eq!(code("9. Anya needs to climb the heights of every hill", None), Some("prose"));
    }
}
