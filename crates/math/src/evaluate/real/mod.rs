//! Interval arithmetic of any precision: real numbers as binary midpoints with an error bound. Every operation encloses
//! the true result, so that disjoint enclosures prove a difference regardless of rounding. Only integer arithmetic is
//! used.

mod constants;
mod elementary;
mod functions;
mod value;

use dashu_int::ops::{BitTest, SquareRoot, UnsignedAbs};
use dashu_int::{IBig, UBig};
use dashu_ratio::RBig;

use super::algebra::EvalError;

/// Bits of an error bound; excess bits move to the exponent.
const ERROR_BITS: usize = 30;
/// Largest absolute value of an exponent.
const MAX_EXPONENT: i64 = 1 << 40;

/// A precision, and whether information was lost.
#[derive(Debug)]
pub(crate) struct Precision {
    /// Bits of the midpoint.
    pub(crate) bits: usize,
    /// Whether a summand was too small to affect the trusted bits; more precision might reveal it.
    pub(crate) absorbed: bool,
}

/// All numbers between `(middle - error)·2^exponent` and `(middle + error)·2^exponent`.
#[derive(Debug, Clone)]
pub(crate) struct Real {
    middle: IBig,
    error: UBig,
    exponent: i64,
}

pub(crate) type Result<T = Real> = std::result::Result<T, EvalError>;

impl Precision {
    pub(crate) fn new(bits: usize) -> Self {
        Self { bits, absorbed: false }
    }

    /// Relative bits that count as known; lower ones may be affected by rounding.
    pub(crate) fn trusted_bits(&self) -> i64 {
        self.bits as i64 * 5 / 8
    }

    /// Records a summand of this magnitude next to one of another.
    fn note_absorption(&mut self, top: i64, other: i64) {
        self.absorbed |= top < other - self.trusted_bits();
    }

    /// Rounds to the kept bits. What is cut off is added to the error.
    fn round(&self, mut middle: IBig, mut error: UBig, mut exponent: i64) -> Result {
        let excess = middle.bit_len().saturating_sub(self.bits).max(error.bit_len().saturating_sub(ERROR_BITS));
        if excess > 0 {
            let exact = error.is_zero() && middle.trailing_zeros().is_none_or(|zeros| zeros >= excess);
            middle >>= excess;
            if !exact {
                error = (error >> excess) + UBig::from(2_u8);
            }
            // Lengths fit.
            exponent += excess as i64;
        }
        if exponent.abs() > MAX_EXPONENT {
            return Err(EvalError::TooLarge);
        }
        Ok(Real { middle, error, exponent })
    }

    pub(crate) fn add(&mut self, a: &Real, b: &Real) -> Result {
        if a.is_exact_zero() {
            return Ok(b.clone());
        }
        if b.is_exact_zero() {
            return Ok(a.clone());
        }
        if !a.contains_zero() && !b.contains_zero() {
            self.note_absorption(a.magnitude().min(b.magnitude()), a.magnitude().max(b.magnitude()));
        }
        // Bits below this are dropped.
        let lowest = a.magnitude().max(b.magnitude()) - (self.bits as i64) - 16;
        let exponent = a.exponent.min(b.exponent).max(lowest);
        let a = self.aligned(a, exponent);
        let b = self.aligned(b, exponent);
        self.round(a.middle + b.middle, a.error + b.error, exponent)
    }

    /// The number with another exponent.
    fn aligned(&self, a: &Real, exponent: i64) -> Real {
        let shift = a.exponent - exponent;
        // Neither is much longer than the kept bits.
        let size = shift.unsigned_abs().min(1 << 20) as usize;
        if shift >= 0 {
            return Real { middle: &a.middle << size, error: &a.error << size, exponent };
        }
        let exact = a.error.is_zero() && a.middle.trailing_zeros().is_none_or(|zeros| zeros >= size);
        if exact {
            return Real { middle: &a.middle >> size, error: UBig::ZERO, exponent };
        }
        Real { middle: &a.middle >> size, error: (&a.error >> size) + UBig::from(2_u8), exponent }
    }

    pub(crate) fn subtract(&mut self, a: &Real, b: &Real) -> Result {
        self.add(a, &b.negated())
    }

    pub(crate) fn multiply(&self, a: &Real, b: &Real) -> Result {
        let middle = &a.middle * &b.middle;
        let error = if a.error.is_zero() && b.error.is_zero() {
            UBig::ZERO
        } else {
            a.abs_middle() * &b.error + b.abs_middle() * &a.error + &a.error * &b.error
        };
        self.round(middle, error, a.exponent + b.exponent)
    }

    pub(crate) fn divide(&self, a: &Real, b: &Real) -> Result {
        let above = a.abs_middle();
        let below = b.abs_middle();
        if below.is_zero() && b.error.is_zero() {
            return Err(EvalError::Undefined);
        }
        if below <= b.error {
            return Err(EvalError::Imprecise);
        }
        if a.is_exact_zero() {
            return Ok(Real::integer(0));
        }
        let shift = (self.bits + below.bit_len() + 4).saturating_sub(above.bit_len());
        let scaled: IBig = &a.middle << shift;
        let quotient = &scaled / &b.middle;
        let exact = &quotient * &b.middle == scaled;
        let mut error = if a.error.is_zero() && b.error.is_zero() {
            UBig::ZERO
        } else {
            ((&above * &b.error + &below * &a.error) << shift) / (&below * (&below - &b.error)) + UBig::ONE
        };
        if !exact {
            error += UBig::ONE;
        }
        let shift = shift as i64;
        self.round(quotient, error, a.exponent - b.exponent - shift)
    }

    /// The square root of a nonnegative number.
    pub(crate) fn sqrt(&self, a: &Real) -> Result {
        if a.is_exact_zero() {
            return Ok(Real::integer(0));
        }
        if a.is_negative() {
            return Err(EvalError::Undefined);
        }
        let mut shift = (2 * self.bits + 4).saturating_sub(a.middle.bit_len()) as i64;
        if (a.exponent - shift) % 2 != 0 {
            shift += 1;
        }
        let size = shift.unsigned_abs() as usize;
        let exponent = (a.exponent - shift) / 2;
        let middle = a.middle.clone() << size;
        let error = IBig::from(a.error.clone()) << size;
        let above = (&middle + &error).unsigned_abs().sqrt() + UBig::ONE;
        if a.contains_zero() {
            // Between zero and the root of the upper end.
            return self.round(IBig::ZERO, above, exponent);
        }
        let root = middle.clone().unsigned_abs().sqrt();
        if error.is_zero() {
            let exact = IBig::from(&root * &root) == middle;
            return self.round(root.into(), UBig::from(u8::from(!exact)), exponent);
        }
        let below = (middle - error).unsigned_abs().sqrt();
        let error = (&above - &root).max(&root - below) + UBig::ONE;
        self.round(root.into(), error, exponent)
    }

    /// An enclosure of a rational number.
    pub(crate) fn rational(&mut self, value: &RBig) -> Result {
        let length = value.numerator().bit_len().max(value.denominator().bit_len());
        self.note_absorption(-(length as i64), 0);
        let numerator = self.round(value.numerator().clone(), UBig::ZERO, 0)?;
        if value.is_int() {
            return Ok(numerator);
        }
        let denominator = self.round(IBig::from(value.denominator().clone()), UBig::ZERO, 0)?;
        self.divide(&numerator, &denominator)
    }

    /// Adds to the error of an enclosure; its middle stays.
    pub(crate) fn widen(&mut self, a: &Real, by: &Real) -> Result {
        let by = Real { middle: IBig::ZERO, error: by.abs_middle() + &by.error, exponent: by.exponent };
        self.add(a, &by)
    }
}

#[cfg(test)]
mod tests;
