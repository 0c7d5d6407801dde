//! What follows an answer changes it only by a retraction, or by another value or choice.

mod contrast;
mod denial;
mod foreign;
mod none;

use super::ending::{without_markup, without_unit};
use super::restated::{self, Answered};
use super::sentence::{clauses, drawn, has_another_number, sentences, words_of};
use super::{Extracted, aside, closing_tag, spelled};
use crate::slicing::SafeSlice;
use crate::words::{self, Role};
use denial::{DENIALS, is_denied};

/// Most bytes after an answer that are read.
const MAX_BYTES: usize = 16 << 10;

/// Longest text that is another letter alone, `/ (C).`, in bytes.
const MAX_LETTER: usize = 6;

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
/// Words that no check may follow: `Correction: x = 8`, but not `Alternatively, 6 + 1 = 7`.
const CORRECTIONS: [&str; 8] = ["wait", "oops", "sorry", "correction", "scratch", "nevermind", "nope", "whoops"];
/// Subjects that stand for the answer.
const SUBJECTS: [&str; 12] =
    ["it", "this", "that", "which", "answer", "result", "value", "mine", "truth", "check", "verification", "solution"];
/// Words that say which answer is meant.
const PLACES: [&str; 9] = ["above", "previous", "boxed", "final", "box", "earlier", "last", "given", "old"];
/// Words before such a subject.
const LEADS: [&str; 6] = ["but", "and", "so", "however", "clearly", "no"];
/// Words before another value.
const BEFORE_OTHERS: [&str; 9] = ["or", "but", "however", "no", "instead", "rather", "another", "other", "also"];

/// Whether the text after an answer takes it back or gives another one.
pub(super) fn takes_back(found: &Extracted<'_>, text: &str) -> bool {
    let last = match found {
        Extracted::One(answer) => *answer,
        Extracted::Several { answers, .. } => answers.last().copied().unwrap_or_default(),
    };
    // The answer is a part of the text.
    let end = (last.as_ptr() as usize + last.len()).wrapping_sub(text.as_ptr() as usize);
    if end > text.len() {
        return false;
    }
    let rest = text.suffix_from(end);
    if !rest.bytes().any(|byte| byte.is_ascii_alphanumeric() || !byte.is_ascii()) {
        return false;
    }
    let rest = rest.prefix_to(rest.floor_char_boundary(rest.len().min(MAX_BYTES)));
    // `</answer>` is no word of the sentence after it.
    let rest = rest.suffix_from(closing_tag(rest));
    let answered = Answered::new(text.prefix_to(end.saturating_sub(last.len())), last);
    // `so 37.` is no mark of a list.
    let is_first_on_its_line = |sentence: &str| {
        let at = (sentence.as_ptr() as usize).wrapping_sub(rest.as_ptr() as usize).min(rest.len());
        !rest.prefix_to(at).ends_with(", so ")
    };
    let is_other = |sentence: &str| {
        let next = rest.suffix_from((sentence.as_ptr() as usize + sentence.len()).wrapping_sub(rest.as_ptr() as usize));
        !none::of_another(sentence, last)
            && !none::is_check(sentence)
            && (denies(sentence, &answered)
                || foreign::takes_back(sentence, &answered)
                || !(is_first_on_its_line(sentence) && restated::is_mark(sentence, next))
                    && restated::takes_back(sentence, &answered)
                || contrast::concludes_another(sentence, &answered))
    };
    first(rest, &answered)
        || contrast::offers_on_next_line(rest, &answered)
        || drawn(rest).enumerate().any(|(at, part)| sentences(part).skip(usize::from(at == 0)).any(is_other))
}

/// The rest of the answer's own sentence: only what is outside of the markup around a box.
fn first(rest: &str, answered: &Answered<'_>) -> bool {
    let answer = answered.text;
    if aside::gives_another(rest, answered) {
        return true;
    }
    let Some(sentence) = sentences(rest).next().filter(|sentence| !none::of_another(sentence, answer)) else {
        return false;
    };
    let sentence = &*spelled::in_digits(sentence);
    let beyond = without_unit(sentence);
    let is_listed = beyond.starts_with(',');
    let beyond = beyond.trim_start_matches([' ', ',', '-']);
    let words = words_of(beyond);
    let has = |listed: &[&str]| words.iter().any(|word| listed.contains(&word.as_str()));
    let begins =
        |listed: &[&str]| words.iter().find(|word| *word != ",").is_some_and(|word| listed.contains(&word.as_str()));
    let goes_on = without_markup(sentence).trim_start_matches([' ', ',', '-']);
    // `and y = 3` is the value of another name, and `= 37` none. `= 37?` asks, and says nothing.
    let is_equated = beyond.starts_with('=') && !beyond.contains('?');
    let is_continued = ((is_listed || begins(&["and", "or", "but", "no"])) && !beyond.contains('=') || is_equated)
        && restated::takes_back(beyond, answered);
    // `maybe (C)`, `(alternatively, 37)`
    let in_brackets = goes_on.split(['(', ')']).skip(1).step_by(2);
    let mut parts = goes_on.split(", ").chain(in_brackets.clone());
    let mut clauses = clauses(goes_on);
    let is_offered = clauses.next().is_some_and(|clause| {
        restated::may_be_another(clause, answered) || restated::is_stated_again(clause, answered)
    }) || parts.any(|part| restated::may_be_another(part, answered));
    // `\boxed{B}/C`, but not `\boxed{B}C`
    let is_apart = !sentence.trim_start_matches(['}', '$', ')']).starts_with(char::is_alphanumeric);
    let is_letter =
        is_apart && answered.is_choice() && goes_on.len() <= MAX_LETTER && restated::takes_back(goes_on, answered);
    is_continued
        || is_offered
        || is_letter
        || clauses
            .any(|clause| restated::offers_another(clause, answered) || restated::is_stated_again(clause, answered))
        || is_pointed_at(beyond, answered)
        || in_brackets.clone().any(is_denied_aside)
        || begins(&["is", "was"])
            && words.last().is_some_and(|word| matches!(word.as_str(), "mistake" | "misconception" | "trap"))
        || begins(&["says", "said"])
        || (begins(&["is", "which", "isn't", "can't", "cannot", "but", "was"]) && has(&DENIALS))
        || (begins(&["or", "but"]) && beyond.len() == goes_on.len() && has_another_number(sentence, answer))
        || begins(&CORRECTIONS)
        || corrects(
            &words.iter().map(String::as_str).filter(|word| !is_mark(word)).collect::<Vec<_>>(),
            sentence,
            answer,
        )
}

/// Whether brackets deny the answer before them: `(this is wrong)`.
fn is_denied_aside(inner: &str) -> bool {
    let words = words_of(inner);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["wrong" | "incorrect" | "false"] | ["not", "correct" | "right" | "true"] => true,
        [subject, rest @ ..] => SUBJECTS.contains(subject) && is_denied(rest),
        [] => false,
    }
}

/// Whether nothing but a sign stands between an answer and another value: `→ 37`, `/37`.
fn is_pointed_at(goes_on: &str, answered: &Answered<'_>) -> bool {
    let signs = ["→", "⇒", "->", "=>", ">", "~", ":", "/", "…"];
    let value = signs.iter().find_map(|sign| goes_on.strip_prefix(sign));
    value.is_some_and(|value| !value.contains(char::is_alphabetic) && restated::has_another(value, answered))
}

/// Whether a sentence takes back the answer before it: `Wait, that is wrong`, `It could also be 8`, `Or 20.`
fn denies(sentence: &str, answered: &Answered<'_>) -> bool {
    let answer = answered.text;
    let words = words_of(sentence);
    let words: Vec<&str> = words.iter().flat_map(|word| parts(word)).filter(|word| !is_mark(word)).collect();
    let Some(first) = words.first() else { return false };
    if none::is_said(&words) {
        return true;
    }
    if CORRECTIONS.contains(first) || corrects(&words, sentence, answer) {
        return true;
    }
    // A line with a formula of its own checks the answer.
    if sentence.contains('=') {
        return false;
    }
    let has = |listed: &[&str]| words.iter().any(|word| listed.contains(word));
    // `Alternatively, by symmetry we get 36.`
    let is_stated = words.last() == Some(&"#") && !has_another_number(sentence, answer);
    let is_again = *first == "alternatively" && (is_stated || !words.contains(&"#"));
    if CUES.contains(first) && !is_again
        || (*first == "no" && words.len() < 3)
        || words.starts_with(&["i", "made"])
        || words.starts_with(&["i", "was"])
    {
        return true;
    }
    // The subject stands first, or after a word such as "but".
    let is_lead = LEADS.contains(first) || words::is(Role::Connective, first) && !SUBJECTS.contains(first);
    let at = usize::from(is_lead);
    let is_number = |at: usize| words.get(at) == Some(&"#") && !has_another_number(sentence, answer);
    let is_subject = |at: usize| words.get(at).is_some_and(|word| SUBJECTS.contains(word)) || is_number(at);
    let is_article = matches!(words.get(at), Some(&("the" | "my" | "our")));
    // `the boxed answer above`
    let place = |at: usize| words.get(at).is_some_and(|word| PLACES.contains(word));
    let noun = at + 1 + usize::from(place(at + 1));
    let noun = if is_subject(noun) || !place(noun) { noun } else { noun + 1 };
    let after = match () {
        () if is_subject(at) => at + 1,
        () if is_article && is_subject(noun) => noun + 1,
        () if is_article && place(at + 1) => at + 2,
        () => 0,
    };
    let after = match words.get(after..) {
        Some(["in", "the", "box", ..]) if after > 0 => after + 3,
        Some([word, ..]) if after > 0 && PLACES.contains(word) => after + 1,
        _ => after,
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
        && (!answered.is_number() || restated::has_another(sentence, answered))
    {
        return !has(&["so", "because", "since", "by", "of", "times", "plus", "than", "as", "not"]);
    }
    (BEFORE_OTHERS.contains(first) || (*first == "the" && words.get(1) == Some(&"truth")))
        && has_another_number(sentence, answer)
        && words.len() < 8
        && !has(&DENIALS)
}

/// A word, or the two that an apostrophe joins: `that is` for `that's`.
fn parts(word: &str) -> [&str; 2] {
    match word.split_once('\'') {
        Some((subject @ ("it" | "that" | "this" | "there"), "s")) => [subject, "is"],
        Some(("i", "m")) => ["i", "am"],
        _ => [word, ","],
    }
}

fn is_mark(word: &str) -> bool {
    matches!(word, "," | ":" | ";")
}

/// Whether a sentence says that the answer before it is another one, or none: `Incorrect.`, `Not 7 but 8`, `Edit: 8`.
fn corrects(words: &[&str], sentence: &str, answer: &str) -> bool {
    let Some((first, rest)) = words.split_first() else { return false };
    let next = rest.first().copied().unwrap_or_default();
    match *first {
        "incorrect" | "wrong" | "false" => rest.len() < 2,
        "not" if words == ["not", "#"] => true,
        "not" => matches!(next, "correct" | "right" | "quite" | "really") || has_another_number(sentence, answer),
        "hold" | "hang" => next == "on",
        "i" => {
            let errs = |word: &&str| matches!(*word, "retract" | "withdraw" | "misread" | "miscalculated" | "erred");
            rest.iter().take(3).any(errs) || (next == "take" && rest.contains(&"back"))
        }
        "edit" | "edited" | "erratum" => has_another_number(sentence, answer),
        "corrected" | "revised" | "updated" | "amended" | "new" => {
            matches!(next, "answer" | "result" | "value" | "solution" | "to" | "final")
                && has_another_number(sentence, answer)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests;
