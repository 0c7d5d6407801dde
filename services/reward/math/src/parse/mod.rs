//! From the text of an answer to its [`Value`].
//!
//! The text is made plain (`characters`), cut into tokens (`token`, `numeral`), its brackets are paired and wrappers such as `\text{}`
//! dissolved (`structure`), and then each item between commas is read as a number (`number`) or kept as text in canonical spelling
//! (`text`). Everything is linear in the length of the answer; only numbers within numbers recurse, to a fixed
//! depth.

mod characters;
mod number;
mod numeral;
mod structure;
mod text;
mod token;

use std::ops::Range;

use crate::{Fuel, Number, OutOfFuel, Text, Value, fuel};
use structure::Tokens;

/// Why an answer cannot be read at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// It says nothing.
    #[error("the answer is empty")]
    Empty,
    /// A brace without its partner.
    #[error("a brace has no partner")]
    Unbalanced,
    /// A denominator is zero.
    #[error("a denominator is zero")]
    Undefined,
    /// A character that cannot be seen or that turns the text around.
    #[error("the hidden character U+{:04X}", u32::from(*.0))]
    HiddenCharacter(char),
    /// Reading takes too many steps.
    #[error("out of fuel")]
    OutOfFuel,
}

impl From<OutOfFuel> for ParseError {
    fn from(_: OutOfFuel) -> Self {
        Self::OutOfFuel
    }
}

/// Reads an answer.
pub fn parse(text: &str, fuel: &mut Fuel) -> Result<Value, ParseError> {
    fuel.spend(1)?;
    if let Some(integer) = small_integer(text.trim()) {
        return Ok(Value::Number(integer));
    }
    let plain = characters::plain(text)?;
    let tokens = Tokens::of(token::tokens(&plain, fuel)?)?;
    let whole = tokens.trimmed(tokens.all());
    if whole.is_empty() {
        return Err(ParseError::Empty);
    }
    match tokens.items(whole.clone()) {
        Some(items) => {
            fuel.spend(items.len().saturating_mul(fuel::ITEM))?;
            items.into_iter().map(|item| one(&tokens, item, fuel)).collect::<Result<_, _>>().map(Value::List)
        }
        None => one(&tokens, whole, fuel),
    }
}

/// One item: a number if it is one, and text otherwise.
fn one(tokens: &Tokens<'_>, range: Range<usize>, fuel: &mut Fuel) -> Result<Value, ParseError> {
    if let Some(number) = number::read(tokens, range.clone(), fuel)? {
        return Ok(Value::Number(number));
    }
    let text = text::canonical(tokens, range);
    if text.is_empty() { Err(ParseError::Empty) } else { Ok(Value::Text(Text(text))) }
}

/// The answer that most tasks have, without any of the machinery.
fn small_integer(text: &str) -> Option<Number> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_small = (1..=18).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    if !is_small {
        return None;
    }
    let number = Number::from_digits(digits, "", false);
    Some(if digits.len() < text.len() { number.negated() } else { number })
}
