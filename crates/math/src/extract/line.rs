//! The answer on a line: up to the end of its first sentence, without emphasis and delimiters.

use memchr::memchr;

use super::boxes;
use super::sentence::without_reason;
use super::span::formula_at_start;
use crate::slicing::SafeSlice;
use crate::words::Known;

/// What may stand around words for emphasis.
pub(super) const EMPHASIS: [char; 4] = [' ', '\t', '*', '_'];

/// The announced answer: on the same line, or on the next non-empty one.
pub(super) fn value(rest: &str) -> &str {
    let is_lead = |c: char| c.is_whitespace() || matches!(c, '*' | '_' | '`');
    let mut rest = rest.trim_start_matches(is_lead);
    // The only item of a list.
    if let Some(item) = rest.strip_prefix(['-', '•']).map(str::trim_start).filter(|item| item.starts_with("**")) {
        rest = item.trim_start_matches(is_lead);
    }
    // `~~7~~ 8`: what is struck out is no part of it.
    let struck = rest.strip_prefix("~~").and_then(|rest| rest.split_once("~~"));
    if let Some((struck, after)) = struck
        && !struck.contains('\n')
        && !after.trim().is_empty()
    {
        rest = after.trim_start_matches(is_lead);
    }
    let line = first_line(rest);
    if let Some(answer) = boxes::last_in(line) {
        return answer;
    }
    match formula_at_start(rest) {
        Some(formula) if ends_statement(formula.rest) => formula.inner,
        _ => statement(line),
    }
}

/// What a tag holds: the lines of a text as one answer, a formula without its delimiters.
pub(super) fn whole(text: &str) -> &str {
    let text = text.trim().trim_matches(['*', '`']).trim();
    match formula_at_start(text) {
        Some(formula) if formula.rest.trim().trim_end_matches('.').is_empty() => formula.inner,
        _ => text,
    }
}

/// A value that is all of a text: a formula, or in bold type.
pub(super) fn alone(text: &str) -> Option<&str> {
    let text = text.trim();
    let bold = text.strip_prefix("**").and_then(|rest| rest.strip_suffix("**")).filter(|inner| !inner.contains("**"));
    let answer = whole(text);
    (has_value(answer) && (bold.is_some() || answer.len() < text.len() && !text.contains('*'))).then_some(answer)
}

/// A line without surrounding emphasis, up to the end of its first sentence.
pub(super) fn statement(line: &str) -> &str {
    let line = line.trim().trim_matches(['*', '`']).trim();
    let line = line.strip_suffix("__").unwrap_or(line);
    if let Some(formula) = formula_at_start(line)
        && ends_statement(formula.rest)
    {
        return formula.inner;
    }
    let is_whole = |end: &usize| line.prefix_to(*end).matches('{').count() <= line.prefix_to(*end).matches('}').count();
    let sentence = line.find(". ").filter(is_whole).map_or(line, |end| line.prefix_to(end));
    let sentence = sentence.strip_suffix("**.").unwrap_or(sentence);
    without_reason(without_consequence(sentence))
}

/// The text before `; the other root is rejected` or `, so she has enough`, which are sentences of their own.
fn without_consequence(sentence: &str) -> &str {
    let is_prose = |rest: &str| {
        let words = rest.split_whitespace().take_while(|word| word.bytes().all(|byte| byte.is_ascii_alphabetic()));
        words.filter(|word| word.len() > 2 && *word != "and").count() > 1
    };
    let clause = sentence.find("; ").filter(|at| is_prose(sentence.suffix_from(at + 2)));
    let so = sentence.find(", so ").filter(|at| is_prose(sentence.suffix_from(at + 5)));
    match clause.into_iter().chain(so).min() {
        Some(end) if end > 0 => sentence.prefix_to(end),
        _ => sentence,
    }
}

/// Words of a sentence; anything longer contains more than the answer.
const SENTENCE_WORDS: usize = 3;

/// Whether an announced answer is wrapped in a sentence.
pub(super) fn is_sentence(answer: &str) -> bool {
    let is_word = |word: &&str| {
        let word = word.trim_end_matches(['.', ',']);
        word.chars().nth(1).is_some() && word.chars().all(char::is_alphabetic)
    };
    answer.split_whitespace().filter(is_word).nth(SENTENCE_WORDS - 1).is_some()
        || answer
            .split_once(" is ")
            .is_some_and(|(before, _)| before.split_whitespace().filter(is_word).nth(1).is_some())
}

/// Whether the rest does not belong to the answer.
fn ends_statement(rest: &str) -> bool {
    let rest = rest.trim_start_matches([' ', '\t', '*', '_', '`']);
    rest.is_empty()
        || rest.starts_with(['\n', '\r'])
        || rest.starts_with(". ")
        || rest.trim_end() == "."
        || rest.starts_with(".\n")
        || rest.starts_with(".*")
}

pub(super) fn first_line(text: &str) -> &str {
    let end = memchr(b'\n', text.as_bytes()).unwrap_or(text.len());
    text.prefix_to(end)
}

/// Whether an announced answer holds a value, and not words alone: `this answer is reasonable`.
pub(super) fn has_value(answer: &str) -> bool {
    let answer = answer.trim();
    answer.contains(|c: char| c.is_ascii_digit() || c == '\\')
        || answer.trim_end_matches('.').chars().nth(2).is_none()
        || crate::choice::of_answer(answer, &Known::default()).is_some()
}
