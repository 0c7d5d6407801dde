//! Exact arithmetic with whole numbers and fractions, bounded in the length of the expression, its depth and the size
//! of every value.

use dashu_int::ops::BitTest;
use dashu_int::{IBig, UBig};
use dashu_ratio::RBig;

/// Longest expression, in bytes.
const MAX_EXPRESSION: usize = 1000;
/// Deepest nesting of parentheses.
const MAX_DEPTH: usize = 64;
/// Largest numerator and denominator, in bits.
const MAX_BITS: usize = 4096;

/// Why an expression has no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ExpressionError {
    #[error("the expression has {0} bytes, allowed: at most {MAX_EXPRESSION}")]
    TooLong(usize),
    #[error("unexpected `{0}`, allowed: numbers, +, -, *, /, ^ and parentheses")]
    Unexpected(char),
    #[error("the expression ends too early")]
    Ends,
    #[error("parentheses are nested more than {MAX_DEPTH} deep")]
    TooDeep,
    #[error("division by zero")]
    DivisionByZero,
    #[error("the exponent is {0}, allowed: a whole number")]
    Exponent(String),
    #[error("a number has more than {MAX_BITS} bits")]
    TooLarge,
}

/// The value of an expression, as a whole number or a fraction `a/b` in lowest terms.
pub(crate) fn evaluate(expression: &str) -> Result<String, ExpressionError> {
    if expression.len() > MAX_EXPRESSION {
        return Err(ExpressionError::TooLong(expression.len()));
    }
    let characters: Vec<char> = expression.chars().filter(|character| !character.is_whitespace()).collect();
    let mut parser = Parser { characters: &characters, depth: 0 };
    let value = parser.sum()?;
    match parser.characters.first() {
        None => Ok(value.to_string()),
        Some(other) => Err(ExpressionError::Unexpected(*other)),
    }
}

struct Parser<'a> {
    /// Characters that are not parsed yet.
    characters: &'a [char],
    depth: usize,
}

impl Parser<'_> {
    /// Takes the next character where it is one of these.
    fn takes(&mut self, any: &[char]) -> Option<char> {
        let (first, rest) = self.characters.split_first()?;
        any.contains(first).then(|| {
            self.characters = rest;
            *first
        })
    }

    fn sum(&mut self) -> Result<RBig, ExpressionError> {
        let mut value = self.product()?;
        while let Some(operator) = self.takes(&['+', '-', '−']) {
            let other = self.product()?;
            value = bounded(if operator == '+' { value + other } else { value - other })?;
        }
        Ok(value)
    }

    fn product(&mut self) -> Result<RBig, ExpressionError> {
        let mut value = self.signed()?;
        while let Some(operator) = self.takes(&['*', '/', '×', '·', '÷']) {
            let other = self.signed()?;
            value = match operator {
                '/' | '÷' if other.is_zero() => return Err(ExpressionError::DivisionByZero),
                '/' | '÷' => bounded(value / other)?,
                _ => bounded(value * other)?,
            };
        }
        Ok(value)
    }

    fn signed(&mut self) -> Result<RBig, ExpressionError> {
        self.deeper(|parser| match parser.takes(&['+', '-', '−']) {
            Some('+') => parser.signed(),
            Some(_) => Ok(-parser.signed()?),
            None => parser.power(),
        })
    }

    fn power(&mut self) -> Result<RBig, ExpressionError> {
        let base = self.atom()?;
        let is_power = match self.characters {
            ['^', rest @ ..] | ['*', '*', rest @ ..] => {
                self.characters = rest;
                true
            }
            _ => false,
        };
        if !is_power {
            return Ok(base);
        }
        let exponent = self.signed()?;
        raise(&base, &exponent)
    }

    fn atom(&mut self) -> Result<RBig, ExpressionError> {
        if self.takes(&['(']).is_some() {
            let value = self.deeper(Self::sum)?;
            return match self.takes(&[')']) {
                Some(_) => Ok(value),
                None => Err(self.unexpected()),
            };
        }
        let whole = self.digits();
        let fraction = if self.takes(&['.']).is_some() { self.digits() } else { String::new() };
        if whole.is_empty() && fraction.is_empty() {
            return Err(self.unexpected());
        }
        let digits: UBig = format!("{whole}{fraction}").parse().unwrap_or(UBig::ZERO);
        let scale = UBig::from(10_u8).pow(fraction.len());
        bounded(RBig::from_parts(IBig::from(digits), scale))
    }

    fn digits(&mut self) -> String {
        let count = self.characters.iter().take_while(|character| character.is_ascii_digit()).count();
        let (digits, rest) = self.characters.split_at(count);
        self.characters = rest;
        digits.iter().collect()
    }

    fn deeper(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<RBig, ExpressionError>,
    ) -> Result<RBig, ExpressionError> {
        if self.depth == MAX_DEPTH {
            return Err(ExpressionError::TooDeep);
        }
        self.depth += 1;
        let value = read(self);
        self.depth -= 1;
        value
    }

    fn unexpected(&self) -> ExpressionError {
        self.characters.first().map_or(ExpressionError::Ends, |character| ExpressionError::Unexpected(*character))
    }
}

fn raise(base: &RBig, exponent: &RBig) -> Result<RBig, ExpressionError> {
    let refused = || ExpressionError::Exponent(exponent.to_string());
    let exponent = exponent.is_int().then(|| exponent.numerator()).ok_or_else(refused)?;
    let Ok(exponent) = i64::try_from(exponent) else {
        return if base.is_zero() || base.is_one() { Ok(base.clone()) } else { Err(ExpressionError::TooLarge) };
    };
    if base.is_zero() {
        return match exponent {
            0 => Ok(RBig::ONE),
            1.. => Ok(RBig::ZERO),
            _ => Err(ExpressionError::DivisionByZero),
        };
    }
    // A base of b bits to the n-th has more than (b - 1) n of them.
    let size = exponent.unsigned_abs();
    let grows = (bits(base) as u64).saturating_sub(1).saturating_mul(size);
    let is_unit = bits(base) <= 1;
    if grows > MAX_BITS as u64 || (size > MAX_BITS as u64 && !is_unit) {
        return Err(ExpressionError::TooLarge);
    }
    // Powers of 1 and -1 depend only on the parity of the exponent.
    let size = if is_unit { size % 2 } else { size };
    let power = base.clone().pow(size as isize);
    bounded(if exponent < 0 { RBig::ONE / power } else { power })
}

fn bits(value: &RBig) -> usize {
    value.numerator().bit_len().max(value.denominator().bit_len())
}

fn bounded(value: RBig) -> Result<RBig, ExpressionError> {
    if bits(&value) > MAX_BITS { Err(ExpressionError::TooLarge) } else { Ok(value) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn arithmetic_is_exact_and_binds_as_it_is_written() {
        for (expression, value) in [
            ("1+1", "2"),
            ("2 + 3 * 4", "14"),
            ("(2 + 3) * 4", "20"),
            ("10 - 4 - 3", "3"),
            ("1/3 + 1/6", "1/2"),
            ("0.1 + 0.2", "3/10"),
            (".5 * 4.", "2"),
            ("-2^2", "-4"),
            ("(-2)**3", "-8"),
            ("2^3^2", "512"),
            ("2^-2", "1/4"),
            ("7 ÷ 2 × 4", "14"),
            ("6/4", "3/2"),
            ("--3", "3"),
            ("2 * -3", "-6"),
            ("(-1)^100000000001", "-1"),
            ("0^0", "1"),
            ("123456789 * 987654321", "121932631112635269"),
        ] {
            assert_eq!(evaluate(expression).as_deref(), Ok(value), "{expression}");
        }
    }

    #[test]
    fn what_has_no_value_says_why() {
        for (expression, words) in [
            ("", "ends"),
            ("1 +", "ends"),
            ("(1", "ends"),
            ("1)", "unexpected `)`"),
            ("2 x 3", "unexpected `x`"),
            ("1,000", "unexpected `,`"),
            ("1/0", "division by zero"),
            ("0^-1", "division by zero"),
            ("2^0.5", "the exponent is 1/2"),
            ("2^99999", "bits"),
            ("9^99999999999999999999", "bits"),
            ("2^2^2^2^2^2", "bits"),
        ] {
            let error = evaluate(expression).unwrap_err().to_string();
            assert!(error.contains(words), "{expression}: {error}");
        }
        assert_eq!(evaluate(&"(".repeat(500)), Err(ExpressionError::TooDeep));
        assert_eq!(evaluate(&"-".repeat(500)), Err(ExpressionError::TooDeep));
        assert_eq!(evaluate(&"1".repeat(5000)), Err(ExpressionError::TooLong(5000)));
    }

    proptest! {
        #[test]
        fn sums_and_products_of_whole_numbers_are_those_of_integers(
            a in -99_999_i128..99_999,
            b in -99_999_i128..99_999,
            c in -999_i128..999,
        ) {
            prop_assert_eq!(evaluate(&format!("{a} + ({b}) * ({c})")), Ok((a + b * c).to_string()));
            prop_assert_eq!(evaluate(&format!("({a}) - {b} - ({c})")).is_ok(), true);
        }

        #[test]
        fn no_text_is_too_much(text in "[0-9+*/^(). −-]{0,60}|.{0,40}") {
            let _ = evaluate(&text);
        }
    }
}
