//! Words after an answer: `altogether`, `in the basket`, `for all x`.

use std::ops::Range;

use super::lead::noun_phrase;
use super::{MAX_NOUN_WORDS, is_space, text_of, without_marks};
use crate::parse::structure::Tokens;
use crate::parse::token::TokenKind;
use crate::words::{self, Known, MAX_PHRASE_WORDS, Role};

/// The range without the phrases after an answer.
pub(super) fn without_tail(tokens: &Tokens<'_>, range: Range<usize>, known: &Known) -> Range<usize> {
    // The words at the end, the last one first, with the index of each.
    let mut found: Vec<(String, usize)> = Vec::new();
    for at in range.clone().rev() {
        match tokens.kind(at) {
            TokenKind::Space | TokenKind::Symbol(',' | '.') => {}
            kind => match text_of(kind) {
                Some(word) => found.push((word.to_lowercase(), at)),
                None => break,
            },
        }
        if found.len() > MAX_PHRASE_WORDS + MAX_NOUN_WORDS {
            break;
        }
    }
    found.reverse();
    let words: Vec<&str> = found.iter().map(|(word, _)| word.as_str()).collect();
    let mut end = words.len();
    while let Some(length) = tail_length(words.get(..end).unwrap_or_default(), known) {
        end -= length;
    }
    let Some((_, at)) = found.get(end) else { return range };
    let rest = without_marks(tokens, range.start..*at);
    if rest.is_empty() { range } else { rest }
}

/// The range without `for all x \\in \\mathbb{R}` at its end.
pub(super) fn without_quantifier(tokens: &Tokens<'_>, range: Range<usize>) -> Range<usize> {
    let word = |at: usize| text_of(tokens.kind(at)).map(str::to_lowercase);
    let is_for = |at: &usize| word(*at).is_some_and(|word| word == "for");
    let Some(start) = range.clone().rev().find(is_for) else { return range };
    let rest = (start + 1..range.end).filter(|at| !is_space(tokens.kind(*at)));
    let rest: Vec<&TokenKind<'_>> = rest.map(|at| tokens.kind(at)).collect();
    let is_all = |kind: &TokenKind<'_>| matches!(text_of(kind), Some("all" | "every" | "any" | "each"));
    let is_letter = |kind: &TokenKind<'_>| text_of(kind).is_some_and(|word| word.len() == 1);
    let is_real = match rest.as_slice() {
        [all, letter, TokenKind::Command("in"), TokenKind::Command("mathbb"), set @ ..]
            if is_all(all) && is_letter(letter) =>
        {
            let mut set = set.iter().filter(|kind| !matches!(kind, TokenKind::GroupOpen | TokenKind::GroupClose));
            set.next().is_some_and(|kind| text_of(kind) == Some("R")) && set.next().is_none()
        }
        _ => false,
    };
    let formula = tokens.trimmed(range.start..start);
    if is_real && !formula.is_empty() { formula } else { range }
}

/// The length of a phrase that ends these words: of the table, or `of the apples`.
fn tail_length(words: &[&str], known: &Known) -> Option<usize> {
    let last_words = |length: usize| words.get(words.len() - length..).unwrap_or_default();
    for length in (1..=words.len().min(MAX_PHRASE_WORDS)).rev() {
        let mut phrase = last_words(length).to_vec();
        // `for all t`
        if let Some(last) = phrase.last_mut()
            && length > 1
            && last.len() == 1
        {
            *last = "x";
        }
        if words::is(Role::Tail, &phrase.join(" ")) {
            return Some(length);
        }
    }
    (2..=words.len().min(MAX_NOUN_WORDS)).find(|length| {
        let phrase = last_words(*length);
        noun_phrase(phrase, known) == *length
    })
}
