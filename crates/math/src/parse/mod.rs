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
mod words;

use std::borrow::Cow;
use std::ops::Range;

pub(crate) use characters::{fraction, plain};
use spoken::Offer;
use structure::Tokens;

use crate::{Fuel, Number, OutOfFuel, Relation, Sign, Value};

/// Why an answer cannot be parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// It is empty.
    #[error("the answer is empty")]
    Empty,
    /// An unmatched brace.
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

/// Parses an answer.
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

/// Other readings of an answer, for where the first one is not equal: without words around it (`36 apples left`), and
/// with single letters after a number as units (`36 s`). Empty for formulas without either.
pub(crate) fn reading(text: &str, side: Side, fuel: &mut Fuel) -> Vec<Value> {
    let mut found = Vec::new();
    if !may_have_words(text) {
        return found;
    }
    let Ok(plain) = plain(text) else { return found };
    if matches!(plain, Cow::Owned(_)) && characters::readable(&plain).is_err() {
        return found;
    }
    let Ok(tokens) = token::tokens(&plain, fuel).map_err(ParseError::from).and_then(Tokens::of) else { return found };
    let (formula, offer) = spoken::formula(&tokens).unwrap_or_else(|| (tokens.trimmed(tokens.all()), None));
    let read = |range: Range<usize>, fuel: &mut Fuel| {
        let mut context = shape::Context::new(&tokens, fuel);
        context.letters_are_units = true;
        match shape::value(&mut context, range) {
            Ok(Value::Text(_)) | Err(_) => None,
            Ok(value) => Some(value),
        }
    };
    let Some(value) = (!formula.is_empty()).then(|| read(formula, fuel)).flatten() else { return found };
    match (offer, side) {
        (None, _) | (Some(Offer::Rounded(_)), Side::Gold) => found.push(value),
        (Some(Offer::Other(range)), Side::Gold) => {
            found.push(value);
            found.extend(read(range, fuel));
        }
        // `36 (or 37)` gives two answers, which must be the same.
        (Some(Offer::Other(range)), Side::Answer) => {
            found.extend(read(range, fuel).map(|other| Value::List(vec![value, other])));
        }
        (Some(Offer::Rounded(range)), Side::Answer) => {
            let chain = |rounded| Relation { members: vec![value, rounded], signs: vec![Sign::Approximately] };
            found.extend(read(range, fuel).map(|rounded| Value::Relation(chain(rounded))));
        }
    }
    found
}

/// Whose answer is read: a gold answer may offer a second notation, `0.75 (or 3/4)`, of which either is right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Gold,
    Answer,
}

/// Whether a text has anything but a formula: words, a single letter after a space that may be a unit, or marks around
/// it.
fn may_have_words(text: &str) -> bool {
    // Also of TeX: `36\\,s`, `36\\ s`, `36~s`.
    let is_space = |c: char| c.is_whitespace() || matches!(c, '~' | ',' | ';' | ':' | '!' | '>');
    let mut before = ' ';
    let mut letters = 0;
    let mut is_command = false;
    let mut after_number = false;
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            '"' | '*' | '`' | '#' | '_' if before.is_whitespace() || rest.as_str().is_empty() => return true,
            '\'' if letters == 0 => return true,
            'a'..='z' | 'A'..='Z' => {
                (letters, is_command) = if letters == 0 { (1, before == '\\') } else { (letters + 1, is_command) };
                let ends = !rest.as_str().starts_with(|c: char| c.is_ascii_alphabetic());
                if !is_command && (letters > 1 || (after_number && is_space(before))) {
                    return true;
                }
                if is_command && ends {
                    let read = text.len() - rest.as_str().len();
                    let name = text.get(read - letters..read).unwrap_or_default();
                    match name {
                        "text" | "textbf" | "textit" | "textrm" | "mbox" | "hbox" | "mathrm" | "operatorname"
                        | "approx" | "Omega" | "mu" => return true,
                        // Names of environments are no words.
                        "ldots" | "dots" | "cdots" => return true,
                        "begin" | "end" => {
                            rest = rest.as_str().split_once('}').map_or(rest.as_str(), |(_, rest)| rest).chars();
                        }
                        _ => {}
                    }
                    letters = 0;
                }
                after_number &= letters == 0;
            }
            c if !c.is_ascii() && c.is_alphabetic() => return true,
            c => {
                letters = 0;
                after_number =
                    c.is_ascii_digit() || c == '}' || (after_number && (is_space(c) || matches!(c, '/' | '\\')));
            }
        }
        before = c;
    }
    false
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
