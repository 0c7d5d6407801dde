//! Exact decimals as parsed by Python's `Decimal`. Exponents are not expanded, so that the cost of `1e999999999` is
//! that of its digits.

use super::digits::digit;

/// Largest exponent of a leading digit that `Decimal` accepts, and the smallest of a last one.
const MAX_EXPONENT: i128 = 999_999_999_999_999_999;
const MIN_EXPONENT: i128 = -1_999_999_999_999_999_997;

/// A decimal number in normal form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Decimal {
    /// Digits without zeros at either end, none for zero. The exponent is that of the last digit.
    Finite {
        negative: bool,
        digits: Vec<u8>,
        exponent: i128,
    },
    Infinite {
        negative: bool,
    },
    /// A value that is not equal to anything.
    NotANumber,
    /// Comparing it raises an exception in Python.
    Signalling,
}

impl Decimal {
    /// Parses a token without white space.
    pub(super) fn read(token: &str) -> Option<Self> {
        // Underscores are ignored anywhere, and digits may be of any script.
        let plain: Option<String> = token
            .chars()
            .filter(|character| *character != '_')
            .map(|character| match digit(character) {
                Some(value) => Some(char::from(b'0' + value)),
                None => character.is_ascii().then_some(character.to_ascii_lowercase()),
            })
            .collect();
        let plain = plain?;
        let (negative, rest) = match plain.as_bytes().first()? {
            b'-' => (true, &plain[1..]),
            b'+' => (false, &plain[1..]),
            _ => (false, &*plain),
        };
        match rest {
            "inf" | "infinity" => return Some(Self::Infinite { negative }),
            _ => {}
        }
        for (name, value) in [("nan", Self::NotANumber), ("snan", Self::Signalling)] {
            if let Some(payload) = rest.strip_prefix(name) {
                return payload.bytes().all(|byte| byte.is_ascii_digit()).then_some(value);
            }
        }
        Self::finite(negative, rest)
    }

    fn finite(negative: bool, rest: &str) -> Option<Self> {
        let (mantissa, exponent) = match rest.split_once('e') {
            Some((mantissa, exponent)) => (mantissa, read_exponent(exponent)?),
            None => (rest, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let mut digits: Vec<u8> = [whole, fraction].concat().into_bytes();
        if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
            return None;
        }
        let mut exponent = exponent.checked_sub(i128::try_from(fraction.len()).ok()?)?;
        let length = digits.len();
        let leading = digits.iter().take_while(|digit| **digit == b'0').count();
        let highest = exponent + i128::try_from(length - leading).ok()? - 1;
        let is_zero = leading == length;
        if !is_zero && (highest > MAX_EXPONENT || exponent < MIN_EXPONENT) {
            return None;
        }
        while digits.last() == Some(&b'0') {
            digits.pop();
            exponent += 1;
        }
        if is_zero {
            return Some(Self::Finite { negative: false, digits: Vec::new(), exponent: 0 });
        }
        digits.drain(..leading);
        Some(Self::Finite { negative, digits, exponent })
    }

    /// The nearest float. `None` if the number is not finite.
    pub(super) fn as_float(&self) -> Option<f64> {
        let Self::Finite { negative, digits, exponent } = self else { return None };
        if digits.is_empty() {
            return Some(0.0);
        }
        let digits = std::str::from_utf8(digits).ok()?;
        let value: f64 = format!("{digits}e{exponent}").parse().ok()?;
        value.is_finite().then_some(if *negative { -value } else { value })
    }

    /// Whether both are equal as numbers. `None` if Python raises an exception.
    pub(super) fn equals(&self, other: &Self) -> Option<bool> {
        match (self, other) {
            (Self::Signalling, _) | (_, Self::Signalling) => None,
            (Self::NotANumber, _) | (_, Self::NotANumber) => Some(false),
            _ => Some(self == other),
        }
    }
}

fn read_exponent(text: &str) -> Option<i128> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let digits = digits.trim_start_matches('0');
    // Far outside the accepted range, whatever the digits are.
    let value = if digits.len() > 30 { i128::MAX / 4 } else { format!("0{digits}").parse().ok()? };
    Some(if text.starts_with('-') { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn equal(left: &str, right: &str) -> Option<bool> {
        Decimal::read(left)?.equals(&Decimal::read(right)?)
    }

    #[test]
    fn numbers_are_equal_by_value() {
        for (left, right) in [
            ("1.0", "1"),
            ("1e3", "1000"),
            ("+5", "5"),
            ("05", "5"),
            ("1_000", "1000"),
            ("-0", "0"),
            ("inf", "Infinity"),
            ("５", "5"),
            (".5", "0.50"),
            ("5.", "5"),
            ("1E+2", "100"),
            ("0e5", "0"),
            ("-0.10e1", "-1"),
            ("1e999999999", "10e999999998"),
        ] {
            assert_eq!(equal(left, right), Some(true), "{left} {right}");
        }
    }

    #[test]
    fn no_tolerance_is_given() {
        for (left, right) in
            [("0.33333333", "0.3333333333"), ("1", "-1"), ("inf", "-inf"), ("NaN", "nan"), ("1e10", "1e11")]
        {
            assert_eq!(equal(left, right), Some(false), "{left} {right}");
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "+",
            ".",
            "e5",
            "1e",
            "1e+",
            "1.2.3",
            "0x10",
            "one",
            "--1",
            "1,000",
            "²",
            "infinit",
            "nan1a",
            "1e1.5",
            "1e9999999999999999999",
        ] {
            assert_eq!(Decimal::read(text), None, "{text}");
        }
    }

    #[test]
    fn the_nearest_float_is_that_of_the_digits() {
        let float = |text: &str| Decimal::read(text).unwrap().as_float();
        assert_eq!(float("-12.50"), Some(-12.5));
        assert_eq!(float("0"), Some(0.0));
        assert_eq!(float("1e-400"), Some(0.0));
        assert_eq!(float("0.1"), Some(0.1));
        for text in ["inf", "nan", "1e400", "1e999999999999"] {
            assert_eq!(float(text), None, "{text}");
        }
    }

    #[test]
    fn a_signalling_nan_cannot_be_compared() {
        assert_eq!(Decimal::read("sNaN").and_then(|nan| nan.equals(&nan)), None);
    }
}
