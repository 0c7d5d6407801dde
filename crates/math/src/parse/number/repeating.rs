//! Repeating decimals: `0.\overline{27}`, `0.\bar 6`, `0.\dot{1}4285\dot{7}`, `0.1(6)`, `0.666...`.

use std::ops::Range;

use dashu_int::UBig;
use dashu_ratio::RBig;

use crate::parse::structure::Tokens;
use crate::parse::token::TokenKind;
use crate::slicing::SafeSlice;
use crate::{Magnitude, Notation, Number};

/// Longest period, and most digits before it.
const MAX_DIGITS: usize = 200;

/// A repeating decimal as written.
pub(super) struct Decimal {
    pub(super) integer: String,
    /// Digits after the point that do not repeat.
    pub(super) fixed: String,
    /// Digits after the point that repeat.
    pub(super) period: String,
    /// The token after it.
    pub(super) end: usize,
}

/// The repeating decimal at the start of these tokens.
pub(super) fn read(tokens: &Tokens<'_>, range: Range<usize>) -> Option<Decimal> {
    let kind = |at: usize| (at < range.end).then(|| tokens.kind(at));
    let is_point = |at: usize| kind(at) == Some(&TokenKind::Symbol('.'));
    let mut at = range.start;
    // Nearly every number ends here.
    let (integer, mut fixed) = match kind(at)? {
        TokenKind::Numeral(numeral) if numeral.point => {
            at += 1;
            match kind(at)? {
                TokenKind::Command("overline" | "bar" | "dot" | "ldots")
                | TokenKind::Open('(')
                | TokenKind::Symbol('.') => {}
                _ => return None,
            }
            (numeral.integer.to_string(), numeral.fraction.to_owned())
        }
        TokenKind::Numeral(numeral) if is_point(at + 1) => {
            at += 2;
            (numeral.integer.to_string(), String::new())
        }
        TokenKind::Symbol('.') => {
            at += 1;
            (String::new(), String::new())
        }
        _ => return None,
    };
    if fixed.len() > MAX_DIGITS || integer.len() > MAX_DIGITS {
        return None;
    }
    let (period, end) = match kind(at)? {
        TokenKind::Command("overline" | "bar") => argument(tokens, at + 1, range.end)?,
        TokenKind::Command("dot") => between_dots(tokens, at, range.end)?,
        TokenKind::Open('(') => {
            let close = tokens.partner(at, range.end)?;
            (digits(tokens, at + 1..close)?, close + 1)
        }
        TokenKind::Command("ldots") => (split_period(&mut fixed)?, at + 1),
        TokenKind::Symbol('.') if is_point(at + 1) && !fixed.is_empty() => {
            let dots = (at..range.end).take_while(|at| is_point(*at)).count();
            (split_period(&mut fixed)?, at + dots)
        }
        _ => return None,
    };
    (!period.is_empty() && period.len() <= MAX_DIGITS).then_some(Decimal { integer, fixed, period, end })
}

/// The digits of an argument, and the token after it.
fn argument(tokens: &Tokens<'_>, at: usize, end: usize) -> Option<(String, usize)> {
    let mut at = at;
    while at < end && matches!(tokens.kind(at), TokenKind::Space) {
        at += 1;
    }
    if at < end && matches!(tokens.kind(at), TokenKind::GroupOpen) {
        let close = tokens.partner(at, end)?;
        return Some((digits(tokens, at + 1..close)?, close + 1));
    }
    // Without braces TeX takes one digit.
    match tokens.kind(at) {
        TokenKind::Numeral(numeral) if at < end && !numeral.point && numeral.integer.len() == 1 => {
            Some((numeral.integer.to_string(), at + 1))
        }
        _ => None,
    }
}

/// `\dot{6}`, and `\dot{1}4285\dot{7}`, where the period is all of it.
fn between_dots(tokens: &Tokens<'_>, at: usize, end: usize) -> Option<(String, usize)> {
    let (mut period, after) = argument(tokens, at + 1, end)?;
    let middle = match tokens.kind(after) {
        TokenKind::Numeral(numeral) if after < end && !numeral.point => Some(numeral.integer.to_string()),
        _ => None,
    };
    let second = after + usize::from(middle.is_some());
    if second < end && matches!(tokens.kind(second), TokenKind::Command("dot")) {
        let (last, after) = argument(tokens, second + 1, end)?;
        period.extend(middle);
        period.push_str(&last);
        return Some((period, after));
    }
    middle.is_none().then_some((period, after))
}

/// The only token of a range, if it is digits.
fn digits(tokens: &Tokens<'_>, range: Range<usize>) -> Option<String> {
    let range = tokens.stripped(range);
    match tokens.kind(range.start) {
        TokenKind::Numeral(numeral) if range.len() == 1 && !numeral.point => Some(numeral.integer.to_string()),
        _ => None,
    }
}

/// Takes the shortest period that the digits before an ellipsis end with twice; all of its copies go.
fn split_period(digits: &mut String) -> Option<String> {
    let text = digits.clone();
    for length in 1..=text.len() / 2 {
        let period = text.suffix_from(text.len() - length);
        let mut rest = text.as_str();
        let mut copies = 0;
        while let Some(before) = rest.strip_suffix(period) {
            (rest, copies) = (before, copies + 1);
        }
        if copies >= 2 {
            rest.clone_into(digits);
            return Some(period.to_owned());
        }
    }
    None
}

/// The number itself: `(fixed and period - fixed) / (10^f (10^p - 1))`.
pub(super) fn value(integer: &str, fixed: &str, period: &str) -> Number {
    let number = |text: &str| UBig::from_str_radix(if text.is_empty() { "0" } else { text }, 10).unwrap_or_default();
    let ten = UBig::from(10_u8);
    let whole = number(&[integer, fixed, period].concat()) - number(&[integer, fixed].concat());
    let below = ten.pow(fixed.len()) * (ten.pow(period.len()) - UBig::ONE);
    Number::plain(Magnitude::Exact(RBig::from_parts(whole.into(), below)), Notation::Fraction)
}
