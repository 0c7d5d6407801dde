//! Problems of a gold answer that can be found before training.

use std::fmt;

use crate::extract::extract;
use crate::{BadGold, CheckInput, CheckOutcome, Gold, Reason, Rules};

/// A problem of a gold answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// The gold answer cannot be read.
    Unreadable(BadGold),
    /// It does not equal itself when boxed: every answer would be wrong.
    NotItself(Reason),
    /// It is prose, which only the same words would match.
    Prose,
    /// It is a pattern, a placeholder or a missing value, and no answer.
    Pattern,
    /// It states something false, such as `x = 3 = 4`: no answer can be right.
    Contradiction,
    /// A formula that cannot be read, which only the same spelling matches.
    OnlyAsWritten,
    /// The task asks for a form (factored, simplified, rounded) that equality does not check. Holds the words of the
    /// request.
    FormSensitive(&'static str),
}

impl Finding {
    /// Its stable name.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unreadable(bad) => bad.reason().code(),
            Self::NotItself(_) => "not_itself",
            Self::Prose => "prose",
            Self::Pattern => "pattern",
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
            Self::Pattern => f.write_str("the gold answer is a pattern, a placeholder or a missing value"),
            Self::Contradiction => f.write_str("the gold answer contradicts itself: its parts are not equal"),
            Self::OnlyAsWritten => {
                f.write_str("the gold answer is a formula that cannot be read: only the same spelling answers it")
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
/// Words from which a text counts as prose.
const PROSE_WORDS: usize = 8;

/// The first problem of a gold answer, or `None`. The task's text is checked too if given.
pub fn lint(gold: &str, problem: Option<&str>, rules: &Rules) -> Option<Finding> {
    let read = match Gold::read(gold, rules) {
        Ok(read) => read,
        Err(bad) => return Some(Finding::Unreadable(bad)),
    };
    if is_pattern(gold) {
        return Some(Finding::Pattern);
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
    if let crate::Value::Text(text) = read.value()
        && text.as_str().split_whitespace().count() >= PROSE_WORDS
    {
        return Some(Finding::Prose);
    }
    if contradicts_itself(read.value(), rules) {
        return Some(Finding::Contradiction);
    }
    if let crate::Value::Text(text) = read.value()
        && is_formula(text.as_str())
    {
        return Some(Finding::OnlyAsWritten);
    }
    let problem = problem?.to_lowercase();
    FORMS.iter().find(|form| problem.contains(**form)).map(|form| Finding::FormSensitive(form))
}

/// Values that stand for none.
const MISSING: [&str; 10] = ["null", "nan", "n/a", "todo", "tbd", "answer", "<answer>", "{answer}", "...", "?"];
/// What only regular expressions have.
const EXPRESSIONS: [&str; 11] = [".*", ".+", "\\d", "\\w", "\\s", "[0-9]", "[a-z]", "[A-Z]", "(?", "re.compile", "[^"];

/// Whether a gold answer is a regular expression, a placeholder, or the name of a missing value.
fn is_pattern(gold: &str) -> bool {
    let gold = gold.trim();
    let is_missing = MISSING.iter().any(|missing| gold.eq_ignore_ascii_case(missing));
    // `\\delta`, `\\sqrt` and other commands begin like classes of characters.
    let is_class = |at: usize, sign: &str| {
        let rest = gold.get(at + sign.len()..).unwrap_or_default();
        !sign.starts_with('\\') || !rest.starts_with(|c: char| c.is_ascii_alphabetic())
    };
    let has_expression =
        || EXPRESSIONS.iter().any(|sign| gold.match_indices(sign).any(|(at, sign)| is_class(at, sign)));
    let is_anchored = gold.len() > 2 && gold.starts_with('^') && gold.ends_with('$');
    is_missing || is_anchored || has_expression()
}

/// Whether a chain of equal numbers has different ones.
fn contradicts_itself(value: &crate::Value, rules: &Rules) -> bool {
    let crate::Value::Relation(relation) = value else { return false };
    let Some(last) = relation.members.last() else { return false };
    let mut fuel = crate::Fuel::new(rules.limits.fuel);
    relation.members.len() > 1 && crate::equality::compare(last, value, rules, &mut fuel) == Reason::FalseChain
}

/// Whether a text is a formula: it has a command, or digits next to operators.
fn is_formula(text: &str) -> bool {
    let has_sign = text.contains(['=', '^', '_', '+', '*']);
    text.contains('\\') || (has_sign && text.contains(|c: char| c.is_ascii_digit()))
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
        assert_eq!(code("x = 3 = 4", None), Some("contradiction"));
        assert_eq!(code("42 = 7", None), Some("contradiction"));
        assert_eq!(code("\\int_0^1 x\\,dx", None), Some("only_as_written"));
        assert_eq!(code("9. Anya needs to climb the heights of every hill", None), Some("prose"));
    }
}
