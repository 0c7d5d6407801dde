//! Scalars followed by a unit.

use std::ops::Range;

use super::unit::{is_counter, is_noun, unit_of};
use super::{Context, Read, designation, leaf};
use crate::expr::Function;
use crate::parse::number::magnitude;
use crate::parse::structure::Tokens;
use crate::parse::token::TokenKind;
use crate::unit::Unit;
use crate::{Quantity, Value};

/// Most tokens of a unit.
pub(super) const MAX_TOKENS: usize = 40;

/// A scalar, with or without a unit.
pub(super) fn read(context: &mut Context<'_, '_, '_>, range: Range<usize>) -> Read {
    let tokens = context.tokens();
    if let Some((amount, unit)) = split(tokens, range.clone(), context.letters_are_units) {
        // A symbol such as cm, not a word.
        let is_symbol = |at: usize| matches!(tokens.kind(at), TokenKind::Word(word) if word.len() <= 2);
        let glued = amount.end < range.end && is_symbol(amount.end);
        // `30-60-90 triangle`
        if designation::read(tokens, amount.clone())
            || !unit.is_none() && designation::is_range_of_unit(tokens, amount.clone())
        {
            return Ok(None);
        }
        let value = leaf::read(context, amount.clone())?;
        // `2 a m` is a product of letters: a letter or symbol outside of a text is the unit of a number only.
        let is_plain = (amount.end..range.end).any(|at| matches!(tokens.kind(at), TokenKind::Word(_)));
        let value = value.filter(|amount| !is_plain || is_closed(amount));
        if let Some(amount) = value {
            if unit.is_none() {
                return Ok(Some(amount));
            }
            return Ok(Some(Value::Quantity(Quantity { amount: Box::new(amount), unit, glued })));
        }
    }
    if let Some(value) = leaf::read(context, range.clone())? {
        return Ok(Some(value));
    }
    money(context, range)
}

fn is_closed(amount: &Value) -> bool {
    match amount {
        Value::Expr(expr) => expr.is_closed(),
        amount => matches!(amount, Value::Number(_)),
    }
}

/// A scalar with a currency sign.
fn money(context: &mut Context<'_, '_, '_>, range: Range<usize>) -> Read {
    let tokens = context.tokens();
    if range.len() < 2 {
        return Ok(None);
    }
    let (sign, amount) = match (tokens.kind(range.start), tokens.kind(range.end - 1)) {
        (TokenKind::Currency(sign), _) => (*sign, range.start + 1..range.end),
        (_, TokenKind::Currency(sign)) => (*sign, range.start..range.end - 1),
        _ => return Ok(None),
    };
    let amount = tokens.stripped(amount);
    if amount.is_empty() {
        return Ok(None);
    }
    Ok(match leaf::read(context, amount)? {
        Some(amount @ (Value::Number(_) | Value::Expr(_))) => {
            Some(Value::Quantity(Quantity { amount: Box::new(amount), unit: Unit::currency(sign), glued: false }))
        }
        _ => None,
    })
}

/// Splits the range into amount and unit.
fn split(tokens: &Tokens<'_>, range: Range<usize>, letters: bool) -> Option<(Range<usize>, Unit)> {
    let begins = |at: usize| match tokens.kind(at) {
        // `2\mathrm{e}` is a product, `5\text{ m}` a length.
        TokenKind::Label(label) if label.chars().nth(1).is_none() => {
            Unit::known(label).or_else(|| Unit::counted(label)).is_some()
        }
        TokenKind::Label(label) => {
            magnitude(label).is_none() && (Function::named(label).is_none() || Unit::known(label).is_some())
        }
        // `5^\circ C`
        TokenKind::Word("C" | "F") if ends_with_circle(tokens, tokens.stripped(range.start..at)) => true,
        TokenKind::Word(word) if is_counter(word) => true,
        // A single letter is a variable unless it is in a text.
        TokenKind::Word(word) if word.chars().nth(1).is_none() => {
            letters
                && at > range.start
                && matches!(tokens.kind(at - 1), TokenKind::Space)
                && Unit::known(word).is_some()
        }
        TokenKind::Word("square" | "cubic") => true,
        TokenKind::Word(word) => {
            let counts = |at: usize| matches!(tokens.kind(at), TokenKind::Numeral(_) | TokenKind::Command("frac"));
            let is_counted = || is_noun(word) && (range.start..at).any(counts);
            magnitude(word).is_none() && (Unit::known(word).is_some() || is_counted())
        }
        TokenKind::Command("Omega" | "mu") => {
            letters && at > range.start && matches!(tokens.kind(at - 1), TokenKind::Space)
        }
        TokenKind::Command("frac") => {
            let inner = tokens.stripped(at + 2..range.end);
            let open = tokens.stripped(at + 1..range.end).start;
            at > range.start
                && matches!(tokens.kind(open), TokenKind::GroupOpen)
                && matches!(tokens.kind(inner.start), TokenKind::Label(label) if Unit::known(label).is_some())
        }
        _ => false,
    };
    let floor = range.end.saturating_sub(MAX_TOKENS).max(range.start + 1);
    let at = (floor..range.end).find(|at| begins(*at))?;
    // `36 second` may be an ordinal, `1 second` is a time.
    let is_one = matches!(tokens.kind(at.saturating_sub(1)), TokenKind::Numeral(n) if n.integer == "1")
        || matches!(tokens.kind(at.saturating_sub(2)), TokenKind::Numeral(n) if n.integer == "1");
    if matches!(tokens.kind(at), TokenKind::Label("second") | TokenKind::Word("second")) && !is_one {
        return None;
    }
    // Within brackets it is not the unit of the whole.
    tokens.find(range.clone(), |kind| std::ptr::eq(kind, tokens.kind(at)))?;
    let unit = unit_of(tokens, at..range.end)?;
    let mut amount = tokens.stripped(range.start..at);
    // `1950^\circ C` is a temperature, not an angle.
    if ends_with_circle(tokens, amount.clone()) && unit.is_temperature() {
        amount = tokens.stripped(amount.start..circle_start(tokens, amount)?);
    }
    // `a parabola`
    let is_article = tokens.is_word(amount.clone(), &["a", "an", "the"]);
    (!amount.is_empty() && !is_article).then_some((amount, unit))
}

fn ends_with_circle(tokens: &Tokens<'_>, amount: Range<usize>) -> bool {
    circle_start(tokens, amount).is_some()
}

/// The start of a final `^\circ`.
fn circle_start(tokens: &Tokens<'_>, amount: Range<usize>) -> Option<usize> {
    let last = |back: usize| amount.end.checked_sub(back).filter(|at| *at >= amount.start).map(|at| tokens.kind(at));
    let is_circle = |kind: Option<&TokenKind<'_>>| matches!(kind, Some(TokenKind::Command("circ" | "degree")));
    let is_power = |kind: Option<&TokenKind<'_>>| kind == Some(&TokenKind::Symbol('^'));
    if is_circle(last(1)) && is_power(last(2)) {
        return Some(amount.end - 2);
    }
    let braced =
        last(1) == Some(&TokenKind::GroupClose) && is_circle(last(2)) && last(3) == Some(&TokenKind::GroupOpen);
    (braced && is_power(last(4))).then(|| amount.end - 4)
}
