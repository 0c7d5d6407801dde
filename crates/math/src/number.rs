//! Rational numbers, and how they were written.

use std::fmt;

use dashu_int::UBig;
use dashu_int::ops::BitTest;
use dashu_ratio::RBig;

/// Decimal digits (including zeros from shifting the point) up to which a number is stored as a rational. A longer one
/// is stored as its digits, which compare exactly with digits only.
pub const MAX_EXACT_DIGITS: usize = 20_000;

/// A rational number and how it was written.
#[derive(Debug, Clone, PartialEq)]
pub struct Number {
    /// Value before any percent sign.
    pub magnitude: Magnitude,
    /// Notation in which it was written.
    pub notation: Notation,
    /// Whether a percent sign follows it.
    pub percent: bool,
    /// The currency sign before or after it.
    pub currency: Option<char>,
}

/// The value of a number.
#[derive(Debug, Clone, PartialEq)]
pub enum Magnitude {
    /// A rational in lowest terms.
    Exact(RBig),
    /// The digits of a number that has more than [`MAX_EXACT_DIGITS`].
    LongDecimal(LongDecimal),
}

/// `±digits · 10^exponent`, the normal form of a long decimal: no zeros at either end, so that two numbers are equal if
/// and only if their fields are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LongDecimal {
    /// Whether the number is negative.
    pub negative: bool,
    /// Digits, as an integer.
    pub digits: String,
    /// The exponent of ten.
    pub exponent: i64,
}

/// How a number was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notation {
    /// Digits without a point or an exponent.
    Integer,
    /// Digits with a decimal point.
    Decimal {
        /// Significant digits: from the first nonzero digit.
        significant: usize,
        /// Digits after the point.
        places: usize,
    },
    /// A numerator and a denominator, or a mixed number.
    Fraction,
}

impl Default for Number {
    /// The number 0, written as an integer.
    fn default() -> Self {
        Self::plain(Magnitude::Exact(RBig::ZERO), Notation::Integer)
    }
}

impl Number {
    /// The number spelled by these decimal digits. Both texts contain ASCII digits only, and at least one is not empty.
    pub(crate) fn from_digits(integer: &str, fraction: &str, point: bool) -> Self {
        let integer = integer.trim_start_matches('0');
        let leading = if integer.is_empty() { fraction.len() - fraction.trim_start_matches('0').len() } else { 0 };
        let significant = integer.len() + fraction.len() - leading;
        let notation =
            if point { Notation::Decimal { significant, places: fraction.len() } } else { Notation::Integer };
        let magnitude = if integer.len() + fraction.len() <= MAX_EXACT_DIGITS {
            exact(integer, fraction)
        } else {
            normalised(integer, fraction)
        };
        Self::plain(magnitude, notation)
    }

    /// A number without sign, percent or currency sign.
    pub(crate) fn plain(magnitude: Magnitude, notation: Notation) -> Self {
        Self { magnitude, notation, percent: false, currency: None }
    }

    /// The number times a power of ten. `None` unless it is stored exactly.
    pub(crate) fn shifted(&self, exponent: i64) -> Option<Self> {
        let value = self.exact()?;
        let scale = RBig::from(UBig::from(10_u8).pow(usize::try_from(exponent.unsigned_abs()).ok()?));
        let value = if exponent < 0 { value / scale } else { value * scale };
        let notation = match self.notation {
            Notation::Fraction => Notation::Fraction,
            Notation::Integer if exponent >= 0 => Notation::Integer,
            notation => {
                let (significant, places) = match notation {
                    Notation::Decimal { significant, places } => (significant, places),
                    _ => (value.numerator().bit_len() * 3 / 10 + 1, 0),
                };
                match i64::try_from(places).ok()? - exponent {
                    places @ 1.. => Notation::Decimal { significant, places: usize::try_from(places).ok()? },
                    // The last digit is before the point.
                    _ => Notation::Fraction,
                }
            }
        };
        Some(Self { magnitude: Magnitude::Exact(value), notation, ..self.clone() })
    }

    /// Whether it has neither a percent nor a currency sign.
    pub(crate) fn is_bare(&self) -> bool {
        !self.percent && self.currency.is_none()
    }

    /// The value, if it is stored as a rational.
    pub fn exact(&self) -> Option<&RBig> {
        match &self.magnitude {
            Magnitude::Exact(value) => Some(value),
            Magnitude::LongDecimal(_) => None,
        }
    }

    /// The number with the opposite sign.
    #[must_use]
    pub(crate) fn negated(mut self) -> Self {
        match &mut self.magnitude {
            Magnitude::Exact(value) => *value = -std::mem::take(value),
            Magnitude::LongDecimal(huge) => huge.negative = !huge.negative,
        }
        self
    }

    /// Steps of fuel for an operation on both, roughly.
    pub(crate) fn cost(&self, other: &Self) -> usize {
        let words = self.words();
        let others = other.words();
        1 + words + others + words * others / 32
    }

    /// Length of its value in machine words.
    fn words(&self) -> usize {
        match &self.magnitude {
            Magnitude::Exact(value) => (value.numerator().bit_len() + value.denominator().bit_len()) / 64,
            // These are never computed with.
            Magnitude::LongDecimal(huge) => huge.digits.len() / 64,
        }
    }
}

/// The normal form of a number with too many digits.
fn normalised(integer: &str, fraction: &str) -> Magnitude {
    let mut digits = String::with_capacity(integer.len() + fraction.len());
    digits.push_str(integer);
    digits.push_str(fraction);
    let trailing = digits.len() - digits.trim_end_matches('0').len();
    digits.truncate(digits.len() - trailing);
    let digits = digits.trim_start_matches('0');
    if digits.is_empty() {
        return Magnitude::Exact(RBig::ZERO);
    }
    // Lengths of slices fit in an i64.
    let exponent = trailing as i64 - fraction.len() as i64;
    Magnitude::LongDecimal(LongDecimal { negative: false, digits: digits.to_owned(), exponent })
}

fn exact(integer: &str, fraction: &str) -> Magnitude {
    // Stripping trailing zeros keeps the denominator small.
    let fraction = fraction.trim_end_matches('0');
    let numerator = integer_of(integer, fraction);
    if fraction.is_empty() {
        return Magnitude::Exact(RBig::from(numerator));
    }
    Magnitude::Exact(RBig::from_parts(numerator.into(), UBig::from(10_u8).pow(fraction.len())))
}

/// The integer spelled by both texts, concatenated.
fn integer_of(first: &str, second: &str) -> UBig {
    let length = first.len() + second.len();
    // 10^38 is below 2^128.
    if length <= 38 {
        let digits = first.bytes().chain(second.bytes());
        return UBig::from(digits.fold(0_u128, |sum, digit| sum * 10 + u128::from(digit - b'0')));
    }
    let joined = [first, second].concat();
    // The lexer passes ASCII digits only.
    UBig::from_str_radix(&joined, 10).unwrap_or_default()
}

impl fmt::Display for Number {
    /// The value in lowest terms, with its currency and percent signs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(currency) = self.currency {
            write!(f, "{currency}")?;
        }
        match &self.magnitude {
            Magnitude::Exact(value) if value.is_int() => write!(f, "{}", value.numerator())?,
            Magnitude::Exact(value) => write!(f, "{}/{}", value.numerator(), value.denominator())?,
            Magnitude::LongDecimal(LongDecimal { negative, digits, exponent }) => {
                let sign = if *negative { "-" } else { "" };
                write!(f, "{sign}{digits}")?;
                if *exponent != 0 {
                    write!(f, "e{exponent}")?;
                }
            }
        }
        if self.percent { f.write_str("%") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_become_the_number_that_they_spell() {
        let spelled = |integer, fraction, point| Number::from_digits(integer, fraction, point).to_string();
        assert_eq!(spelled("0042", "", false), "42");
        assert_eq!(spelled("", "50", true), "1/2");
        assert_eq!(spelled("000", "", false), "0");
        let nines = "9".repeat(60);
        assert_eq!(spelled(&nines, "", false), nines);
    }

    #[test]
    fn significant_digits_begin_at_the_first_that_is_not_zero() {
        let notation = |integer, fraction| Number::from_digits(integer, fraction, true).notation;
        assert_eq!(notation("0", "0830"), Notation::Decimal { significant: 3, places: 4 });
        assert_eq!(notation("12", "05"), Notation::Decimal { significant: 4, places: 2 });
    }

    #[test]
    fn long_numbers_have_one_normal_form() {
        let long = "7".repeat(MAX_EXACT_DIGITS);
        let huge = |integer: &str, fraction: &str| Number::from_digits(integer, fraction, true).magnitude;
        assert_eq!(huge(&format!("00{long}"), "100"), huge(&long, "1"));
        assert_ne!(huge(&long, "1"), huge(&long, "01"));
        let zeros = "0".repeat(MAX_EXACT_DIGITS);
        assert_eq!(huge(&zeros, &zeros), Magnitude::Exact(RBig::ZERO));
    }
}
