//! What follows an answer changes it only by a retraction, or by another value or choice.

use super::Extracted;
use super::sentence::{has_another_number, words_of};
use crate::slicing::SafeSlice;

/// Most bytes after an answer that are read.
const MAX_BYTES: usize = 16 << 10;

/// Words that begin a sentence which takes back what precedes it.
const CUES: [&str; 12] = [
    "wait",
    "oops",
    "sorry",
    "correction",
    "scratch",
    "hmm",
    "otherwise",
    "unless",
    "nevermind",
    "mistake",
    "alternatively",
    "actually",
];
/// Subjects that stand for the answer.
const SUBJECTS: [&str; 9] = ["it", "this", "that", "which", "answer", "result", "value", "mine", "truth"];
/// Words before such a subject.
const LEADS: [&str; 6] = ["but", "and", "so", "however", "clearly", "no"];
/// What is said of an answer that is denied: `that is not correct`.
const PRAISES: [&str; 10] = ["correct", "right", "true", "possible", "valid", "be", "the", "it", "what", "acceptable"];
/// Words that deny it.
const DENIALS: [&str; 15] = [
    "not",
    "wrong",
    "incorrect",
    "false",
    "untrue",
    "impossible",
    "mistaken",
    "invalid",
    "cannot",
    "never",
    "isn't",
    "can't",
    "doesn't",
    "contradiction",
    "contradicts",
];
/// Words before another value.
const BEFORE_OTHERS: [&str; 9] = ["or", "but", "however", "no", "instead", "rather", "another", "other", "also"];

/// Whether the text after an answer takes it back or gives another one.
pub(super) fn takes_back(found: &Extracted<'_>, text: &str) -> bool {
    let last = match found {
        Extracted::One(answer) => *answer,
        Extracted::Several(answers) => answers.last().copied().unwrap_or_default(),
    };
    // The answer is a part of the text.
    let end = (last.as_ptr() as usize + last.len()).wrapping_sub(text.as_ptr() as usize);
    if end > text.len() {
        return false;
    }
    let rest = text.suffix_from(end);
    if !rest.bytes().any(|byte| byte.is_ascii_alphabetic()) {
        return false;
    }
    let rest = rest.prefix_to(rest.floor_char_boundary(rest.len().min(MAX_BYTES)));
    sentences(rest).skip(1).any(|sentence| denies(sentence, last)) || first(rest, last)
}

/// The rest of the answer's own sentence: only what is outside of the markup around a box.
fn first(rest: &str, answer: &str) -> bool {
    let Some(sentence) = sentences(rest).next() else { return false };
    let words = words_of(sentence.trim_start_matches(['}', '$', ')', ']', '\\', '*']));
    let has = |listed: &[&str]| words.iter().any(|word| listed.contains(&word.as_str()));
    let begins =
        |listed: &[&str]| words.iter().find(|word| *word != ",").is_some_and(|word| listed.contains(&word.as_str()));
    (begins(&["is", "which", "isn't", "can't", "cannot", "but", "was"]) && has(&DENIALS))
        || (begins(&["or", "but"]) && has_another_number(sentence, answer))
}

/// The sentences and lines of a text.
fn sentences(text: &str) -> impl Iterator<Item = &str> {
    text.split('\n')
        .flat_map(|line| line.split(". "))
        .flat_map(|part| part.split("; "))
        .flat_map(|part| part.split(", so "))
}

/// Whether a sentence takes back the answer before it: `Wait, that is wrong`, `It could also be 8`, `Or 20.`
fn denies(sentence: &str, answer: &str) -> bool {
    // A line with a formula of its own checks the answer.
    if sentence.contains('=') && !sentence.trim_start().to_lowercase().starts_with("wait") {
        return false;
    }
    let words = words_of(sentence);
    let words: Vec<&str> = words.iter().map(String::as_str).filter(|word| !matches!(*word, "," | ":" | ";")).collect();
    let Some(first) = words.first() else { return false };
    let has = |listed: &[&str]| words.iter().any(|word| listed.contains(word));
    if CUES.contains(first)
        || (*first == "no" && words.len() < 3)
        || words.starts_with(&["i", "made"])
        || words.starts_with(&["i", "was"])
    {
        return true;
    }
    // The subject stands first, or after a word such as "but".
    let at = usize::from(LEADS.contains(first));
    let is_subject = |at: usize| words.get(at).is_some_and(|word| SUBJECTS.contains(word));
    let after = match words.get(at) {
        _ if is_subject(at) => at + 1,
        Some(&("the" | "my")) if is_subject(at + 1) => at + 2,
        _ => 0,
    };
    let rest = words.get(after..).unwrap_or_default();
    if after > 0 && is_denied(rest) {
        return true;
    }
    let states = ["could", "might", "may", "should", "must", "is", "also"];
    let is_value = sentence.trim_end().ends_with(|c: char| c.is_ascii_digit() || matches!(c, '.' | '$' | '!'));
    if after > 0
        && rest.first().is_some_and(|word| states.contains(word))
        && is_value
        && rest.len() < 8
        && has_another_number(sentence, answer)
    {
        return !has(&["so", "because", "since", "by", "of", "times", "plus", "than", "as", "not"]);
    }
    (BEFORE_OTHERS.contains(first) || (*first == "the" && words.get(1) == Some(&"truth")))
        && has_another_number(sentence, answer)
        && words.len() < 8
        && !has(&DENIALS)
}

/// Whether what follows a subject denies it: `is wrong`, `cannot be right`, `contradicts the assumption`.
fn is_denied(rest: &[&str]) -> bool {
    let Some(at) = rest.iter().take(4).position(|word| DENIALS.contains(word)) else { return false };
    let is_weak = matches!(rest.get(at), Some(&("not" | "cannot" | "never" | "isn't" | "can't" | "doesn't")));
    // `This is not 8`, `it is not necessary`.
    let next = rest.get(at + 1).is_none_or(|word| PRAISES.contains(word));
    rest.iter().all(|word| *word != "#") && (!is_weak || next)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken_back(text: &str) -> bool {
        let at = text.find('7').unwrap();
        takes_back(&Extracted::One(text.get(at..at + 1).unwrap()), text)
    }

    #[test]
    fn a_retraction_or_another_value_takes_an_answer_back() {
        for text in [
            "7. Wait, that is wrong: it is 8.",
            "7; that would be wrong.",
            "7. It could also be 8 or 9.",
            "7. This is false.",
            "7. Or 20.",
            "7. Otherwise I do not know.",
            "7\nActually 8.",
            "7; other possible values are 8 and 9",
            "7} is wrong.",
            "7. But that cannot be right.",
            "7. That is not correct.",
        ] {
            assert!(taken_back(text), "{text}");
        }
    }

    #[test]
    fn other_sentences_do_not() {
        for text in [
            "7.",
            "7. I hope it is correct.",
            "7. Note that A is a common distractor.",
            "7. A is incorrect.",
            "7. This is not 8, since 8 is even.",
            "7. This means that it cannot be 8.",
            "7. It is not necessary to go on.",
            "7. This is the final answer.",
            "7. It is 8 more than -1.",
            "7\nCheck: 3 + 4 = 7.",
            "7; the other root is rejected.",
            "7, so the farmer earns that much.",
            "7}$ apples.",
            "7. The other options are wrong.",
        ] {
            assert!(!taken_back(text), "{text}");
        }
    }
}
