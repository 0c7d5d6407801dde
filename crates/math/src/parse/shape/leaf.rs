//! Scalars, the leaves of every shape.

use std::ops::Range;

use super::{Context, Read};
use crate::Value;
use crate::expr::{Function, Node};
use crate::parse::number;
use crate::parse::scalar::{self, PlusMinus};
use crate::parse::structure::Tokens;
use crate::parse::token::TokenKind;

/// A scalar; with `±` in it, both values.
pub(super) fn read(context: &mut Context<'_, '_, '_>, range: Range<usize>) -> Read {
    let tokens = context.tokens();
    if let Some(number) = number::read(tokens, range.clone(), context.fuel())? {
        return Ok(Some(Value::Number(number)));
    }
    if is_prose(tokens, range.clone()) {
        return Ok(None);
    }
    let Some(plus) = scalar::read(tokens, range.clone(), PlusMinus::Plus, context.fuel())? else { return Ok(None) };
    let is_both = range.clone().any(|at| matches!(tokens.kind(at), TokenKind::Command("pm" | "mp")));
    if !is_both {
        return Ok(Some(simple(Value::Expr(plus))));
    }
    let Some(minus) = scalar::read(tokens, range, PlusMinus::Minus, context.fuel())? else { return Ok(None) };
    Ok(Some(Value::List(vec![simple(Value::Expr(plus)), simple(Value::Expr(minus))])))
}

/// Whether the range is words only: `navy` is not a product of letters, and neither is the content of a `\text{}`.
fn is_prose(tokens: &Tokens<'_>, range: Range<usize>) -> bool {
    let mut words = 0;
    let mut letters = 0;
    for at in range {
        match tokens.kind(at) {
            TokenKind::Space | TokenKind::Symbol('.' | '-' | '\'') => {}
            TokenKind::Label(label) if label.chars().nth(1).is_some() => words += 2,
            TokenKind::Label(_) => {}
            TokenKind::Word(word) => {
                words += usize::from(
                    (word.len() > 2 || is_short_word(word)) && Function::at_start(word).is_none() && *word != "pi",
                );
                letters += word.len();
            }
            _ => return false,
        }
    }
    words > 0 && letters != 1
}

/// Two-letter words that are unlikely to be products.
fn is_short_word(word: &str) -> bool {
    ["no", "on", "or", "in", "if", "of", "to", "is", "it", "up", "so"]
        .iter()
        .any(|short| word.eq_ignore_ascii_case(short))
}

/// An expression of a single number is a number.
fn simple(value: Value) -> Value {
    match value {
        Value::Expr(expr) => match expr.root() {
            Node::Literal(number) if expr.len() == 1 => Value::Number(number.clone()),
            _ => Value::Expr(expr),
        },
        value => value,
    }
}
