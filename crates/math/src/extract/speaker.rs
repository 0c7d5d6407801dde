//! Somebody else's statement before a box: `Bob says`, `Alice claims that the answer is`, `According to Bob, the answer is`.
//!
//! A sentence in the first person is the writer's own. Where the problem has such verbs, or the person, what is said is
//! what is asked about.

use super::sentence::without;
use crate::words::{self, Known, Role};

/// Verbs between a subject and such a verb: `some might think`.
const MODALS: [&str; 11] =
    ["would", "could", "might", "may", "should", "will", "can", "must", "to", "often", "usually"];
/// Subjects in the plural that do not end with an s.
const PLURALS: [&str; 7] = ["they", "you", "people", "some", "many", "most", "others"];
/// Words with an s at their end that are no subject in the plural.
const SINGULARS: [&str; 6] = ["this", "its", "thus", "is", "was", "has"];
/// Subjects that are nobody.
const IMPERSONAL: [&str; 16] = [
    "it",
    "this",
    "that",
    "which",
    "these",
    "theorem",
    "lemma",
    "formula",
    "equation",
    "definition",
    "rule",
    "identity",
    "problem",
    "question",
    "statement",
    "calculation",
];
/// The first person: `I'd say`, `let's say`.
const OWN: [&str; 3] = ["i", "we", "let"];
/// What has an answer by right: `the problem's answer`, `here's the answer`.
const OWNERS: [&str; 9] = ["problem", "question", "exercise", "puzzle", "task", "here", "that", "there", "what"];

/// Whether the sentence before a box makes it what somebody else says.
pub(super) fn is_quoted(sentence: &[&str], known: &Known) -> bool {
    let rest = without(sentence, is_announcing);
    let announcing = sentence.get(rest.len()..).unwrap_or_default();
    let is_answer = announcing.contains(&"answer");
    if let [.., "according", "to", person] = without(rest, |word| word == ",") {
        let is_told = is_answer || announcing.iter().all(|word| *word == ":");
        return is_told && *person != "#" && !words::is(Role::Function, person) && !known.is_text(person);
    }
    // `Bob says, "7"`
    let rest = if announcing.is_empty() { without(rest, |word| word == ",") } else { rest };
    let Some((verb, subject)) = rest.split_last() else { return false };
    if is_answer && is_owner(verb) {
        let is_of_answer = |word: &&str| *word == "answer" || words::is(Role::Adjective, word);
        return announcing.first().is_some_and(is_of_answer) && !known.is_text(stem(verb));
    }
    words::is(Role::Speech, verb) && is_of_another(verb, subject) && !known.has_any(Role::Speech)
}

/// Whether a word announces an answer, names it, or is a formula.
fn is_announcing(word: &str) -> bool {
    const ROLES: [Role; 5] = [Role::Filler, Role::Copula, Role::Claim, Role::Adjective, Role::Name];
    matches!(word, "#" | ":" | "that" | "it" | "me" | "us")
        || word.chars().nth(1).is_none() && word.starts_with(char::is_alphabetic)
        || ROLES.iter().any(|role| words::is(*role, word))
}

/// Whether somebody else than the writer is the subject of a verb.
fn is_of_another(verb: &str, before: &[&str]) -> bool {
    let start = before.iter().rposition(|word| matches!(*word, "," | ":")).map_or(0, |at| at + 1);
    let clause = before.get(start..).unwrap_or_default();
    let Some(subject) = clause.last() else { return false };
    if clause.iter().any(|word| OWN.contains(&stem(word))) || words::is(Role::Connective, subject) {
        return false;
    }
    let is_plural = || subject.ends_with('s') && !SINGULARS.contains(subject) || PLURALS.contains(subject);
    match verb {
        "say" | "claim" | "think" | "believe" | "argue" | "guess" => MODALS.contains(subject) || is_plural(),
        // `after some thought`
        "thought" => !clause.first().is_some_and(|word| {
            words::is(Role::Reason, word) || matches!(*word, "on" | "upon" | "with" | "without" | "at" | "in")
        }),
        _ => !IMPERSONAL.contains(subject),
    }
}

/// `bob's`
fn is_owner(word: &str) -> bool {
    (word.ends_with("'s") || word.ends_with("s'")) && !OWNERS.contains(&stem(word)) && !OWN.contains(&stem(word))
}

/// A word without what an apostrophe adds: `i'd`, `bob's`.
fn stem(word: &str) -> &str {
    word.split('\'').next().unwrap_or(word)
}

#[cfg(test)]
mod tests {
    use super::super::sentence::words_of;
    use super::*;

    fn is_quoted(sentence: &str, problem: &str) -> bool {
        let words = words_of(sentence);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut known = Known::default();
        known.add(problem);
        super::is_quoted(&words, &known)
    }

    #[test]
    fn what_somebody_else_says_is_seen() {
        for sentence in [
            "Bob says ",
            "Bob says, \"",
            "Then Bob said that it is ",
            "Alice claims the answer is $",
            "Alice claims that x = ",
            "My friend thinks it is ",
            "As they say, according to Bob, the answer is ",
            "The student argues that the final answer is ",
            "Some might think the answer is ",
            "Many students guess ",
            "They say the total is ",
            "Bob thought the answer was ",
            "According to Bob, the answer is ",
            "According to Bob: ",
            "Someone told me that the answer is ",
            "Bob's answer is ",
            "The student's final answer: ",
            "Bob's guess is ",
        ] {
            assert!(is_quoted(sentence, "What is 3 + 4?"), "{sentence}");
        }
    }

    #[test]
    fn the_writer_and_people_of_the_problem_may_say_it() {
        for sentence in [
            "",
            "The answer is ",
            "I think the answer is ",
            "I'd say ",
            "We claim that x = ",
            "My guess is ",
            "Claim: the answer is ",
            "That said, the answer is ",
            "On second thought, the answer is ",
            "After some thought the answer is ",
            "Which says that x = ",
            "The theorem says that x = ",
            "We are told that x = ",
            "So, say, ",
            "Frank answered ",
            "Bob has ",
            "Bob's total is ",
            "The problem's answer is ",
            "Here's the answer: ",
            "According to the table, the answer is ",
            "Bob says 3, so the answer is ",
        ] {
            assert!(!is_quoted(sentence, "What is 3 + 4?"), "{sentence}");
        }
        assert!(!is_quoted("So Bob says ", "Each child says a number."));
        assert!(!is_quoted("Bob's answer is ", "Bob adds 3 and 4."));
    }
}
