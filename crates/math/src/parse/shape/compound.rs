//! Amounts in several units of one dimension: `1 h 15 min`, `5 feet 6 inches`.

use std::ops::Range;

use dashu_ratio::RBig;

use super::quantity::MAX_TOKENS;
use super::{Context, Read};
use crate::parse::token::TokenKind;
use crate::unit::Unit;
use crate::{Magnitude, Notation, Number, Quantity, Value};

/// Most parts of an amount in several units.
const MAX_PARTS: usize = 4;

/// An amount in several units of one dimension: `1 h 15 min`, `5 feet 6 inches`, `3 hours and 15 minutes`; in the first
/// of them. `None` for anything else.
pub(super) fn read(context: &mut Context<'_, '_, '_>, range: Range<usize>) -> Read {
    let tokens = context.tokens();
    let unit_of = |at: usize| match tokens.kind(at) {
        TokenKind::Word(word) | TokenKind::Label(word) => Unit::known(word),
        _ => None,
    };
    let is_numeral = |at: usize| matches!(tokens.kind(at), TokenKind::Numeral(_));
    let is_part = |at: usize| {
        is_numeral(at)
            || matches!(
                tokens.kind(at),
                TokenKind::Space | TokenKind::Symbol('.') | TokenKind::Word(_) | TokenKind::Label(_)
            )
    };
    let is_candidate = is_numeral(range.start)
        && range.len() <= MAX_TOKENS
        && range.clone().skip(1).any(is_numeral)
        && range.clone().all(is_part);
    if !is_candidate {
        return Ok(None);
    }
    let mut parts: Vec<(RBig, Unit)> = Vec::new();
    let mut number = None;
    for at in range.clone() {
        match (tokens.kind(at), &number) {
            (TokenKind::Space | TokenKind::Word("and") | TokenKind::Label("and"), None) => {}
            (TokenKind::Space | TokenKind::Symbol('.'), Some(_)) => {}
            (TokenKind::Numeral(numeral), None) => {
                number = Number::from_digits(&numeral.integer, numeral.fraction, numeral.point).exact().cloned();
                if number.is_none() {
                    return Ok(None);
                }
            }
            (_, Some(_)) => match (number.take(), unit_of(at)) {
                (Some(amount), Some(unit)) if parts.len() < MAX_PARTS => parts.push((amount, unit)),
                _ => return Ok(None),
            },
            _ => return Ok(None),
        }
    }
    let Some((first, rest)) = parts.split_first().filter(|(_, rest)| !rest.is_empty() && number.is_none()) else {
        return Ok(None);
    };
    // From large to small: `2 m 3 km` is no amount.
    let descends = parts.windows(2).all(|pair| match pair {
        [(_, large), (_, small)] => large.has_dimensions_of(small) && large.factor() > small.factor(),
        _ => false,
    });
    if !descends {
        return Ok(None);
    }
    context.spend(parts.len() * 8)?;
    let sum = rest.iter().fold(first.0.clone(), |sum, (amount, unit)| sum + amount * unit.factor() / first.1.factor());
    let notation = if sum.is_int() { Notation::Integer } else { Notation::Fraction };
    let amount = Value::Number(Number::plain(Magnitude::Exact(sum), notation));
    Ok(Some(Value::Quantity(Quantity { amount: Box::new(amount), unit: first.1.clone(), glued: false })))
}
