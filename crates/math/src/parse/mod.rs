//! From the text of an answer to its [`Value`].
//!
//! The text is made plain (`characters`), cut into tokens (`token`, `numeral`), its brackets are paired and wrappers such as `\text{}`
//! dissolved (`structure`). Then its shape is found (`shape`): a number (`number`), a scalar expression (`scalar`), or something made of
//! these; what is nothing of the kind is kept as text in canonical spelling (`text`). Scalars are read without recursion; numbers within
//! numbers and shapes within shapes recurse, to a fixed depth.

mod characters;
mod number;
mod numeral;
mod scalar;
mod shape;
mod structure;
mod text;
mod token;

use std::borrow::Cow;

pub(crate) use characters::{fraction, plain};
use shape::Shaper;
use structure::Tokens;

use crate::{Fuel, Number, OutOfFuel, Value};

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
    /// A digit that is not read: one of another script, or with a mark on it, which is the character.
    #[error("U+{:04X}, a digit of another script or a mark on a digit", u32::from(*.0))]
    UnreadableDigit(char),
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
    let plain = plain(text)?;
    if let Cow::Owned(plain) = &plain {
        characters::readable(plain)?;
    }
    let tokens = Tokens::of(token::tokens(&plain, fuel)?)?;
    let whole = tokens.trimmed(tokens.all());
    if whole.is_empty() {
        return Err(ParseError::Empty);
    }
    Shaper { tokens: &tokens, fuel, depth: 0 }.value(whole)
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
