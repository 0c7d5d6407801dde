//! Elementary functions of enclosures: the series at the midpoint, and the error scaled by the slope.

use dashu_int::ops::BitTest;
use dashu_int::{IBig, UBig};

use super::elementary::{self, GUARD};
use super::{EvalError, Precision, Real, Result, constants};

/// Largest argument of `exp` and of the trigonometric functions, in bits before the point.
const MAX_TOP: i64 = 40;

impl Precision {
    pub(crate) fn pi(&self) -> Result {
        let bits = self.bits + 8;
        self.round(constants::pi(bits)?, UBig::ONE, -(bits as i64))
    }

    pub(crate) fn e(&self) -> Result {
        let bits = self.bits + 8;
        self.round(constants::e(bits)?, UBig::ONE, -(bits as i64))
    }

    pub(crate) fn exp(&mut self, a: &Real) -> Result {
        if a.is_exact_zero() {
            return Ok(Real::integer(1));
        }
        if a.magnitude() > MAX_TOP {
            return Err(EvalError::TooLarge);
        }
        // exp x is 1 + x where x is small.
        self.note_absorption(a.magnitude(), 0);
        let bits = self.working_bits(a);
        let (value, power) = elementary::exp(&a.fixed(bits), bits)?;
        let error = a.fixed_error(bits);
        if error.bit_len() > bits {
            return Err(EvalError::Imprecise);
        }
        // exp(x + e) is at most (1 + 2e)·exp(x) for e up to 1, and the value is at most 2.
        // ln 2 was subtracted k times, and so was its error.
        let error = (error << 2) + (UBig::ONE << GUARD) + (UBig::from(power.unsigned_abs()) << 3);
        self.round(value, error, power - bits as i64)
    }

    /// The natural logarithm of a number above zero.
    pub(crate) fn ln(&self, a: &Real) -> Result {
        if a.is_negative() || a.is_exact_zero() {
            return Err(EvalError::Undefined);
        }
        if a.contains_zero() {
            return Err(EvalError::Imprecise);
        }
        let bits = self.bits + GUARD + 48;
        let length = a.middle.bit_len();
        // a = m·2^k with m between 2/3 and 4/3
        let mut m = if length > bits { &a.middle >> (length - bits) } else { &a.middle << (bits - length) };
        let mut k = a.exponent + length as i64;
        if m.clone() * IBig::from(3) < IBig::from(2) << bits {
            m <<= 1;
            k -= 1;
        }
        let value = elementary::ln_near_one(&m, bits) + constants::ln2(bits)? * IBig::from(k);
        let relative = (&a.error << bits) / (a.abs_middle() - &a.error) + UBig::ONE;
        let slope = if a.error.is_zero() { UBig::ZERO } else { relative };
        if k == 0 && m == IBig::ONE << bits && a.error.is_zero() {
            return Ok(Real::integer(0));
        }
        // ln 2 is multiplied by k, and so is its error.
        let guard = (UBig::ONE << GUARD) + UBig::from(k.unsigned_abs());
        self.round(value, slope + guard, -(bits as i64))
    }

    pub(crate) fn sin_cos(&mut self, a: &Real) -> Result<(Real, Real)> {
        if a.is_exact_zero() {
            return Ok((Real::integer(0), Real::integer(1)));
        }
        if a.magnitude() > MAX_TOP {
            return Err(EvalError::TooLarge);
        }
        // cos x is 1 - x²/2 where x is small.
        self.note_absorption(2 * a.magnitude(), 0);
        let bits = self.working_bits(a);
        let (sin, cos) = elementary::sin_cos(&a.fixed(bits), bits)?;
        // π was subtracted as many times as the bits before the point indicate, each time with its error.
        let before = usize::try_from(a.magnitude()).unwrap_or(0);
        let error = a.fixed_error(bits) + (UBig::ONE << (GUARD + before));
        if error.bit_len() > bits {
            return Err(EvalError::Imprecise);
        }
        let exponent = -(bits as i64);
        Ok((self.round(sin, error.clone(), exponent)?, self.round(cos, error, exponent)?))
    }

    pub(crate) fn arctan(&mut self, a: &Real) -> Result {
        if a.is_exact_zero() {
            return Ok(Real::integer(0));
        }
        let one = Real::integer(1);
        let beyond = self.subtract(&a.abs(), &one)?;
        if beyond.is_positive() {
            // arctan x = ±π/2 - arctan(1/x)
            let rest = self.arctan_small(&self.divide(&one, a)?)?;
            let quarter = self.half(&self.pi()?);
            let quarter = if a.is_negative() { quarter.negated() } else { quarter };
            return self.subtract(&quarter, &rest);
        }
        if a.magnitude() > 4 {
            return Err(EvalError::Imprecise);
        }
        self.arctan_small(a)
    }

    /// Inverse tangent of numbers up to slightly above 1.
    fn arctan_small(&self, a: &Real) -> Result {
        let bits = self.working_bits(a) + usize::try_from(-a.magnitude()).unwrap_or(0).min(self.bits);
        let value = elementary::arctan(&a.fixed(bits), bits);
        let error = a.fixed_error(bits) + (UBig::ONE << GUARD);
        self.round(value, error, -(bits as i64))
    }

    /// The arcsine, by `2·arctan(x/(1 + √(1 - x²)))`, which has no pole.
    pub(crate) fn arcsin(&mut self, a: &Real) -> Result {
        let one = Real::integer(1);
        let square = self.multiply(a, a)?;
        let rest = self.subtract(&one, &square)?;
        if rest.is_negative() {
            return Err(EvalError::Undefined);
        }
        let root = self.sqrt(&rest)?;
        let below = self.add(&one, &root)?;
        let tangent = self.divide(a, &below)?;
        let half = self.arctan(&tangent)?;
        self.add(&half, &half)
    }

    pub(crate) fn half(&self, a: &Real) -> Real {
        Real { exponent: a.exponent - 1, ..a.clone() }
    }

    /// Working precision: the requested bits, guard bits, and bits before the point, also for what is multiplied by
    /// them.
    fn working_bits(&self, a: &Real) -> usize {
        let before = usize::try_from(a.magnitude()).unwrap_or(0);
        self.bits + 2 * GUARD + 8 + 2 * before
    }
}
