//! Somebody else's statement before a box: `Bob says`, `Alice claims that the answer is`, `According to Bob, the answer is`.
//!
//! A sentence in the first person is the writer's own. Where the problem has such verbs, or the person, what is said is
//! what is asked about.

use super::ending::without_unit;
use super::sentence::{sentences, without, words_of};
use crate::slicing::SafeSlice;
use crate::words::{self, Known, Role};

/// Verbs between a subject and such a verb: `some might think`.
const MODALS: [&str; 11] =
    ["would", "could", "might", "may", "should", "will", "can", "must", "to", "often", "usually"];
/// Subjects in the plural that do not end with an s.
const PLURALS: [&str; 7] = ["they", "you", "people", "some", "many", "most", "others"];
/// Words with an s at their end that are no subject in the plural.
const SINGULARS: [&str; 6] = ["this", "its", "thus", "is", "was", "has"];
/// Subjects that are nobody.
const IMPERSONAL: [&str; 24] = [
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
    "table",
    "graph",
    "figure",
    "law",
    "principle",
    "answer",
    "solution",
    "result",
];
/// The first person: `I'd say`, `let's say`.
const OWN: [&str; 3] = ["i", "we", "let"];
/// What has an answer by right: `the problem's answer`, `here's the answer`.
const OWNERS: [&str; 10] = ["problem", "question", "exercise", "puzzle", "task", "here", "that", "there", "what", "it"];

/// What an answer may be found with: `according to the table`.
const SOURCES: &str = "table problem question exercise task puzzle formula formulas theorem lemma corollary figure diagram graph \
    chart rule rules definition statement equation equations condition conditions constraint constraints information data \
    identity identities law laws property properties inequality principle method algorithm test criterion calculation \
    calculations computation computations work above given text description pattern order instructions convention hint \
    result results step steps relation this these that which";
/// What somebody has done that is no answer of the writer's: `Bob's solution`.
const WORKS: [&str; 9] =
    ["answer", "solution", "response", "guess", "attempt", "work", "reasoning", "calculation", "words"];
/// Somebody else's, without a name.
const THEIRS: [&str; 4] = ["his", "her", "their", "your"];
/// Words for those who have something: a problem that has one of them speaks of somebody.
const PERSONS: [&str; 9] = ["he", "she", "his", "her", "him", "they", "their", "you", "your"];
/// Words between "the" and "answer" that leave it the answer, beside the adjectives of the table.
const KINDS: &str = "only numeric integer decimal possible unique reduced simplest complete full sought boxed single minimum \
    maximum smallest largest least greatest closed form general particular rounded approximate whole desired valid good best \
    positive negative real rational nearest resulting calculated computed official short one next";

/// Whether the sentence before an answer makes it what somebody else says. `after` is what follows the answer.
pub(super) fn is_quoted(sentence: &[&str], after: &str, known: &Known) -> bool {
    if let Some((source, rest)) = source(sentence) {
        let is_told = rest.iter().all(|word| matches!(*word, "," | ":" | "it" | "that") || is_of_answer(word));
        return is_told && !is_impersonal(source, known);
    }
    let clause = without(sentence, |word| matches!(word, "," | ":"));
    let is_example = matches!(clause, [.., "for", "example" | "instance"]) && !known.is_text("example");
    let is_early = matches!(clause, [.., "first" | "initial" | "previous" | "earlier", "guess" | "attempt"]);
    if is_example || is_early || sentence.iter().any(|word| is_hearsay(word)) {
        return true;
    }
    let rest = without(sentence, is_announcing);
    let announcing = sentence.get(rest.len()..).unwrap_or_default();
    // `Bob says, "7"`
    let rest = if announcing.is_empty() { without(rest, |word| word == ",") } else { rest };
    if is_another_answer(sentence, known) {
        return true;
    }
    let Some((verb, subject)) = rest.split_last() else { return false };
    // `Bob's answer is`, `In Bob's words:`
    let work = announcing.iter().find(|word| !words::is(Role::Adjective, word));
    if is_owner(verb) && work.is_some_and(|word| WORKS.contains(word)) {
        return !known.is_text(stem(verb));
    }
    if WORKS.contains(verb) && subject.last().is_some_and(|owner| is_owner(owner) && !known.is_text(stem(owner))) {
        return true;
    }
    if words::is(Role::Speech, verb) {
        return is_of_another(verb, subject) && !known.has_any(Role::Speech);
    }
    // `Bob replied with`
    let rest = without(rest, |word| matches!(word, "with" | "on"));
    let Some((verb, subject)) = rest.split_last() else { return false };
    words::is(Role::Report, verb) && is_of_another(verb, subject) && !is_told_of(subject, after, known)
}

/// Whether the sentence after an answer makes it what somebody else says: `according to Bob`, `is Bob's answer`.
pub(super) fn is_attributed(after: &str, known: &Known) -> bool {
    let line = after.split('\n').next().unwrap_or_default();
    if !line.contains(char::is_alphabetic) {
        return false;
    }
    let own = without_unit(sentences(line).next().unwrap_or_default());
    let own = own.prefix_to(own.floor_char_boundary(own.len().min(MAX_AFTER)));
    let words = words_of(own);
    let words: Vec<&str> = words.iter().map(String::as_str).filter(|word| *word != ":").collect();
    if source(&words).is_some_and(|(source, _)| !is_impersonal(source, known))
        || words.iter().any(|word| is_hearsay(word))
    {
        return true;
    }
    let rest = match words.as_slice() {
        [",", rest @ ..] => rest,
        rest => rest,
    };
    let rest = match rest {
        ["is" | "was" | "as", "the" | "a" | "an", rest @ ..] | ["is" | "was" | "as", rest @ ..] => rest,
        rest => rest,
    };
    // `is what a careless student would get`
    if let ["what", others @ ..] = rest {
        let is_ours = |word: &&str| {
            OWN.contains(word) || matches!(*word, "asked" | "required" | "needed" | "wanted" | "remains" | "is" | "was")
        };
        return !others.iter().any(is_ours) && !is_impersonal(others, known);
    }
    // `is Bob's answer`
    if let [owner, others @ ..] = rest
        && let Some(work) = others.iter().find(|word| !words::is(Role::Adjective, word))
        && WORKS.contains(work)
    {
        return is_owner(owner) && !known.is_text(stem(owner)) || THEIRS.contains(owner) && !has_persons(known);
    }
    let said = words.iter().position(|word| words::is(Role::Speech, word) || matches!(*word, "wrote" | "answered"));
    let Some((verb, subject)) = said.and_then(|at| Some((words.get(at)?, words.get(..at)?))) else { return false };
    let is_inverted =
        subject.iter().all(|word| *word == ",") && (verb.ends_with('s') || *verb == "said" || *verb == "wrote");
    let is_known = if *verb == "wrote" || *verb == "answered" {
        is_told_of(subject, "", known)
    } else {
        known.has_any(Role::Speech)
    };
    !is_known && (is_inverted || is_of_another(verb, subject))
}

/// Most bytes after an answer in which somebody is looked for.
const MAX_AFTER: usize = 80;

/// Words that say that something is only said.
pub(super) fn is_hearsay(word: &str) -> bool {
    matches!(word, "allegedly" | "supposedly" | "reportedly" | "rumor" | "rumour")
}

/// What an answer is according to, and what follows.
fn source<'a, 'b>(words: &'a [&'b str]) -> Option<(&'a [&'b str], &'a [&'b str])> {
    let at = words.windows(2).position(|pair| pair == ["according", "to"])?;
    let rest = words.get(at + 2..)?;
    let is_end = |word: &&str| matches!(*word, "," | ":" | "it") || words::is(Role::Copula, word);
    Some(rest.split_at(rest.iter().position(is_end).unwrap_or(rest.len())))
}

fn is_impersonal(source: &[&str], known: &Known) -> bool {
    source.is_empty()
        || source.iter().any(|word| *word == "#" || SOURCES.split_whitespace().any(|listed| listed == *word))
        || source.iter().any(|word| !words::is(Role::Function, word) && known.is_text(stem(word)))
}

fn is_of_answer(word: &str) -> bool {
    const ROLES: [Role; 4] = [Role::Filler, Role::Copula, Role::Claim, Role::Adjective];
    words::is_any(&ROLES, word)
}

/// Whether a sentence ends with an answer that is not the writer's last one: `her answer is`, `the old answer was`.
fn is_another_answer(sentence: &[&str], known: &Known) -> bool {
    let Some(at) = sentence.iter().rposition(|word| *word == "answer") else { return false };
    let is_announced = sentence.get(at + 1..).is_some_and(|rest| rest.iter().all(|word| is_announcing(word)));
    let before = without(sentence.get(..at).unwrap_or_default(), |word| words::is(Role::Adjective, word));
    let Some((kind, before)) = before.split_last().filter(|_| is_announced) else { return false };
    if THEIRS.contains(kind) {
        return !has_persons(known);
    }
    let is_plain = matches!(*kind, "," | ":" | ";" | "#" | "that" | "this" | "is")
        || kind.chars().nth(1).is_none()
        || words::is_any(&[Role::Function, Role::Filler, Role::Connective, Role::Claim], kind)
        || KINDS.split_whitespace().any(|listed| listed == *kind)
        || known.is_text(kind);
    let is_kind = before.last().is_none_or(|word| matches!(*word, "the" | "a" | "an" | "my" | "our" | "," | ":"));
    is_kind && !is_plain && kind.is_ascii() && !kind.contains(['-', '\''])
}

/// Whether a problem speaks of persons.
fn has_persons(known: &Known) -> bool {
    PERSONS.iter().any(|person| known.is_text(person))
}

/// Whether a subject who reports is somebody of the problem, or an answer with this after it a number of things:
/// `Bob wrote 7 letters`.
fn is_told_of(subject: &[&str], after: &str, known: &Known) -> bool {
    let Some(subject) = subject.last() else { return false };
    let after = after.trim_start_matches(|c: char| "}$)]\\* ".contains(c));
    let noun = after.prefix_to(after.find(|c: char| !c.is_ascii_lowercase()).unwrap_or(after.len()));
    known.is_text(stem(subject))
        || PERSONS.contains(subject) && has_persons(known)
        || !noun.is_empty() && !words::is(Role::Reason, noun)
}

/// Whether a word announces an answer, names it, or is a formula.
fn is_announcing(word: &str) -> bool {
    const ROLES: [Role; 5] = [Role::Filler, Role::Copula, Role::Claim, Role::Adjective, Role::Name];
    matches!(word, "#" | ":" | "that" | "it" | "me" | "us")
        || word.chars().nth(1).is_none() && word.starts_with(char::is_alphabetic)
        || words::is_any(&ROLES, word)
}

/// Whether somebody else than the writer is the subject of a verb.
fn is_of_another(verb: &str, before: &[&str]) -> bool {
    let start = before.iter().rposition(|word| matches!(*word, "," | ":" | "that")).map_or(0, |at| at + 1);
    let clause = before.get(start..).unwrap_or_default();
    let Some(subject) = clause.last() else { return false };
    if clause.iter().any(|word| OWN.contains(&stem(word))) {
        // `We are told that x =` is the problem's.
        let is_heard = *verb == *"heard" || *verb == *"told" && !clause.contains(&"are");
        return is_heard && !clause.iter().any(|word| stem(word) == "let");
    }
    let is_function = |word: &str| words::is(Role::Function, word) || matches!(word, "number" | "with" | "by" | "as");
    if words::is(Role::Connective, subject) || is_function(subject) {
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
mod tests;
