//! Values with a notation of their own: infinity, digits in a base, times of day, the empty set.

use std::ops::Range;

use super::{Context, Read};
use crate::parse::structure::Tokens;
use crate::parse::token::TokenKind;
use crate::{Based, Number, Region, Text, Time, Value};

/// Bases that are written as words.
const BASES: [(&str, u32); 10] = [
    ("two", 2),
    ("three", 3),
    ("four", 4),
    ("five", 5),
    ("six", 6),
    ("seven", 7),
    ("eight", 8),
    ("nine", 9),
    ("ten", 10),
    ("sixteen", 16),
];

/// The base that a word or digits name: `7`, `seven`.
pub(crate) fn base_named(name: &str) -> Option<u32> {
    let word = || BASES.iter().find(|(word, _)| *word == name).map(|(_, base)| *base);
    name.parse().ok().or_else(word).filter(|base| (2..=36).contains(base))
}

/// Texts that denote the empty set.
const NOTHING: [&str; 10] = [
    "\\emptyset",
    "no solution",
    "no solutions",
    "no real solution",
    "no real solutions",
    "none",
    "empty set",
    "the empty set",
    "there is no solution",
    "there are no solutions",
];

/// The value of a text that denotes one.
pub(super) fn value_of_text(text: String) -> Value {
    if ["all real numbers", "all reals", "the real numbers"].iter().any(|all| text.eq_ignore_ascii_case(all)) {
        return Value::Region(Region::Reals);
    }
    if NOTHING.iter().any(|nothing| text.eq_ignore_ascii_case(nothing)) {
        Value::Set(Vec::new())
    } else {
        Value::Text(Text(text))
    }
}

pub(super) fn read(context: &mut Context<'_, '_, '_>, range: Range<usize>) -> Read {
    let tokens = context.tokens();
    if let Some(based) = prefixed(tokens, range.clone()) {
        return Ok(Some(Value::Based(based)));
    }
    if let Some(value) = infinity(tokens, range.clone()) {
        return Ok(Some(value));
    }
    if let Some(based) = digits_in_base(tokens, range.clone()) {
        return Ok(Some(Value::Based(based)));
    }
    Ok(time(tokens, range).map(Value::Time))
}

fn infinity(tokens: &Tokens<'_>, range: Range<usize>) -> Option<Value> {
    let mut kinds = range.map(|at| tokens.kind(at)).filter(|kind| **kind != TokenKind::Space);
    let first = kinds.next()?;
    let negative = *first == TokenKind::Symbol('-');
    let name = if negative || *first == TokenKind::Symbol('+') { kinds.next()? } else { first };
    let is_infinity = matches!(
        name,
        TokenKind::Command("infty")
            | TokenKind::Word("infinity" | "Infinity" | "inf" | "oo")
            | TokenKind::Label("infinity" | "Infinity")
    );
    (is_infinity && kinds.next().is_none()).then_some(Value::Infinite { negative })
}

/// `52_8`, `52_{8}`, `(52)_8`, `52_{\text{eight}}`
fn digits_in_base(tokens: &Tokens<'_>, range: Range<usize>) -> Option<Based> {
    let is_base = |kind: &TokenKind<'_>| matches!(kind, TokenKind::Word("base") | TokenKind::Label("base"));
    let mark = tokens.find(range.clone(), |kind| matches!(kind, TokenKind::Symbol('_')) || is_base(kind))?;
    let digits = inner(tokens, range.start..mark);
    if digits.is_empty() {
        return None;
    }
    let mut base = inner(tokens, mark + 1..range.end);
    // `725_{\\text{base }8}`
    if !base.is_empty() && is_base(tokens.kind(base.start)) {
        base = inner(tokens, base.start + 1..base.end);
    }
    if base.len() != 1 {
        return None;
    }
    if digits.len() > 1 || matches!(tokens.kind(digits.start), TokenKind::Word(_) | TokenKind::Label(_)) {
        return letters_in_base(tokens, digits, tokens.kind(base.start));
    }
    let digits = match tokens.kind(digits.start) {
        TokenKind::Numeral(numeral) if !numeral.point => numeral.integer.trim_start_matches('0').to_owned(),
        _ => return None,
    };
    let base = match tokens.kind(base.start) {
        TokenKind::Numeral(numeral) if numeral.is_digits() => base_named(&numeral.integer)?,
        TokenKind::Word(word) | TokenKind::Label(word) => base_named(word)?,
        _ => return None,
    };
    let digits = if digits.is_empty() { "0".to_owned() } else { digits };
    let is_digit = |digit: char| digit.to_digit(36).is_some_and(|digit| digit < base);
    digits.chars().all(is_digit).then_some(Based { digits, base })
}

/// `0xFF`, `0o17` and `0b101`, which are no products with zero.
fn prefixed(tokens: &Tokens<'_>, range: Range<usize>) -> Option<Based> {
    let (TokenKind::Numeral(zero), TokenKind::Word(word)) = (tokens.kind(range.start), tokens.kind(range.start + 1))
    else {
        return None;
    };
    let base = match word.as_bytes().first()? {
        b'x' => 16,
        b'o' => 8,
        b'b' => 2,
        _ => return None,
    };
    if zero.integer != "0" || zero.point {
        return None;
    }
    let mut digits = word.get(1..)?.to_uppercase();
    for at in range.start + 2..range.end {
        match tokens.kind(at) {
            TokenKind::Numeral(numeral) if numeral.is_digits() => digits.push_str(&numeral.integer),
            TokenKind::Word(word) => digits.push_str(&word.to_uppercase()),
            _ => return None,
        }
    }
    let digits = digits.trim_start_matches('0').to_owned();
    let is_digit = |digit: char| digit.to_digit(36).is_some_and(|digit| digit < base);
    (!digits.is_empty() && digits.chars().all(is_digit)).then_some(Based { digits, base })
}

/// `2A_{16}`, `ab_{16}`: digits and letters without anything between, in a base above ten.
fn letters_in_base(tokens: &Tokens<'_>, digits: Range<usize>, base: &TokenKind<'_>) -> Option<Based> {
    let TokenKind::Numeral(numeral) = base else { return None };
    let base: u32 = numeral.integer.parse().ok()?;
    let mut text = String::new();
    for at in digits {
        match tokens.kind(at) {
            TokenKind::Numeral(numeral) if numeral.is_digits() => text.push_str(&numeral.integer),
            TokenKind::Word(word) | TokenKind::Label(word) => text.push_str(word),
            _ => return None,
        }
    }
    let text = text.trim_start_matches('0').to_uppercase();
    let is_digit = |digit: char| digit.to_digit(36).is_some_and(|digit| digit < base);
    ((11..=36).contains(&base) && text.len() > 1 && text.chars().all(is_digit)).then_some(Based { digits: text, base })
}

/// The range without surrounding white space, braces and parentheses.
fn inner(tokens: &Tokens<'_>, range: Range<usize>) -> Range<usize> {
    let mut range = tokens.trimmed(range);
    while range.len() >= 3
        && matches!(tokens.kind(range.start), TokenKind::Open('('))
        && tokens.partner(range.start, range.end) == Some(range.end - 1)
    {
        range = tokens.trimmed(range.start + 1..range.end - 1);
    }
    range
}

/// `20:34`, `8:34 p.m.`, `20:34:00`
fn time(tokens: &Tokens<'_>, range: Range<usize>) -> Option<Time> {
    let is_spoken = matches!(tokens.kind(range.start + 1), TokenKind::Space);
    let mut kinds = range.map(|at| tokens.kind(at)).filter(|kind| !matches!(kind, TokenKind::Space)).peekable();
    let mut fields: Vec<&str> = Vec::with_capacity(3);
    loop {
        match kinds.next()? {
            TokenKind::Numeral(numeral) if numeral.is_digits() && numeral.integer.len() <= 2 => {
                fields.push(&numeral.integer)
            }
            _ => return None,
        }
        if kinds.peek() != Some(&&TokenKind::Symbol(':')) {
            break;
        }
        kinds.next();
    }
    let numbers: Vec<u32> = fields.iter().filter_map(|field| field.parse().ok()).collect();
    let (hour, minute, second) = match *numbers.as_slice() {
        // `2 p.m.`, but not `2pm`, a product.
        [hour] if is_spoken => (hour, 0, 0),
        [hour, minute] => (hour, minute, 0),
        [hour, minute, second] => (hour, minute, second),
        _ => return None,
    };
    if hour >= 24 || minute >= 60 || second >= 60 || fields.iter().skip(1).any(|field| field.len() != 2) {
        return None;
    }
    let suffix: String = kinds
        .map(|kind| match kind {
            TokenKind::Word(word) | TokenKind::Label(word) => word.to_lowercase(),
            TokenKind::Symbol('.') => String::new(),
            _ => "?".to_owned(),
        })
        .collect();
    let hours = match suffix.as_str() {
        "" => hour,
        "am" => hour % 12,
        "pm" => hour % 12 + 12,
        _ => return None,
    };
    let seconds = hours * 3600 + minute * 60 + second;
    let ratio = fields.iter().map(|field| Value::Number(Number::from_digits(field, "", false))).collect();
    Some(Time { seconds, ratio })
}
