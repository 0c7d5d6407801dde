//! Sentences that say of a value that it is none: `It is not 37`, `So there is no solution`.

use super::super::ending::without_markup;
use super::super::sentence::{has_another_number, words_of};
use super::{LEADS, is_mark};
use crate::words::{self, Role};

/// Whether a sentence says of another value that it is none: `It is not 37`, `, not 37`.
pub(super) fn of_another(sentence: &str, answer: &str) -> bool {
    let words = words_of(without_markup(sentence));
    let words: Vec<&str> = words.iter().map(String::as_str).filter(|word| !is_mark(word)).collect();
    matches!(words.as_slice(), ["not", "#"] | ["it" | "this", "is", "not", "#"])
        && has_another_number(sentence, answer)
        && sentence.trim_start_matches(['}', '$', ')', '\\']).starts_with([',', 'I', 'T'])
}

/// Whether a sentence checks the answer: `Wait, let me double check: 6 * 6 = 36`.
pub(super) fn is_check(sentence: &str) -> bool {
    let words = words_of(sentence);
    let words: Vec<&str> = words.iter().map(String::as_str).filter(|word| !is_mark(word)).collect();
    matches!(words.as_slice(), ["wait", "let", "me", "check" | "verify" | "double" | "double-check", ..])
}

/// Whether a sentence says that there is no answer, or that the one before it is none: `So there is no solution`, `Strike that`.
pub(super) fn is_said(words: &[&str]) -> bool {
    let start = words.iter().position(|word| {
        *word == "no"
            || !LEADS.contains(word) && !words::is(Role::Connective, word) && *word != "please" && *word != "check"
    });
    let words = words.get(start.unwrap_or_default()..).unwrap_or_default();
    let is_answer = |word: &str| matches!(word, "solution" | "solutions" | "answer");
    match words {
        ["there", "is" | "are", "no", what]
        | ["no", what, "exists" | "exist"]
        | ["the", "problem" | "question" | "equation", "has", "no", what] => is_answer(what),
        ["i", "cannot" | "can't", "determine" | "solve" | "answer" | "find", ..] => true,
        ["ignore" | "disregard", "the" | "this" | "that" | "my", ..] => true,
        ["do", "not", "use" | "trust", ..] | ["don't", "use" | "trust", ..] => true,
        ["strike" | "cancel", "that" | "this"] | ["retracted" | "withdrawn" | "not"] => true,
        ["i'm", "not", "sure"] | ["that's" | "it's", "wrong" | "incorrect"] => true,
        ["the" | "this", "check", "fails"] | ["this" | "it", "fails", ..] => true,
        ["it" | "this" | "that", "does", "not", "satisfy" | "match" | "exist", ..]
        | ["it" | "this" | "that", "doesn't", "satisfy" | "match" | "exist", ..] => true,
        ["the", "answer", "does", "not", "exist"] | ["there", "is", "a" | "an", "mistake" | "error", ..] => true,
        _ => false,
    }
}
