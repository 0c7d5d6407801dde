//! The answer within words: `\text{The answer is } 36`, `Total: 36`, `36 apples in all`, `36 \text{ (final answer)}`.
//!
//! A small grammar accounts for every word: phrases of the table (`words.txt`) before and after a formula, each in its
//! place, and remarks in parentheses. What remains must be a formula, with or without a unit. Any other word makes the
//! whole answer no formula.

mod lead;
mod remark;
mod tail;

use std::ops::Range;

use super::structure::Tokens;
use super::token::TokenKind;
use crate::words::Known;
use lead::{lead_of, without_lead};
pub(super) use remark::Offer;
use remark::{without_denial, without_remark};
use tail::{without_quantifier, without_tail};

/// Most tokens of an answer in words.
const MAX_TOKENS: usize = 120;

/// Most words of a phrase such as `of the apples in the basket`.
const MAX_NOUN_WORDS: usize = 8;

/// The formula of an answer in words, and what a remark offers beside it. `None` without words, or with others than
/// those that are known to be harmless.
pub(super) fn formula(tokens: &Tokens<'_>, known: &Known) -> Option<(Range<usize>, Option<Offer>)> {
    let all = tokens.trimmed(tokens.all());
    if all.len() > MAX_TOKENS {
        return None;
    }
    let mut range = all.clone();
    let mut offer = None;
    loop {
        let before = range.clone();
        range = without_marks(tokens, range);
        let remark = without_remark(tokens, range.clone()).or_else(|| without_denial(tokens, range.clone()));
        if let Some((rest, offered)) = remark {
            range = rest;
            offer = offer.or(offered);
        }
        range = without_quantifier(tokens, without_tail(tokens, range, known));
        range = without_lead(tokens, range, known);
        if range == before {
            break;
        }
    }
    (!range.is_empty() && range != all).then_some((range, offer))
}

/// Whether a text is wholly one of the phrases that announce an answer or name its value: `The area is`, `answer`.
pub(super) fn is_lead(text: &str, known: &Known) -> bool {
    let lower = text.to_lowercase();
    let words: Vec<&str> =
        lower.split(|c: char| c.is_whitespace() || matches!(c, ',' | ':')).filter(|word| !word.is_empty()).collect();
    lead_of(&words, known, true) == Some(words.len())
}

fn text_of<'a>(kind: &TokenKind<'a>) -> Option<&'a str> {
    match kind {
        TokenKind::Word(word) | TokenKind::Label(word) => Some(word),
        _ => None,
    }
}

fn is_space(kind: &TokenKind<'_>) -> bool {
    matches!(kind, TokenKind::Space | TokenKind::Command("\\"))
}

/// The range without punctuation, quotes and emphasis at its ends.
fn without_marks(tokens: &Tokens<'_>, range: Range<usize>) -> Range<usize> {
    let mut range = tokens.trimmed(range);
    let all = range.clone();
    let is_mark = |kind: &TokenKind<'_>| {
        matches!(kind, TokenKind::Symbol(',' | ';' | ':' | '"' | '*' | '`' | '\'') | TokenKind::Command("\\"))
    };
    // The full stop of an abbreviation: `Rs. 36`.
    let is_stop = |at: usize| {
        matches!(tokens.kind(at), TokenKind::Symbol('.')) && matches!(tokens.kind(at + 1), TokenKind::Space)
    };
    while range.len() > 1 && (is_mark(tokens.kind(range.start)) || is_stop(range.start)) {
        range = tokens.trimmed(range.start + 1..range.end);
    }
    // A prime after a letter belongs to it. One alone is a prime or the sign of minutes.
    let is_quoted = all.start < all.end && matches!(tokens.kind(all.start), TokenKind::Symbol('\''));
    // One after a number is a sign of inches or seconds, unless another one is before it.
    let is_said = all.start < all.end && matches!(tokens.kind(all.start), TokenKind::Symbol('"'));
    let is_end_mark = |at: usize| {
        let is_prime = matches!(tokens.kind(at), TokenKind::Symbol('\''))
            && (!is_quoted || matches!(tokens.kind(at - 1), TokenKind::Word(_)));
        let is_inch = !is_said
            && matches!(tokens.kind(at), TokenKind::Symbol('"'))
            && matches!(tokens.kind(at - 1), TokenKind::Numeral(_));
        // `0.5...` goes on.
        let is_stop = |at: usize| matches!(tokens.kind(at), TokenKind::Symbol('.'));
        (is_mark(tokens.kind(at)) && !is_prime && !is_inch) || is_stop(at) && !is_stop(at - 1)
    };
    while range.len() > 1 && is_end_mark(range.end - 1) {
        range = tokens.trimmed(range.start..range.end - 1);
    }
    range
}

#[cfg(test)]
mod tests;
