//! Integers of any size, as far as equality needs them.

/// Most decimal digits of an integer in expected JSON: the limit of the reference grader's Python.
pub const MAX_DIGITS: usize = 50_000;

/// An integer in normal form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Int {
    negative: bool,
    /// 32-bit words, least significant first, without trailing zeros; none for zero.
    words: Vec<u32>,
}

impl Int {
    /// Parses decimal digits with an optional minus sign. `None` for other characters, and for too many digits.
    #[must_use]
    pub fn from_decimal(text: &str) -> Option<Self> {
        let digits = text.strip_prefix('-').unwrap_or(text);
        if digits.is_empty() || digits.len() > MAX_DIGITS || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let mut words = Vec::new();
        let (first, rest) = digits.split_at(digits.len() % 9);
        let rest = rest.as_bytes().chunks(9).map(|chunk| std::str::from_utf8(chunk).unwrap_or("0"));
        for chunk in std::iter::once(first).filter(|chunk| !chunk.is_empty()).chain(rest) {
            multiply_add(&mut words, 1_000_000_000, chunk.parse().ok()?);
        }
        Some(Self::new(text.starts_with('-'), words))
    }

    /// An integer from 15-bit digits, least significant first, as marshal stores them.
    #[must_use]
    pub fn from_marshal(negative: bool, digits: &[u16]) -> Self {
        let mut words = vec![0_u32; digits.len() * 15 / 32 + 1];
        for (index, digit) in digits.iter().enumerate() {
            let word = index * 15 / 32;
            let shift = index * 15 % 32;
            let bits = u64::from(digit & 0x7fff) << shift;
            words[word] |= low(bits);
            if bits >> 32 != 0 {
                words[word + 1] |= low(bits >> 32);
            }
        }
        Self::new(negative, words)
    }

    /// Converts a float. `None` if it is not an integer.
    #[must_use]
    pub fn from_float(value: f64) -> Option<Self> {
        if !value.is_finite() || value.fract() != 0.0 {
            return None;
        }
        let bits = value.to_bits();
        let exponent = i64::try_from(bits >> 52 & 0x7ff).ok()? - 1075;
        let mantissa = if value == 0.0 { 0 } else { bits & ((1 << 52) - 1) | 1 << 52 };
        let (mantissa, shift) = if exponent < 0 {
            (mantissa >> -exponent.max(-63), 0)
        } else {
            (mantissa, usize::try_from(exponent).ok()?)
        };
        let mut words = vec![0; shift / 32];
        let shifted = u128::from(mantissa) << (shift % 32);
        words.extend((0..4).map(|word| low((shifted >> (32 * word)) as u64)));
        Some(Self::new(value < 0.0, words))
    }

    /// A float next to the integer, infinite beyond its range.
    #[must_use]
    pub fn to_float(&self) -> f64 {
        let magnitude = self.words.iter().rev().fold(0.0, |sum, word| sum * 4_294_967_296.0 + f64::from(*word));
        if self.negative { -magnitude } else { magnitude }
    }

    /// The integer if it has at most 64 bits.
    #[must_use]
    pub fn to_small(&self) -> Option<i64> {
        let magnitude = match self.words[..] {
            [] => 0,
            [low] => i64::from(low),
            [low, high] => i64::try_from(u64::from(high) << 32 | u64::from(low)).ok()?,
            _ => return None,
        };
        Some(if self.negative { -magnitude } else { magnitude })
    }

    fn new(negative: bool, mut words: Vec<u32>) -> Self {
        while words.last() == Some(&0) {
            words.pop();
        }
        Self { negative: negative && !words.is_empty(), words }
    }
}

impl From<i32> for Int {
    fn from(value: i32) -> Self {
        Self::new(value < 0, vec![value.unsigned_abs()])
    }
}

fn multiply_add(words: &mut Vec<u32>, factor: u64, addend: u64) {
    let mut carry = addend;
    for word in words.iter_mut() {
        let product = u64::from(*word) * factor + carry;
        *word = low(product);
        carry = product >> 32;
    }
    if carry > 0 {
        words.push(low(carry));
    }
}

#[allow(clippy::cast_possible_truncation)]
fn low(value: u64) -> u32 {
    value as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_marshal_and_floats_agree() {
        let big = Int::from_decimal("36893488147419103232").unwrap();
        assert_eq!(Int::from_marshal(false, &[0, 0, 0, 0, 32]), big);
        assert_eq!(Int::from_float(36_893_488_147_419_103_232.0), Some(big));
        assert_eq!(Int::from_float(-7.0), Int::from_decimal("-7"));
        assert_eq!(Int::from(-7), Int::from_decimal("-007").unwrap());
        assert_eq!(Int::from_float(-0.0), Int::from_decimal("0"));
    }

    #[test]
    fn small_integers_and_floats_are_read_back() {
        for value in [0, 7, -7, i64::MAX, 1 << 40] {
            let int = Int::from_decimal(&value.to_string()).unwrap();
            assert_eq!((int.to_small(), int.to_float()), (Some(value), value as f64));
        }
        let big = Int::from_decimal("36893488147419103232").unwrap();
        assert_eq!((big.to_small(), big.to_float()), (None, 36_893_488_147_419_103_232.0));
        assert!(Int::from_decimal(&"9".repeat(400)).unwrap().to_float().is_infinite());
    }

    #[test]
    fn a_float_with_a_fraction_is_not_an_integer() {
        assert_eq!(Int::from_float(0.5), None);
        assert_eq!(Int::from_float(f64::INFINITY), None);
        assert_eq!(Int::from_float(f64::NAN), None);
    }

    #[test]
    fn more_digits_than_the_grader_accepts_are_refused() {
        assert!(Int::from_decimal(&"9".repeat(MAX_DIGITS)).is_some());
        assert_eq!(Int::from_decimal(&"9".repeat(MAX_DIGITS + 1)), None);
    }
}
