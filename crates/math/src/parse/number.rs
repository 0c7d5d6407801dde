//! Numbers: integers, decimals, fractions, mixed numbers, with sign, percent and currency.

use std::ops::Range;

use dashu_ratio::RBig;

mod repeating;

use super::ParseError;
use super::structure::Tokens;
use super::token::TokenKind;
use crate::slicing::SafeSlice;
use crate::{Fuel, Magnitude, Notation, Number};

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

/// Unwraps a `Result<Option<_>>`, returning `Ok(None)` from the enclosing function for `None`.
macro_rules! some {
    ($read:expr) => {
        match $read {
            Some(value) => value,
            None => return Ok(None),
        }
    };
}

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
                ) if !number.percent => {
                    number.percent = true;
                }
                Some(TokenKind::Currency(sign)) if currency.is_none() => currency = Some(*sign),
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

    /// The power of ten after a numeral: `\\times 10^{-3}`, `* 10^3`, `e-3`. `None`, consuming nothing, if there is
    /// none.
    fn exponent(&mut self) -> Option<i64> {
        let start = self.at;
        let exponent = self.times_power().or_else(|| {
            self.at = start;
            self.letter_exponent()
        });
        if exponent.is_none() {
            self.at = start;
        }
        exponent
    }

    fn times_power(&mut self) -> Option<i64> {
        self.spaces();
        match self.peek()? {
            TokenKind::Command("times" | "cdot") | TokenKind::Symbol('*') => self.at += 1,
            // `1.5 x 10^3`
            TokenKind::Word("x" | "X") | TokenKind::Label("x" | "X") => self.at += 1,
            _ => return None,
        }
        self.spaces();
        let ten = matches!(self.peek()?, TokenKind::Numeral(numeral) if numeral.is_digits() && numeral.integer == "10");
        self.at += 1;
        if !ten || self.peek() != Some(&TokenKind::Symbol('^')) {
            return None;
        }
        self.at += 1;
        self.spaces();
        if self.peek()? != &TokenKind::GroupOpen {
            return self.signed_digits();
        }
        let close = self.tokens.partner(self.at, self.end)?;
        self.at += 1;
        let exponent = self.signed_digits()?;
        self.spaces();
        (self.at == close).then(|| {
            self.at += 1;
            exponent
        })
    }

    /// `e3` and `E-3` directly after the digits.
    fn letter_exponent(&mut self) -> Option<i64> {
        // `4.7\\mathrm{e}6` has white space where its braces were.
        if !matches!(self.peek()?, TokenKind::Word("e" | "E")) {
            self.spaces();
            if !matches!(self.peek()?, TokenKind::Label("e" | "E")) {
                return None;
            }
        }
        self.at += 1;
        self.signed_digits()
    }

    fn signed_digits(&mut self) -> Option<i64> {
        self.spaces();
        let negative = self.peek()? == &TokenKind::Symbol('-');
        if negative || self.peek()? == &TokenKind::Symbol('+') {
            self.at += 1;
        }
        match self.peek()? {
            TokenKind::Numeral(numeral) if numeral.is_digits() && numeral.integer.len() <= 4 => {
                self.at += 1;
                let exponent: i64 = numeral.integer.parse().ok()?;
                Some(if negative { -exponent } else { exponent })
            }
            _ => None,
        }
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

    /// `\frac` with its arguments.
    fn fraction(&mut self) -> Read {
        self.at += 1;
        let numerator = some!(self.argument()?);
        let denominator = some!(self.argument()?);
        // `\frac123` is a product.
        if self.digit > 0 { Ok(None) } else { self.quotient(&numerator, &denominator) }
    }

    /// A TeX argument: a group or a single digit.
    fn argument(&mut self) -> Read {
        self.spaces();
        match self.peek() {
            Some(TokenKind::GroupOpen) => self.group(),
            Some(TokenKind::Numeral(numeral)) if numeral.is_digits() => {
                let digit = Number::from_digits(numeral.integer.slice(self.digit..self.digit + 1), "", false);
                let is_last = self.digit + 1 == numeral.integer.len();
                (self.at, self.digit) = if is_last { (self.at + 1, 0) } else { (self.at, self.digit + 1) };
                Ok(Some(digit))
            }
            _ => Ok(None),
        }
    }

    /// The fraction of a mixed number, below 1 and of integers: `\frac12`, or ` 1/2` after a space. `None`, consuming
    /// nothing, if there is none.
    fn proper_fraction(&mut self) -> Read {
        let start = self.at;
        self.spaces();
        let part = match self.peek() {
            Some(TokenKind::Command("frac")) => {
                self.at += 1;
                self.arguments()?
            }
            Some(TokenKind::Numeral(_)) if self.at > start => self.plain_fraction()?,
            _ => None,
        };
        let is_proper = |part: &Number| part.exact().is_some_and(|part| *part >= RBig::ZERO && *part < RBig::ONE);
        if part.as_ref().is_none_or(|part| !is_proper(part)) {
            (self.at, self.digit) = (start, 0);
            return Ok(None);
        }
        Ok(part)
    }

    /// The arguments of `\frac`, both integers.
    fn arguments(&mut self) -> Read {
        let numerator = some!(self.argument()?);
        let denominator = some!(self.argument()?);
        let integers = numerator.notation == Notation::Integer && denominator.notation == Notation::Integer;
        if self.digit > 0 || !integers { Ok(None) } else { self.quotient(&numerator, &denominator) }
    }

    /// An integer, a slash, an integer.
    fn plain_fraction(&mut self) -> Read {
        let numerator = some!(self.operand()?);
        if !self.slash() {
            return Ok(None);
        }
        self.spaces();
        let denominator = some!(self.operand()?);
        let integers = numerator.notation == Notation::Integer && denominator.notation == Notation::Integer;
        if integers { self.quotient(&numerator, &denominator) } else { Ok(None) }
    }

    /// `None` if it is not exact: a part is too long, or has a sign of its own such as percent.
    fn quotient(&mut self, numerator: &Number, denominator: &Number) -> Read {
        let (Some(above), Some(below)) = (numerator.exact(), denominator.exact()) else { return Ok(None) };
        if !numerator.is_bare() || !denominator.is_bare() {
            return Ok(None);
        }
        if below.is_zero() {
            return Err(ParseError::Undefined);
        }
        self.fuel.spend(numerator.cost(denominator))?;
        Ok(Some(Number::plain(Magnitude::Exact(above / below), Notation::Fraction)))
    }
}

/// The power of ten that a word multiplies by.
pub(super) fn magnitude(word: &str) -> Option<i64> {
    let singular = word.strip_suffix('s').unwrap_or(word);
    Some(match singular {
        "hundred" => 2,
        "thousand" => 3,
        "lakh" => 5,
        "million" => 6,
        "crore" => 7,
        "billion" => 9,
        "trillion" => 12,
        _ => return None,
    })
}

/// What a word for a part or a multiple multiplies by: `3 fourths`, `7 dozen`.
fn factor(word: &str) -> Option<(u8, u8)> {
    let part = |below| Some((1, below));
    match word.strip_suffix('s').unwrap_or(word) {
        "half" | "halve" => part(2),
        "third" => part(3),
        "fourth" | "quarter" => part(4),
        "fifth" => part(5),
        "sixth" => part(6),
        "seventh" => part(7),
        "eighth" => part(8),
        "ninth" => part(9),
        "tenth" => part(10),
        "eleventh" => part(11),
        "twelfth" => part(12),
        "twentieth" => part(20),
        "hundredth" => part(100),
        "dozen" => Some((12, 1)),
        "gross" => Some((144, 1)),
        _ => None,
    }
}

/// A mixed number.
fn sum(whole: &Number, part: &Number) -> Option<Number> {
    let (Magnitude::Exact(whole), Magnitude::Exact(part)) = (&whole.magnitude, &part.magnitude) else { return None };
    Some(Number::plain(Magnitude::Exact(whole + part), Notation::Fraction))
}

#[cfg(test)]
mod tests;
