//! Determines the shape of an answer: lists, relations, brackets, regions, matrices, quantities, with scalars as
//! leaves. Each level scans its tokens a fixed number of times, and the number of levels is bounded.

mod bracket;
mod compound;
mod context;
pub(super) mod designation;
mod leaf;
mod list;
mod matrix;
mod quantity;
mod region;
mod relation;
mod special;
mod unit;

use std::ops::Range;

use super::structure::Tokens;
use super::token::TokenKind;
use super::{ParseError, number, text};
use crate::{Text, Value};
pub(super) use context::Context;
pub(crate) use special::base_named;

type Read<T = Value> = Result<Option<T>, ParseError>;

/// Parses these tokens; falls back to text.
pub(super) fn value(context: &mut Context<'_, '_, '_>, range: Range<usize>) -> Result<Value, ParseError> {
    let tokens = context.tokens();
    let range = without_lead(tokens, range);
    if range.is_empty() {
        return Err(ParseError::Empty);
    }
    context.spend(4 + range.len() * 6)?;
    match context.nested(|context| shape(context, range.clone()))? {
        Some(value) => Ok(value),
        None => as_text(tokens, range),
    }
}

fn shape(context: &mut Context<'_, '_, '_>, range: Range<usize>) -> Read {
    let tokens = context.tokens();
    if designation::read(tokens, range.clone()) {
        return Ok(None);
    }
    if let Some(number) = number::read(tokens, range.clone(), context.fuel())? {
        return Ok(Some(Value::Number(number)));
    }
    if range.len() == 1 {
        // A single token cannot be composite.
        return match special::read(context, range.clone())? {
            Some(value) => Ok(Some(value)),
            None => leaf::read(context, range),
        };
    }
    if let Some(region) = region::all_except(context, range.clone())? {
        return Ok(Some(Value::Region(region)));
    }
    if let Some(value) = compound::read(context, range.clone())? {
        return Ok(Some(value));
    }
    if let Some(value) = list::read(context, range.clone())? {
        return Ok(Some(value));
    }
    item(context, range)
}

/// An item of a list.
fn item(context: &mut Context<'_, '_, '_>, range: Range<usize>) -> Read {
    if let Some(value) = relation::read(context, range.clone())? {
        return Ok(Some(value));
    }
    if let Some(value) = bracket::named_point(context, range.clone())? {
        return Ok(Some(value));
    }
    member(context, range)
}

/// One side of a relation.
fn member(context: &mut Context<'_, '_, '_>, range: Range<usize>) -> Read {
    let tokens = context.tokens();
    if let Some(number) = number::read(tokens, range.clone(), context.fuel())? {
        return Ok(Some(Value::Number(number)));
    }
    // The rest needs more than one scan.
    if let Some(value) = special::read(context, range.clone())? {
        return Ok(Some(value));
    }
    if let Some(value) = relation::ratio(context, range.clone())? {
        return Ok(Some(value));
    }
    if let Some(value) = region::read(context, range.clone())? {
        return Ok(Some(value));
    }
    if let Some(value) = bracket::read(context, range.clone())? {
        return Ok(Some(value));
    }
    if let Some(value) = matrix::read(context, range.clone())? {
        return Ok(Some(value));
    }
    quantity::read(context, range)
}

/// The range without leading signs that only announce the answer, and without a dangling end.
fn without_lead(tokens: &Tokens<'_>, range: Range<usize>) -> Range<usize> {
    let mut range = tokens.trimmed(range);
    while range.start < range.end
        && match tokens.kind(range.start) {
            TokenKind::Symbol('=' | ':' | '#' | '&')
            | TokenKind::Command("to" | "therefore" | "Rightarrow" | "implies" | "iff" | "\\") => true,
            // A decimal may be a rounded value; `\\approx 36` is not 36.
            TokenKind::Command("approx" | "sim") => {
                let first = range.clone().find_map(|at| match tokens.kind(at) {
                    TokenKind::Numeral(numeral) => Some(numeral.point),
                    _ => None,
                });
                first == Some(true)
            }
            _ => false,
        }
    {
        range = tokens.trimmed(range.start + 1..range.end);
    }
    while range.end > range.start
        && matches!(
            tokens.kind(range.end - 1),
            TokenKind::Symbol('\\' | ',' | ';' | ':' | '✓' | '✔') | TokenKind::Command("\\")
        )
    {
        range = tokens.trimmed(range.start..range.end - 1);
    }
    range
}

fn as_text(tokens: &Tokens<'_>, range: Range<usize>) -> Result<Value, ParseError> {
    let text = text::canonical(tokens, range);
    if text.is_empty() { Err(ParseError::Empty) } else { Ok(special::value_of_text(text)) }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self(text)
    }
}
