//! Arithmetic modulo two primes below 2^61.

use dashu_int::UBig;
use dashu_int::ops::UnsignedAbs;
use dashu_int::{IBig, Sign};

/// Primes that are 1 modulo 4, so that -1 has a root.
pub(crate) const PRIMES: [u64; 2] = [2_305_843_009_213_691_357, 2_305_843_009_213_688_909];
/// A root of -1 modulo each.
pub(crate) const ROOTS_OF_MINUS_ONE: [u64; 2] = [1_018_197_504_712_963_086, 1_184_352_285_803_117_425];

pub(crate) fn add(a: u64, b: u64, modulus: u64) -> u64 {
    let sum = a + b;
    if sum >= modulus { sum - modulus } else { sum }
}

pub(crate) fn negate(a: u64, modulus: u64) -> u64 {
    if a == 0 { 0 } else { modulus - a }
}

pub(crate) fn multiply(a: u64, b: u64, modulus: u64) -> u64 {
    // The result is below the modulus and fits.
    (u128::from(a) * u128::from(b) % u128::from(modulus)) as u64
}

pub(crate) fn power(base: u64, mut exponent: u64, modulus: u64) -> u64 {
    let mut result = 1;
    let mut square = base;
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = multiply(result, square, modulus);
        }
        square = multiply(square, square, modulus);
        exponent >>= 1;
    }
    result
}

/// The inverse modulo a prime. `None` for zero.
pub(crate) fn inverse(a: u64, prime: u64) -> Option<u64> {
    (a != 0).then(|| power(a, prime - 2, prime))
}

/// An integer modulo a number below 2^61.
pub(crate) fn reduce(integer: &IBig, modulus: u64) -> u64 {
    let rest = reduce_unsigned(&integer.clone().unsigned_abs(), modulus);
    if integer.sign() == Sign::Negative { negate(rest, modulus) } else { rest }
}

pub(crate) fn reduce_unsigned(integer: &UBig, modulus: u64) -> u64 {
    let rest = integer % modulus;
    u64::try_from(&UBig::from(rest)).unwrap_or(0)
}

/// The next number of a pseudo-random sequence (splitmix64).
// Not of the crate `seeds`: these numbers are fingerprints of expressions, no part of a run, and `math` stands on its
// own.
pub(crate) fn mix(state: u64) -> u64 {
    let mut z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A hash of a text, the same on every machine.
pub(crate) fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |state, byte| mix(state ^ u64::from(byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_field_is_one() {
        for (prime, root) in PRIMES.into_iter().zip(ROOTS_OF_MINUS_ONE) {
            assert_eq!(multiply(root, root, prime), prime - 1);
            assert_eq!(power(3, prime - 1, prime), 1);
            assert_eq!(inverse(7, prime).map(|inverse| multiply(inverse, 7, prime)), Some(1));
            assert_eq!(add(prime - 1, 1, prime), 0);
            assert_eq!(reduce(&IBig::from(-1), prime), prime - 1);
        }
        assert_eq!(inverse(0, PRIMES[0]), None);
    }
}
