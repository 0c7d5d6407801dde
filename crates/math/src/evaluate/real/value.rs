//! What is known of an enclosure: its sign, size and error, and the number that it exactly is.

use dashu_int::ops::{Abs, BitTest, UnsignedAbs};
use dashu_int::{IBig, Sign, UBig};

use super::Real;

impl Real {
    pub(crate) fn integer(value: i64) -> Self {
        Self { middle: value.into(), error: UBig::ZERO, exponent: 0 }
    }

    /// `value · 2^exponent`, exactly.
    pub(crate) fn binary(value: i64, exponent: i64) -> Self {
        Self { middle: value.into(), error: UBig::ZERO, exponent }
    }

    pub(super) fn abs_middle(&self) -> UBig {
        self.middle.clone().abs().unsigned_abs()
    }

    /// Exponent of a power of two that exceeds the absolute value.
    pub(super) fn magnitude(&self) -> i64 {
        self.exponent + self.middle.bit_len().max(self.error.bit_len()) as i64 + 1
    }

    pub(crate) fn is_exact_zero(&self) -> bool {
        self.middle.is_zero() && self.error.is_zero()
    }

    pub(crate) fn contains_zero(&self) -> bool {
        self.abs_middle() <= self.error
    }

    /// Whether the whole enclosure is negative.
    pub(crate) fn is_negative(&self) -> bool {
        self.middle.sign() == Sign::Negative && !self.contains_zero()
    }

    /// Whether the whole enclosure is positive.
    pub(crate) fn is_positive(&self) -> bool {
        self.middle.sign() == Sign::Positive && !self.contains_zero()
    }

    #[must_use]
    pub(crate) fn negated(&self) -> Self {
        Self { middle: -&self.middle, error: self.error.clone(), exponent: self.exponent }
    }

    /// The absolute value. An enclosure of zero is unchanged.
    #[must_use]
    pub(crate) fn abs(&self) -> Self {
        if self.middle.sign() == Sign::Negative { self.negated() } else { self.clone() }
    }

    /// Whether the error is below `2^-bits`, relative to the value, or absolute near zero.
    pub(crate) fn is_known_to(&self, bits: i64) -> bool {
        if self.error.is_zero() {
            return true;
        }
        let error = self.exponent + self.error.bit_len() as i64;
        let size = if self.contains_zero() { 0 } else { self.exponent + self.middle.bit_len() as i64 };
        error <= size - bits
    }

    /// The integer that it exactly is.
    pub(crate) fn as_integer(&self) -> Option<i64> {
        if !self.error.is_zero() {
            return None;
        }
        if self.middle.is_zero() {
            return Some(0);
        }
        let shift = usize::try_from(self.exponent.unsigned_abs()).ok()?;
        if self.exponent < 0 {
            let whole = self.middle.trailing_zeros().is_some_and(|zeros| zeros >= shift);
            return if whole { i64::try_from(&(&self.middle >> shift)).ok() } else { None };
        }
        if shift > 64 { None } else { i64::try_from(&(&self.middle << shift)).ok() }
    }

    /// The exact value as an odd number and a power of two.
    pub(crate) fn as_binary(&self) -> Option<(i64, i64)> {
        if !self.error.is_zero() {
            return None;
        }
        let zeros = self.middle.trailing_zeros().unwrap_or(0);
        let odd = i64::try_from(&(&self.middle >> zeros)).ok()?;
        Some((odd, if odd == 0 { 0 } else { self.exponent + zeros as i64 }))
    }

    /// The floor. `None` if the enclosure spans an integer.
    pub(crate) fn floor(&self) -> Option<Self> {
        let low = &self.middle - &self.error;
        let high = &self.middle + &self.error;
        if self.exponent >= 0 {
            return self.error.is_zero().then(|| self.clone());
        }
        let shift = usize::try_from(self.exponent.unsigned_abs()).ok()?;
        let low = low >> shift;
        let high = high >> shift;
        (low == high).then_some(Self { middle: low, error: UBig::ZERO, exponent: 0 })
    }

    /// The midpoint in units of `2^-bits`, rounded down.
    pub(super) fn fixed(&self, bits: usize) -> IBig {
        let shift = self.exponent + bits as i64;
        let size = shift.unsigned_abs().min(1 << 24) as usize;
        if shift >= 0 { &self.middle << size } else { &self.middle >> size }
    }

    /// The error in units of `2^-bits`, rounded up.
    pub(super) fn fixed_error(&self, bits: usize) -> UBig {
        if self.error.is_zero() {
            return UBig::ZERO;
        }
        let shift = self.exponent + bits as i64;
        let size = shift.unsigned_abs().min(1 << 24) as usize;
        if shift >= 0 { &self.error << size } else { (&self.error >> size) + UBig::ONE }
    }
}
