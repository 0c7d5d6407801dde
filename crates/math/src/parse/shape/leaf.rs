//! Scalars, the leaves of every shape.

use std::ops::Range;

use super::{Context, Read};
use crate::expr::{Function, Node};
use crate::parse::number;
use crate::parse::scalar::{self, PlusMinus, has_no_vowel};
use crate::parse::structure::Tokens;
use crate::parse::token::TokenKind;
use crate::unit::Unit;
use crate::{Quantity, Value};

/// A scalar; with `±` in it, both values.
pub(super) fn read(context: &mut Context<'_, '_, '_>, range: Range<usize>) -> Read {
    let tokens = context.tokens();
    if let Some(number) = number::read(tokens, range.clone(), context.fuel())? {
        return Ok(Some(Value::Number(number)));
    }
    if is_prose(tokens, range.clone()) {
        return Ok(None);
    }
    if let Some((bare, sign)) = tokens.sum_of_money(range.clone()) {
        let sum = scalar::read(&bare, range, PlusMinus::Plus, context.fuel())?;
        let quantity =
            |sum| Quantity { amount: Box::new(simple(Value::Expr(sum))), unit: Unit::currency(sign), glued: false };
        return Ok(sum.map(|sum| Value::Quantity(quantity(sum))));
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
                words += usize::from(is_word(word));
                letters += word.len();
            }
            _ => return false,
        }
    }
    words > 0 && letters != 1
}

/// Answers of up to three letters that are words and no products.
const SHORT_WORDS: [&str; 21] = [
    "no", "on", "or", "in", "if", "of", "to", "is", "it", "up", "so", "yes", "odd", "all", "any", "one", "two", "six",
    "ten", "not", "dne",
];

/// Whether letters are a word, and no product of them: `navy`, but not `mgh`, `kqQ`, `BIL`. Capitals of the start of
/// the alphabet are points or choices in their order: `ABC`.
fn is_word(word: &str) -> bool {
    if Function::at_start(word).is_some() || word == "pi" {
        return false;
    }
    let is_labels = word.len() > 2 && word.bytes().all(|byte| (b'A'..=b'H').contains(&byte));
    let is_mixed =
        word.len() < 6 && word.chars().skip(1).any(char::is_uppercase) && word.chars().any(char::is_lowercase);
    is_labels
        || (word.chars().nth(3).is_some() && !is_mixed && !has_no_vowel(word))
        || !word.is_ascii()
        || SHORT_WORDS.iter().any(|short| word.eq_ignore_ascii_case(short))
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
