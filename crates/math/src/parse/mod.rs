//! Parses the text of an answer into a [`Value`].
//!
//! The text is normalised (`characters`) and tokenised (`token`, `numeral`), brackets are paired and wrappers such as
//! `\text{}` removed (`structure`). Then its shape is determined (`shape`): a number (`number`), a scalar expression
//! (`scalar`), or a composite of these; anything else is kept as text in canonical spelling (`text`). Scalars are
//! parsed without recursion; nested numbers and nested shapes recurse to a fixed depth.

mod characters;
mod number;
mod numeral;
mod scalar;
mod shape;
mod spoken;
mod structure;
mod text;
mod token;

use std::borrow::Cow;
use std::ops::Range;

pub(crate) use characters::{fraction, plain};
pub(crate) use shape::base_named;
use spoken::Offer;
use structure::Tokens;

use crate::words::Known;
use crate::{Fuel, Number, OutOfFuel, Relation, Sign, Value};

/// Why an answer cannot be parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// A text without an answer in it.
    #[error("the answer is empty")]
    Empty,
    /// A brace without its partner.
    #[error("unmatched brace")]
    Unbalanced,
    /// A denominator is zero.
    #[error("a denominator is zero")]
    Undefined,
    /// An invisible character, or one that changes the direction of text.
    #[error("the hidden character U+{:04X}", u32::from(*.0))]
    HiddenCharacter(char),
    /// A digit of an unsupported script, or a combining mark on a digit.
    #[error("U+{:04X}, a digit of another script or a combining mark on a digit", u32::from(*.0))]
    UnreadableDigit(char),
    /// Parsing exceeds the steps of the check.
    #[error("out of fuel")]
    OutOfFuel,
}

impl From<OutOfFuel> for ParseError {
    fn from(_: OutOfFuel) -> Self {
        Self::OutOfFuel
    }
}

/// Parses the text of an answer.
pub fn parse(text: &str, fuel: &mut Fuel) -> Result<Value, ParseError> {
    fuel.spend(1)?;
    if let Some(integer) = small_integer(text.trim()) {
        return Ok(Value::Number(integer));
    }
    let plain = plain(text)?;
    if let Cow::Owned(plain) = &plain {
        characters::readable(plain)?;
    }
    let tokens = Tokens::of(token::tokens(&plain, fuel)?)?;
    let whole = tokens.trimmed(tokens.all());
    if whole.is_empty() {
        return Err(ParseError::Empty);
    }
    shape::value(&mut shape::Context::new(&tokens, fuel), whole)
}

/// Whether words are all that a text is: the name of a value, such as `The area`.
pub(crate) fn names_a_value(text: &str, known: &Known) -> bool {
    spoken::is_lead(text, known)
}

/// Other readings of an answer, for where the first one is text: without the words of the table around it (`36 apples
/// altogether`). Empty where other words stand there.
pub(crate) fn reading(text: &str, side: Side, known: &Known, fuel: &mut Fuel) -> Vec<Value> {
    let mut found = Vec::new();
    let Ok(plain) = plain(text) else { return found };
    if matches!(plain, Cow::Owned(_)) && characters::readable(&plain).is_err() {
        return found;
    }
    let Ok(tokens) = token::tokens(&plain, fuel).map_err(ParseError::from).and_then(Tokens::of) else { return found };
    let whole = tokens.trimmed(tokens.all());
    // A gold answer may be a rounded value.
    let rounded = (side == Side::Gold
        && matches!(tokens.kind(whole.start), token::TokenKind::Command("approx" | "sim")))
    .then(|| (tokens.trimmed(whole.start + 1..whole.end), None));
    let Some((formula, offer)) = rounded.or_else(|| spoken::formula(&tokens, known)) else { return found };
    let read = |range: Range<usize>, fuel: &mut Fuel| {
        shape::value(&mut shape::Context::new(&tokens, fuel), range)
            .ok()
            .filter(|value| !matches!(value, Value::Text(_)))
    };
    let Some(value) = read(formula, fuel) else { return found };
    match (offer, side) {
        (None, _) | (Some(Offer::Rounded(_) | Offer::Denied(_)), Side::Gold) => found.push(value),
        (Some(Offer::Other(range)), Side::Gold) => {
            found.push(value);
            found.extend(read(range, fuel));
        }
        // `36 (or 37)` gives two answers, which must be the same.
        (Some(Offer::Other(range)), Side::Answer) => {
            found.extend(
                read(range, fuel).map(|other| if other == value { other } else { Value::List(vec![value, other]) }),
            );
        }
        (Some(Offer::Rounded(range)), Side::Answer) => {
            let chain = |rounded| Relation { members: vec![value, rounded], signs: vec![Sign::Approximately] };
            found.extend(read(range, fuel).map(|rounded| Value::Relation(chain(rounded))));
        }
        (Some(Offer::Denied(range)), Side::Answer) => {
            let is_other = |denied: &Value| matches!((denied, &value), (Value::Number(a), Value::Number(b)) if a.exact() != b.exact());
            if read(range, fuel).is_some_and(|denied| is_other(&denied)) {
                found.push(value);
            }
        }
    }
    found
}

/// Whether a text is two numbers that a dash joins, with spaces around it or without: `1-2`, `\$5 - \$6`.
pub(crate) fn is_range(text: &str, fuel: &mut Fuel) -> bool {
    let Ok(plain) = plain(text) else { return false };
    let Ok(tokens) = token::tokens(&plain, fuel).map_err(ParseError::from).and_then(Tokens::of) else { return false };
    shape::designation::is_range_of_unit(&tokens, tokens.trimmed(tokens.all()))
}

/// Whether a text gives values of which one is meant: `2 or 3`.
pub(crate) fn offers_alternatives(text: &str, fuel: &mut Fuel) -> bool {
    let Ok(plain) = plain(text) else { return false };
    let Ok(tokens) = token::tokens(&plain, fuel).map_err(ParseError::from).and_then(Tokens::of) else { return false };
    tokens.all().any(|at| tokens.kind(at).is_or())
}

/// The reading with a last single letter after a number and a space as a unit: `36 s`. `None` without such a letter.
pub(crate) fn with_letter_as_unit(text: &str, fuel: &mut Fuel) -> Option<Value> {
    let plain = plain(text).ok()?;
    let tokens = Tokens::of(token::tokens(&plain, fuel).ok()?).ok()?;
    let mut context = shape::Context::new(&tokens, fuel);
    context.letters_are_units = true;
    let value = shape::value(&mut context, tokens.trimmed(tokens.all())).ok()?;
    value.any(&mut |part| matches!(part, Value::Quantity(_))).then_some(value)
}

/// Whose answer is read: a gold answer may offer a second notation, `0.75 (or 3/4)`, of which either is right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Gold,
    Answer,
}

/// A fast path for the most common answer.
pub(crate) fn small_integer(text: &str) -> Option<Number> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_small = (1..=18).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    if !is_small {
        return None;
    }
    let number = Number::from_digits(digits, "", false);
    Some(if digits.len() < text.len() { number.negated() } else { number })
}
