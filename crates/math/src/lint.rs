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
    /// The task asks for a form (factored, simplified, rounded) that equality does not check. Holds the words of the request.
    FormSensitive(&'static str),
}

impl Finding {
    /// Its stable name.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unreadable(bad) => bad.reason().code(),
            Self::NotItself(_) => "not_itself",
            Self::Prose => "prose",
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
    let problem = problem?.to_lowercase();
    FORMS.iter().find(|form| problem.contains(**form)).map(|form| Finding::FormSensitive(form))
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
        assert_eq!(code("9. Anya needs to climb the heights of every hill", None), Some("prose"));
    }
}
