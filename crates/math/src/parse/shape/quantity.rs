//! Scalars followed by a unit.

use std::ops::Range;

use dashu_ratio::RBig;

use super::{Context, Read, leaf};
use crate::expr::Function;
use crate::parse::number::magnitude;
use crate::parse::scalar::{is_letter, is_script_of_words};
use crate::parse::structure::Tokens;
use crate::parse::token::TokenKind;
use crate::unit::{MAX_WORDS, Unit};
use crate::{Magnitude, Notation, Number, Quantity, Value};

/// Most tokens of a unit.
const MAX_TOKENS: usize = 40;

/// A scalar, with or without a unit.
pub(super) fn read(context: &mut Context<'_, '_, '_>, range: Range<usize>) -> Read {
    let tokens = context.tokens();
    if let Some((amount, unit)) = split(tokens, range.clone(), context.letters_are_units) {
        // A symbol such as cm, not a word.
        let is_symbol = |at: usize| matches!(tokens.kind(at), TokenKind::Word(word) if word.len() <= 2);
        let glued = amount.end < range.end && is_symbol(amount.end);
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

/// Most parts of an amount in several units.
const MAX_PARTS: usize = 4;

/// An amount in several units of one dimension: `1 h 15 min`, `5 feet 6 inches`, `3 hours and 15 minutes`; in the first
/// of them. `None` for anything else.
pub(super) fn compound(context: &mut Context<'_, '_, '_>, range: Range<usize>) -> Read {
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
    let unit = unit(tokens, at..range.end)?;
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

/// Whether a word of Chinese or Japanese is something counted.
fn is_counter(word: &str) -> bool {
    word.starts_with(is_script_of_words) && Unit::counted(word).is_some()
}

/// Whether a plain word is something counted: no product of letters, and no function.
fn is_noun(word: &str) -> bool {
    if is_counter(word) {
        return true;
    }
    let is_lower = word.bytes().all(|byte| byte.is_ascii_lowercase());
    // `xsinx`; longer words only look like it.
    let function = |at: usize| word.get(at..).and_then(Function::at_start).is_some_and(|(_, length)| length > 2);
    let has_function = word.len() < 6 && (0..word.len()).any(function);
    word.len() > 3 && is_lower && !has_function && !is_letter(word) && Unit::counted(word).is_some()
}

/// The product of powers of units formed by all of these tokens.
fn unit(tokens: &Tokens<'_>, range: Range<usize>) -> Option<Unit> {
    let mut unit = Unit::none();
    let mut at = range.start;
    let mut inverse = false;
    let mut words = 0;
    let mut prefix = 1;
    while at < range.end {
        match tokens.kind(at) {
            TokenKind::Space | TokenKind::Command("cdot" | "times") | TokenKind::Symbol('*' | '.') => at += 1,
            TokenKind::Symbol('/') | TokenKind::Word("per") | TokenKind::Label("per" | "a" | "an") => {
                inverse = true;
                at += 1;
            }
            // `36 per cent`
            TokenKind::Label("cent" | "cents") | TokenKind::Word("cent" | "cents") if inverse => return None,
            // `20 degrees Celsius`
            TokenKind::Label("degrees" | "degree") | TokenKind::Word("degrees" | "degree")
                if is_temperature_after(tokens, at) =>
            {
                at += 1;
            }
            TokenKind::Label("square" | "sq") | TokenKind::Word("square" | "sq") => {
                prefix = 2;
                at += 1;
            }
            TokenKind::Label("cubic" | "cu") | TokenKind::Word("cubic" | "cu") => {
                prefix = 3;
                at += 1;
            }
            TokenKind::Label("of" | "the" | "in") | TokenKind::Word("of" | "the") if words > 0 => at += 1,
            TokenKind::Command("Omega") => {
                words += 1;
                unit = unit.times(&Unit::counted("ohm")?);
                at += 1;
            }
            TokenKind::Command("mu") => {
                unit = unit.times(&Unit::micro());
                at += 1;
            }
            TokenKind::Command("frac") => {
                let above = group(tokens, at + 1, range.end)?;
                let below = group(tokens, above.end + 1, range.end)?;
                at = below.end + 1;
                words += 1;
                unit = unit.times(&self::unit(tokens, above)?).times(&self::unit(tokens, below)?.power(-1)?);
            }
            TokenKind::Label(name) | TokenKind::Word(name) => {
                words += 1;
                let is_label = matches!(tokens.kind(at), TokenKind::Label(_));
                let base =
                    Unit::known(name).or_else(|| if is_label || is_noun(name) { Unit::counted(name) } else { None })?;
                at += 1;
                let exponent = exponent(tokens, &mut at, range.end)?.checked_mul(prefix)?;
                prefix = 1;
                unit = unit.times(&base.power(if inverse { -exponent } else { exponent })?);
                inverse = false;
            }
            _ => return None,
        }
    }
    (words > 0 && words <= MAX_WORDS).then_some(unit)
}

/// Whether the next word is a temperature scale.
fn is_temperature_after(tokens: &Tokens<'_>, at: usize) -> bool {
    let next = if matches!(tokens.kind(at + 1), TokenKind::Space) { at + 2 } else { at + 1 };
    match tokens.kind(next) {
        TokenKind::Word(word) | TokenKind::Label(word) => Unit::known(word).is_some_and(|unit| unit.is_temperature()),
        _ => false,
    }
}

/// The inside of the braces that open here.
fn group(tokens: &Tokens<'_>, mut at: usize, end: usize) -> Option<Range<usize>> {
    while at < end && matches!(tokens.kind(at), TokenKind::Space) {
        at += 1;
    }
    let close = if matches!(tokens.kind(at), TokenKind::GroupOpen) { tokens.partner(at, end)? } else { return None };
    Some(at + 1..close)
}

/// The exponent after a unit; 1 if there is none.
fn exponent(tokens: &Tokens<'_>, at: &mut usize, end: usize) -> Option<i64> {
    let mut next = *at;
    // `in.^2`
    while next < end && matches!(tokens.kind(next), TokenKind::Space | TokenKind::Symbol('.')) {
        next += 1;
    }
    if next >= end || !matches!(tokens.kind(next), TokenKind::Symbol('^')) {
        return Some(1);
    }
    next += 1;
    let inner = if next < end && matches!(tokens.kind(next), TokenKind::GroupOpen) {
        let close = tokens.partner(next, end)?;
        *at = close + 1;
        tokens.stripped(next + 1..close)
    } else {
        *at = next + 1;
        next..(next + 1).min(end)
    };
    let negative = !inner.is_empty() && matches!(tokens.kind(inner.start), TokenKind::Symbol('-'));
    let digits = if negative { inner.start + 1 } else { inner.start };
    match tokens.kind(digits) {
        TokenKind::Numeral(numeral) if numeral.is_digits() && digits + 1 == inner.end => {
            let exponent: i64 = numeral.integer.parse().ok()?;
            Some(if negative { -exponent } else { exponent })
        }
        _ => None,
    }
}
