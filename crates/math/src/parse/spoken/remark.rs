//! A remark after an answer, in parentheses or after a comma: `(final answer)`, `(or 3/4)`, `, not 73`.

use std::ops::Range;

use super::text_of;
use crate::parse::structure::Tokens;
use crate::parse::token::TokenKind;
use crate::unit::Unit;
use crate::words::{self, Role};

/// A second formula that a remark offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::parse) enum Offer {
    /// Another notation: `0.75 (or 3/4)`.
    Other(Range<usize>),
    /// An approximation of the first formula: `3\\sqrt{2} (\\approx 4.24)`.
    Rounded(Range<usize>),
    /// What it is not: `12 (not 15)`.
    Denied(Range<usize>),
}

/// The range without a final remark in parentheses, and what it offers: `(final answer)`, `(\text{cm})`, `(or 3/4)`,
/// `(since x > 0)`, `(not 15)`.
pub(super) fn without_remark(tokens: &Tokens<'_>, range: Range<usize>) -> Option<(Range<usize>, Option<Offer>)> {
    if range.len() < 4 || !matches!(tokens.kind(range.end - 1), TokenKind::Close(')')) {
        return None;
    }
    // The bracket of `\\text{(since } x > 0)` has no partner within its group.
    let partner = |at: usize| tokens.partner(at, range.end);
    let open = range.clone().find(|at| {
        matches!(tokens.kind(*at), TokenKind::Open('(')) && partner(*at).is_none_or(|close| close == range.end - 1)
    })?;
    let inner = tokens.stripped(open + 1..range.end - 1);
    let rest = tokens.stripped(range.start..open);
    // An argument or a factor follows without a space.
    if rest.is_empty() || inner.is_empty() || rest.end == open {
        return None;
    }
    let mut words = Vec::new();
    let mut begin = inner.start;
    for at in inner.clone() {
        match (tokens.kind(at), text_of(tokens.kind(at))) {
            (TokenKind::Space, _) => {}
            (TokenKind::Symbol('.'), _) if !words.is_empty() => {}
            // A letter is a name of the formula.
            (TokenKind::Word(word), _) if word.chars().nth(1).is_none() => break,
            (_, Some(word)) => words.push(word.to_lowercase()),
            _ => break,
        }
        begin = at + 1;
    }
    let formula = tokens.stripped(begin..inner.end);
    let words = words.join(" ");
    let has_words = || formula.clone().any(|at| text_of(tokens.kind(at)).is_some_and(|word| word.len() > 1));
    if formula.is_empty() {
        return (words::is(Role::Remark, &words) || is_unit(tokens, inner)).then_some((rest, None));
    }
    if is_unit(tokens, inner.clone()) {
        return Some((rest, None));
    }
    if has_words() || words == "to" {
        let all: Vec<_> = inner.clone().filter_map(|at| text_of(tokens.kind(at))).map(str::to_lowercase).collect();
        let is_rest = |kind: &TokenKind<'_>| {
            matches!(kind, TokenKind::Space | TokenKind::Symbol('.'))
                || text_of(kind).is_some()
                || matches!(kind, TokenKind::Numeral(n) if n.is_digits())
        };
        if !words::is(Role::Remark, &all.join(" ")) || !inner.clone().all(|at| is_rest(tokens.kind(at))) {
            return None;
        }
        // `(to 2 decimal places)`; any other number is the answer again: `(36 total)`.
        let names_places = all.iter().any(|word| word == "to");
        let number = tokens.find(inner, |kind| matches!(kind, TokenKind::Numeral(_))).filter(|_| !names_places);
        return Some((rest, number.map(|at| Offer::Other(at..at + 1))));
    }
    let is_rounded = matches!(tokens.kind(inner.start), TokenKind::Command("approx"));
    match words.as_str() {
        "or" => Some((rest, Some(Offer::Other(formula)))),
        "" if is_rounded => Some((rest, Some(Offer::Rounded(tokens.stripped(inner.start + 1..inner.end))))),
        "about" | "approximately" | "approx" => Some((rest, Some(Offer::Rounded(formula)))),
        "not" => Some((rest, Some(Offer::Denied(formula)))),
        // `(since x > 0)`: a condition, and no value.
        "since" | "because" | "as" | "for" | "where" | "with" if has_order(tokens, formula.clone()) => {
            Some((rest, None))
        }
        _ => None,
    }
}

/// The range without `, not 73` at its end, and what it denies.
pub(super) fn without_denial(tokens: &Tokens<'_>, range: Range<usize>) -> Option<(Range<usize>, Option<Offer>)> {
    let comma = tokens.find(range.clone(), |kind| matches!(kind, TokenKind::Symbol(',')))?;
    let rest = tokens.stripped(range.start..comma);
    let after = tokens.stripped(comma + 1..range.end);
    let denied = tokens.stripped(after.start + 1..after.end);
    let is_denial = !rest.is_empty()
        && text_of(tokens.kind(after.start)).is_some_and(|word| word.eq_ignore_ascii_case("not"))
        && !denied.is_empty()
        && !denied.clone().any(|at| text_of(tokens.kind(at)).is_some());
    is_denial.then_some((rest, Some(Offer::Denied(denied))))
}

/// Whether a formula is an inequality or a membership.
fn has_order(tokens: &Tokens<'_>, formula: Range<usize>) -> bool {
    let is_sign = |kind: &TokenKind<'_>| {
        matches!(kind, TokenKind::Symbol('<' | '>') | TokenKind::Command("le" | "ge" | "in" | "ne"))
    };
    tokens.find(formula, is_sign).is_some()
}

/// Whether a remark is a unit: `(\\text{cm}^2)`.
fn is_unit(tokens: &Tokens<'_>, range: Range<usize>) -> bool {
    let is_part = |kind: &TokenKind<'_>| match kind {
        TokenKind::Label(word) => Unit::known(word).is_some(),
        TokenKind::Numeral(numeral) => numeral.is_digits() && numeral.integer.len() == 1,
        kind => matches!(
            kind,
            TokenKind::Space | TokenKind::Symbol('^' | '/' | '.') | TokenKind::GroupOpen | TokenKind::GroupClose
        ),
    };
    range.clone().all(|at| is_part(tokens.kind(at)))
        && range.clone().any(|at| matches!(tokens.kind(at), TokenKind::Label(_)))
}
