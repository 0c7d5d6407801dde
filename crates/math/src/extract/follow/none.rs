//! Sentences that say of a value that it is none: `It is not 37`, `So there is no solution`.

use super::super::ending::without_markup;
use super::super::sentence::{has_another_number, words_of};
use super::{LEADS, is_mark};
use crate::words::{self, Role};

/// Whether a sentence says of another value that it is none: `It is not 37`, `, not 37`, `The value $-6$ is not valid`.
pub(super) fn of_another(sentence: &str, answer: &str) -> bool {
    let words = words_of(without_markup(sentence));
    let words: Vec<&str> = words.iter().map(String::as_str).filter(|word| !is_mark(word)).collect();
    if let ["the", "value" | "root" | "solution", "#", "is", "not", "valid" | "possible" | "allowed"] = words.as_slice()
    {
        return has_another_number(sentence, answer);
    }
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

/// Whether a sentence without a value says that there is no answer, that its writer has none, or that the one before it
/// does not count: `So there is no solution`, `I cannot solve it`, `Strike that`.
pub(super) fn is_said(words: &[&str]) -> bool {
    let is_answer = |word: &&str| matches!(*word, "solution" | "solutions" | "answer" | "answers");
    let is_lead = |at: usize, word: &str| match word {
        "no" => !words.get(at + 1).is_some_and(is_answer),
        word => LEADS.contains(&word) || words::is(Role::Connective, word) || matches!(word, "please" | "check"),
    };
    let start = words.iter().enumerate().position(|(at, word)| !is_lead(at, word));
    let words = words.get(start.unwrap_or_default()..).unwrap_or_default();
    if words.contains(&"#") {
        return false;
    }
    match words {
        ["there", "is" | "are", "no", what]
        | ["no", what]
        | ["no", what, "exists" | "exist"]
        | ["the" | "this", "problem" | "question" | "equation" | "system", "has", "no", what] => is_answer(what),
        ["there", "is" | "was", _, what, ..] => matches!(*what, "mistake" | "error"),
        ["i", rest @ ..] => is_resigned(rest),
        ["do", "not", verb, ..] | ["don't" | "never", verb, ..] => is_of(verb, TRUSTING),
        [verb, "this" | "that" | "my" | "it" | "what", ..] => is_of(verb, WITHDRAWING),
        [verb, "the", what @ ..] => is_of(verb, WITHDRAWING) && what.iter().any(|word| is_of(word, ANSWERS)),
        [word] => matches!(*word, "retracted" | "withdrawn" | "not"),
        _ => false,
    }
}

/// What somebody does with an answer that counts.
const TRUSTING: &str = "use trust accept believe submit count rely";
/// What makes an answer none.
const WITHDRAWING: &str = "ignore disregard strike cancel discard forget delete scrap";
/// What may be withdrawn.
const ANSWERS: &str = "answer result value box boxed above previous last earlier";
/// What somebody who has an answer can do, and is.
const CLAIMING: &str = "determine solve answer find know trust believe sure certain confident able";

fn is_of(word: &str, list: &str) -> bool {
    list.split(' ').any(|listed| listed == word)
}

/// Whether what somebody says of himself denies that he has an answer: `cannot solve it`, `am not sure`.
fn is_resigned(words: &[&str]) -> bool {
    let is_negated = |word: &&str| matches!(*word, "not" | "cannot" | "never") || word.ends_with("n't");
    let Some(at) = words.iter().take(2).position(is_negated) else { return false };
    words.get(at + 1).is_some_and(|verb| is_of(verb, CLAIMING))
}
