//! Units behind an amount: products, quotients and powers of names.

use std::ops::Range;

use crate::expr::Function;
use crate::parse::scalar::{is_letter, is_script_of_words};
use crate::parse::structure::Tokens;
use crate::parse::token::TokenKind;
use crate::unit::{MAX_WORDS, Unit};

/// The product of powers of units formed by all of these tokens.
pub(super) fn unit_of(tokens: &Tokens<'_>, range: Range<usize>) -> Option<Unit> {
    let mut unit = Unit::none();
    let mut at = range.start;
    let mut inverse = false;
    let mut words = 0;
    let mut prefix = 1;
    while at < range.end {
        match tokens.kind(at) {
            TokenKind::Space | TokenKind::Command("cdot" | "times") | TokenKind::Symbol('*' | '.') => at += 1,
            // `each day`, but `36 apples each`.
            TokenKind::Label("each" | "every") | TokenKind::Word("each" | "every")
                if !tokens.stripped(at + 1..range.end).is_empty() =>
            {
                inverse = true;
                at += 1;
            }
            TokenKind::Symbol('/') | TokenKind::Word("per") | TokenKind::Label("per" | "a" | "an") => {
                inverse = true;
                at += 1;
            }
            // `36 per cent`
            TokenKind::Label("cent" | "cents") | TokenKind::Word("cent" | "cents") if inverse => return None,
            // `20 degrees Celsius`
            TokenKind::Label("degrees" | "degree") | TokenKind::Word("degrees" | "degree")
                if is_temperature_after(tokens, at) =>
            {
                at += 1;
            }
            TokenKind::Label("square" | "sq") | TokenKind::Word("square" | "sq") => {
                prefix = 2;
                at += 1;
            }
            TokenKind::Label("cubic" | "cu") | TokenKind::Word("cubic" | "cu") => {
                prefix = 3;
                at += 1;
            }
            TokenKind::Label("of" | "the" | "in") | TokenKind::Word("of" | "the") if words > 0 => at += 1,
            TokenKind::Command("Omega") => {
                words += 1;
                unit = unit.times(&Unit::counted("ohm")?);
                at += 1;
            }
            TokenKind::Command("mu") => {
                unit = unit.times(&Unit::micro());
                at += 1;
            }
            TokenKind::Command("frac") => {
                let above = group(tokens, at + 1, range.end)?;
                let below = group(tokens, above.end + 1, range.end)?;
                at = below.end + 1;
                words += 1;
                unit = unit.times(&unit_of(tokens, above)?).times(&unit_of(tokens, below)?.power(-1)?);
            }
            TokenKind::Label(name) | TokenKind::Word(name) => {
                words += 1;
                let is_label = matches!(tokens.kind(at), TokenKind::Label(_));
                let base =
                    Unit::known(name).or_else(|| if is_label || is_noun(name) { Unit::counted(name) } else { None })?;
                at += 1;
                let exponent = exponent(tokens, &mut at, range.end)?.checked_mul(prefix)?;
                prefix = 1;
                unit = unit.times(&base.power(if inverse { -exponent } else { exponent })?);
                inverse = false;
            }
            _ => return None,
        }
    }
    (words > 0 && words <= MAX_WORDS).then_some(unit)
}

/// Whether the next word is a temperature scale.
fn is_temperature_after(tokens: &Tokens<'_>, at: usize) -> bool {
    let next = if matches!(tokens.kind(at + 1), TokenKind::Space) { at + 2 } else { at + 1 };
    match tokens.kind(next) {
        TokenKind::Word(word) | TokenKind::Label(word) => Unit::known(word).is_some_and(|unit| unit.is_temperature()),
        _ => false,
    }
}

/// The inside of the braces that open here.
fn group(tokens: &Tokens<'_>, mut at: usize, end: usize) -> Option<Range<usize>> {
    while at < end && matches!(tokens.kind(at), TokenKind::Space) {
        at += 1;
    }
    let close = if matches!(tokens.kind(at), TokenKind::GroupOpen) { tokens.partner(at, end)? } else { return None };
    Some(at + 1..close)
}

/// The exponent after a unit; 1 if there is none.
fn exponent(tokens: &Tokens<'_>, at: &mut usize, end: usize) -> Option<i64> {
    let mut next = *at;
    // `in.^2`
    while next < end && matches!(tokens.kind(next), TokenKind::Space | TokenKind::Symbol('.')) {
        next += 1;
    }
    if next >= end || !matches!(tokens.kind(next), TokenKind::Symbol('^')) {
        return Some(1);
    }
    next += 1;
    let inner = if next < end && matches!(tokens.kind(next), TokenKind::GroupOpen) {
        let close = tokens.partner(next, end)?;
        *at = close + 1;
        tokens.stripped(next + 1..close)
    } else {
        *at = next + 1;
        next..(next + 1).min(end)
    };
    let negative = !inner.is_empty() && matches!(tokens.kind(inner.start), TokenKind::Symbol('-'));
    let digits = if negative { inner.start + 1 } else { inner.start };
    match tokens.kind(digits) {
        TokenKind::Numeral(numeral) if numeral.is_digits() && digits + 1 == inner.end => {
            let exponent: i64 = numeral.integer.parse().ok()?;
            Some(if negative { -exponent } else { exponent })
        }
        _ => None,
    }
}

/// Whether a word of Chinese or Japanese is something counted.
pub(super) fn is_counter(word: &str) -> bool {
    word.starts_with(is_script_of_words) && Unit::counted(word).is_some()
}

/// Whether a plain word is something counted: no product of letters, and no function.
pub(super) fn is_noun(word: &str) -> bool {
    if is_counter(word) {
        return true;
    }
    let is_lower = word.bytes().all(|byte| byte.is_ascii_lowercase());
    // `xsinx`; longer words only look like it.
    let function = |at: usize| word.get(at..).and_then(Function::at_start).is_some_and(|(_, length)| length > 2);
    let has_function = word.len() < 6 && (0..word.len()).any(function);
    word.len() > 3 && is_lower && !has_function && !is_letter(word) && Unit::counted(word).is_some()
}
