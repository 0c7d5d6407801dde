//! The letter that a problem asks for: `y = 36` does not answer "Find $x$".

use super::CheckInput;
use crate::extract;
use crate::slicing::SafeSlice;
use crate::words::Known;
use crate::{Value, Verdict};

/// What asks for the formula behind it.
const ASKING: [&str; 6] = ["find ", "what is ", "determine ", "compute ", "solve for ", "the value of "];
/// Longest name.
const MAX_NAME: usize = 16;

/// Whether an answer is the value of another name of the problem than those that it asks for.
pub(super) fn is_of_another(verdict: &Verdict<'_>, submission: CheckInput<'_>, prompt: &str) -> bool {
    let inside = match &verdict.value {
        Some(Value::Relation(relation)) => match relation.members.as_slice() {
            [Value::Expr(name), Value::Number(_)] if !name.is_closed() => Some(name.to_string()),
            _ => None,
        },
        _ => None,
    };
    let before = || match (submission, verdict.extracted.as_deref()) {
        (CheckInput::Completion(text), Some(answer)) => extract::name_before(text, answer).map(str::to_owned),
        _ => None,
    };
    let Some(name) = inside.or_else(before) else { return false };
    let asked = asked(Known::within(prompt));
    let own = name.trim_start_matches('\\');
    // Every letter of it is one of the problem's.
    let in_prompt = own.split(|c: char| !c.is_alphanumeric()).all(|part| prompt.contains(part));
    !asked.is_empty() && in_prompt && !asked.contains(&own)
}

/// The letters that a text asks for; none where it asks for another formula.
fn asked(prompt: &str) -> Vec<&str> {
    let lower = prompt.to_ascii_lowercase();
    let mut found = Vec::new();
    for words in ASKING {
        for (at, _) in lower.match_indices(words) {
            let mut rest = prompt.suffix_from(at + words.len());
            while let Some((name, after)) = formula(rest) {
                let own = name.strip_prefix('\\').unwrap_or(name);
                let is_letter =
                    own.bytes().all(|byte| byte.is_ascii_alphabetic()) && (own.len() < name.len() || own.len() == 1);
                if !is_letter {
                    return Vec::new();
                }
                found.push(own);
                rest = match [" and ", ", "].iter().find_map(|mark| after.strip_prefix(mark)) {
                    Some(next) => next,
                    None => break,
                };
            }
        }
    }
    found
}

/// The formula between delimiters at the start of a text, if it is short, and the rest.
fn formula(text: &str) -> Option<(&str, &str)> {
    let (inner, close) = match text.strip_prefix('$') {
        Some(inner) => (inner, "$"),
        None => (text.strip_prefix("\\(")?, "\\)"),
    };
    let (name, rest) = inner.split_once(close)?;
    (name.len() <= MAX_NAME).then_some((name.trim(), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_asked_for_by_name() {
        assert_eq!(asked("Find $x$ if $x + y = 73$."), ["x"]);
        assert_eq!(asked("Let $y = 2$. What is the value of \\(z\\) and $\\theta$?"), ["z", "theta"]);
        assert!(asked("Compute $\\binom{31}{28}$.").is_empty());
        assert!(asked("Find $x + y$ if $x = 3$.").is_empty());
        assert!(asked("Find all $x$ with $x > 3$.").is_empty());
    }
}
