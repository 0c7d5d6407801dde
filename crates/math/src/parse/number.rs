//! Numbers: integers, decimals, fractions, mixed numbers, with sign, percent and currency.

/// Unwraps a `Result<Option<_>>`, returning `Ok(None)` from the enclosing function for `None`.
macro_rules! some {
    ($read:expr) => {
        match $read {
            Some(value) => value,
            None => return Ok(None),
        }
    };
}

mod exponent;
mod fraction;
mod repeating;
mod words;

use std::ops::Range;

use dashu_ratio::RBig;

use super::ParseError;
use super::structure::Tokens;
use super::token::TokenKind;
use crate::{Fuel, Magnitude, Notation, Number};
use words::factor;
pub(super) use words::magnitude;

/// Deepest nesting of numbers: `\frac{\frac{1}{2}}{3}` has two levels. Deeper ones are text.
const MAX_DEPTH: usize = 32;

/// The number formed by these tokens. `None` if they are something else.
///
/// # Errors
/// [`ParseError::Undefined`] where a denominator is zero.
/// [`ParseError::OutOfFuel`] if it takes too many steps.
pub(super) fn read(tokens: &Tokens<'_>, range: Range<usize>, fuel: &mut Fuel) -> Read {
    nested(tokens, range, 0, fuel)
}

fn nested(tokens: &Tokens<'_>, range: Range<usize>, depth: usize, fuel: &mut Fuel) -> Read {
    if depth == MAX_DEPTH {
        return Ok(None);
    }
    let range = unwrapped(tokens, range);
    NumberReader { tokens, at: range.start, end: range.end, digit: 0, depth, fuel }.number()
}

/// The range without enclosing braces and parentheses, however many.
fn unwrapped(tokens: &Tokens<'_>, range: Range<usize>) -> Range<usize> {
    let mut range = tokens.stripped(range);
    while range.len() >= 3
        && matches!(tokens.kind(range.start), TokenKind::GroupOpen | TokenKind::Open('('))
        && tokens.partner(range.start, range.end) == Some(range.end - 1)
        && matches!(tokens.kind(range.end - 1), TokenKind::GroupClose | TokenKind::Close(')'))
    {
        range = tokens.stripped(range.start + 1..range.end - 1);
    }
    range
}

/// A cursor over the tokens of one number.
struct NumberReader<'t, 'a, 'f> {
    tokens: &'t Tokens<'a>,
    fuel: &'f mut Fuel,
    at: usize,
    end: usize,
    /// Digits of the numeral at `at` that are consumed already: `\frac12` takes two digits of one numeral.
    digit: usize,
    depth: usize,
}

type Read<T = Number> = Result<Option<T>, ParseError>;

impl<'t, 'a> NumberReader<'t, 'a, '_> {
    fn number(&mut self) -> Read {
        let mut currency = None;
        let negative = some!(self.signs(&mut currency));
        let mut number = some!(self.operand()?);
        if self.slash() {
            let negative = some!(self.signs(&mut None));
            let denominator = some!(self.operand()?);
            let quotient = some!(self.quotient(&number, &denominator)?);
            number = if negative { quotient.negated() } else { quotient };
        } else if let Some(exponent) = self.exponent() {
            number = some!(number.shifted(exponent));
        } else if number.notation == Notation::Integer
            && let Some(part) = self.proper_fraction()?
        {
            number = some!(sum(&number, &part));
        }
        if !number.is_bare() {
            return Ok(None);
        }
        self.spaces();
        if let Some(TokenKind::Word(word) | TokenKind::Label(word)) = self.peek()
            && let Some(zeros) = magnitude(word)
        {
            number = some!(number.shifted(zeros));
            self.at += 1;
            self.spaces();
        } else if let Some(TokenKind::Word(word) | TokenKind::Label(word)) = self.peek()
            && number.notation == Notation::Integer
            && let Some((above, below)) = factor(word)
        {
            let value = some!(number.exact()) * RBig::from_parts(above.into(), below.into());
            let notation = if value.is_int() { Notation::Integer } else { Notation::Fraction };
            number = Number::plain(Magnitude::Exact(value), notation);
            self.at += 1;
            self.spaces();
        }
        // `12\\text{th}`
        if number.notation == Notation::Integer
            && matches!(self.peek(), Some(TokenKind::Label("st" | "nd" | "rd" | "th")))
        {
            self.at += 1;
            self.spaces();
        }
        loop {
            match self.peek() {
                Some(
                    TokenKind::Percent
                    | TokenKind::Word("percent" | "percentage" | "pct")
                    | TokenKind::Label("percent" | "percentage" | "pct"),
                ) if !number.percent && currency.is_none() => {
                    number.percent = true;
                }
                Some(TokenKind::Currency(sign)) if currency.is_none() && !number.percent => currency = Some(*sign),
                _ => break,
            }
            self.at += 1;
            self.spaces();
        }
        if self.at < self.end {
            return Ok(None);
        }
        number.currency = currency;
        Ok(Some(if negative { number.negated() } else { number }))
    }

    fn peek(&self) -> Option<&'t TokenKind<'a>> {
        (self.at < self.end).then(|| self.tokens.kind(self.at))
    }

    /// Consumes a slash and the white space before it. `false`, consuming nothing, if there is none.
    fn slash(&mut self) -> bool {
        let start = self.at;
        self.spaces();
        let is_slash = matches!(self.peek(), Some(TokenKind::Symbol('/')));
        self.at = if is_slash { self.at + 1 } else { start };
        is_slash
    }

    fn spaces(&mut self) {
        while matches!(self.peek(), Some(TokenKind::Space)) {
            self.at += 1;
        }
    }

    /// Signs before an operand, and at most one currency sign. `None` if there are two.
    fn signs(&mut self, currency: &mut Option<char>) -> Option<bool> {
        let mut negative = false;
        loop {
            match self.peek() {
                Some(TokenKind::Symbol('-')) => negative = !negative,
                Some(TokenKind::Symbol('+') | TokenKind::Space) => {}
                Some(TokenKind::Word("minus" | "negative") | TokenKind::Label("minus" | "negative")) => {
                    negative = !negative
                }
                Some(TokenKind::Currency(sign)) => {
                    if currency.replace(*sign).is_some() {
                        return None;
                    }
                }
                Some(TokenKind::Word("USD") | TokenKind::Label("USD")) => {
                    if currency.replace('$').is_some() {
                        return None;
                    }
                }
                // `US\\$24`
                Some(TokenKind::Word("US") | TokenKind::Label("US"))
                    if self.tokens.kind(self.at + 1) == &TokenKind::Currency('$') => {}
                _ => return Some(negative),
            }
            self.at += 1;
        }
    }

    /// A numeral, a fraction, or a number in brackets.
    fn operand(&mut self) -> Read {
        if let Some(repeating) = self.repeating()? {
            return Ok(Some(repeating));
        }
        match self.peek() {
            Some(TokenKind::Numeral(numeral)) => {
                let integer = &numeral.integer;
                let fraction = numeral.fraction;
                self.fuel.spend(1 + (integer.len() + fraction.len()) / 4)?;
                let number = Number::from_digits(integer, fraction, numeral.point);
                self.at += 1;
                Ok(Some(number))
            }
            Some(TokenKind::Command("frac")) => self.fraction(),
            Some(TokenKind::GroupOpen | TokenKind::Open('(')) => {
                // A bracketed number is not part of a mixed number.
                let number = some!(self.group()?);
                let notation = if number.notation == Notation::Integer { Notation::Fraction } else { number.notation };
                Ok(Some(Number { notation, ..number }))
            }
            _ => Ok(None),
        }
    }

    /// `0.\overline{27}`, `0.1\dot{6}`, `0.(6)`, `0.666...`. `None`, consuming nothing, for anything else.
    fn repeating(&mut self) -> Read {
        let start = self.at;
        let found = repeating::read(self.tokens, self.at..self.end);
        let Some(repeating::Decimal { integer, fixed, period, end }) = found else {
            self.at = start;
            return Ok(None);
        };
        self.fuel.spend(1 + (integer.len() + fixed.len() + period.len()) / 4)?;
        self.at = end;
        Ok(Some(repeating::value(&integer, &fixed, &period)))
    }

    /// The number in the brackets that open here.
    fn group(&mut self) -> Read {
        let close = some!(self.tokens.partner(self.at, self.end));
        if !matches!(self.tokens.kind(close), TokenKind::GroupClose | TokenKind::Close(')')) {
            return Ok(None);
        }
        let inner = self.at + 1..close;
        self.at = close + 1;
        nested(self.tokens, inner, self.depth + 1, self.fuel)
    }
}

/// The value of a mixed number, whole plus part.
fn sum(whole: &Number, part: &Number) -> Option<Number> {
    let (Magnitude::Exact(whole), Magnitude::Exact(part)) = (&whole.magnitude, &part.magnitude) else { return None };
    Some(Number::plain(Magnitude::Exact(whole + part), Notation::Fraction))
}

#[cfg(test)]
mod tests;
