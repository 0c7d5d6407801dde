//! Fractions: `\frac34`, `3/4`, and those of mixed numbers.

use dashu_ratio::RBig;

use super::{NumberReader, Read};
use crate::parse::ParseError;
use crate::parse::token::TokenKind;
use crate::slicing::SafeSlice;
use crate::{Magnitude, Notation, Number};

impl NumberReader<'_, '_, '_> {
    /// `\frac` with its arguments.
    pub(super) fn fraction(&mut self) -> Read {
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
    pub(super) fn proper_fraction(&mut self) -> Read {
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
    pub(super) fn quotient(&mut self, numerator: &Number, denominator: &Number) -> Read {
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
