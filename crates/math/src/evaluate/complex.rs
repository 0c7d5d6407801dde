//! Complex numbers as pairs of enclosures.

use super::algebra::EvalError;
use super::real::{Precision, Real, Result};

/// A complex number; without an imaginary part it is exactly real.
#[derive(Debug, Clone)]
pub(crate) struct Complex {
    pub(crate) re: Real,
    pub(crate) im: Option<Real>,
}

impl From<Real> for Complex {
    fn from(re: Real) -> Self {
        Self { re, im: None }
    }
}

impl Complex {
    pub(super) fn imaginary_unit() -> Self {
        Self { re: Real::integer(0), im: Some(Real::integer(1)) }
    }

    fn of(re: Real, im: Real) -> Self {
        let im = if im.is_exact_zero() { None } else { Some(im) };
        Self { re, im }
    }

    pub(crate) fn imaginary(&self) -> Real {
        self.im.clone().unwrap_or_else(|| Real::integer(0))
    }

    /// Whether the enclosure contains zero.
    pub(crate) fn contains_zero(&self) -> bool {
        self.re.contains_zero() && self.im.as_ref().is_none_or(Real::contains_zero)
    }

    /// Whether both parts are known to that many bits.
    pub(crate) fn is_known_to(&self, bits: i64) -> bool {
        self.re.is_known_to(bits) && self.im.as_ref().is_none_or(|im| im.is_known_to(bits))
    }

    pub(super) fn negated(&self) -> Self {
        Self { re: self.re.negated(), im: self.im.as_ref().map(Real::negated) }
    }

    fn conjugate(&self) -> Self {
        Self { re: self.re.clone(), im: self.im.as_ref().map(Real::negated) }
    }
}

impl Precision {
    pub(crate) fn add_complex(&mut self, a: &Complex, b: &Complex) -> Result<Complex> {
        let re = self.add(&a.re, &b.re)?;
        let im = match (&a.im, &b.im) {
            (None, None) => return Ok(re.into()),
            (Some(one), None) | (None, Some(one)) => one.clone(),
            (Some(a), Some(b)) => self.add(a, b)?,
        };
        Ok(Complex::of(re, im))
    }

    pub(crate) fn subtract_complex(&mut self, a: &Complex, b: &Complex) -> Result<Complex> {
        self.add_complex(a, &b.negated())
    }

    pub(crate) fn multiply_complex(&mut self, a: &Complex, b: &Complex) -> Result<Complex> {
        let re = self.multiply(&a.re, &b.re)?;
        match (&a.im, &b.im) {
            (None, None) => Ok(re.into()),
            (Some(im), None) => Ok(Complex::of(re, self.multiply(im, &b.re)?)),
            (None, Some(im)) => Ok(Complex::of(re, self.multiply(&a.re, im)?)),
            (Some(x), Some(y)) => {
                let square = self.multiply(x, y)?;
                let re = self.subtract(&re, &square)?;
                let left = self.multiply(&a.re, y)?;
                let right = self.multiply(x, &b.re)?;
                let im = self.add(&left, &right)?;
                Ok(Complex::of(re, im))
            }
        }
    }

    pub(super) fn divide_complex(&mut self, a: &Complex, b: &Complex) -> Result<Complex> {
        if b.im.is_none() {
            let re = self.divide(&a.re, &b.re)?;
            return match &a.im {
                None => Ok(re.into()),
                Some(im) => Ok(Complex::of(re, self.divide(im, &b.re)?)),
            };
        }
        let norm = self.norm(b)?;
        let above = self.multiply_complex(a, &b.conjugate())?;
        self.divide_complex(&above, &norm.into())
    }

    /// The square of the absolute value.
    fn norm(&mut self, a: &Complex) -> Result {
        let re = self.multiply(&a.re, &a.re)?;
        match &a.im {
            None => Ok(re),
            Some(im) => {
                let im = self.multiply(im, im)?;
                self.add(&re, &im)
            }
        }
    }

    pub(super) fn abs_complex(&mut self, a: &Complex) -> Result {
        match &a.im {
            None => Ok(a.re.abs()),
            Some(_) => {
                let norm = self.norm(a)?;
                self.sqrt(&norm)
            }
        }
    }

    /// The principal square root.
    pub(super) fn sqrt_complex(&mut self, a: &Complex) -> Result<Complex> {
        let Some(im) = &a.im else {
            if a.re.is_negative() {
                return Ok(Complex { re: Real::integer(0), im: Some(self.sqrt(&a.re.negated())?) });
            }
            return Ok(self.sqrt(&a.re)?.into());
        };
        let size = self.abs_complex(a)?;
        // Computes the part that is a sum, and the other from it, to avoid cancellation.
        let right = !a.re.is_negative();
        let sum = if right { self.add(&size, &a.re)? } else { self.subtract(&size, &a.re)? };
        let part = self.sqrt(&self.half(&sum))?;
        let other = self.half(&self.divide(im, &part)?);
        if right {
            return Ok(Complex::of(part, other));
        }
        match () {
            () if im.is_positive() => Ok(Complex::of(other, part)),
            () if im.is_negative() => Ok(Complex::of(other.negated(), part.negated())),
            () => Err(EvalError::Imprecise),
        }
    }

    pub(super) fn exp_complex(&mut self, a: &Complex) -> Result<Complex> {
        let size = self.exp(&a.re)?;
        match &a.im {
            None => Ok(size.into()),
            Some(im) => {
                let (sin, cos) = self.sin_cos(im)?;
                Ok(Complex::of(self.multiply(&size, &cos)?, self.multiply(&size, &sin)?))
            }
        }
    }

    /// The principal branch of the logarithm.
    pub(super) fn ln_complex(&mut self, a: &Complex) -> Result<Complex> {
        let size = self.abs_complex(a)?;
        let re = self.ln(&size)?;
        let angle = self.angle(a)?;
        Ok(Complex::of(re, angle))
    }

    /// The angle, above -π and up to π.
    fn angle(&mut self, a: &Complex) -> Result {
        let Some(im) = &a.im else {
            return if a.re.is_negative() { self.pi() } else { Ok(Real::integer(0)) };
        };
        if a.re.is_positive() {
            let tangent = self.divide(im, &a.re)?;
            return self.arctan(&tangent);
        }
        // ±π/2 - arctan(re/im)
        let quarter = self.half(&self.pi()?);
        let quarter = match () {
            () if im.is_positive() => quarter,
            () if im.is_negative() => quarter.negated(),
            () => return Err(EvalError::Imprecise),
        };
        let tangent = self.divide(&a.re, im)?;
        let rest = self.arctan(&tangent)?;
        self.subtract(&quarter, &rest)
    }

    /// Sine and cosine, of complex numbers by the exponential function.
    pub(super) fn sin_cos_complex(&mut self, a: &Complex) -> Result<(Complex, Complex)> {
        if a.im.is_none() {
            let (sin, cos) = self.sin_cos(&a.re)?;
            return Ok((sin.into(), cos.into()));
        }
        let i = Complex::imaginary_unit();
        let turned = self.multiply_complex(a, &i)?;
        let forth = self.exp_complex(&turned)?;
        let back = self.exp_complex(&turned.negated())?;
        let half = Complex::from(Real::binary(1, -1));
        let sum = self.add_complex(&forth, &back)?;
        let difference = self.subtract_complex(&forth, &back)?;
        let cos = self.multiply_complex(&sum, &half)?;
        let sin = self.divide_complex(&self.clone_half(&difference), &i)?;
        Ok((sin, cos))
    }

    fn clone_half(&self, a: &Complex) -> Complex {
        Complex { re: self.half(&a.re), im: a.im.as_ref().map(|im| self.half(im)) }
    }

    /// An integer power, by squaring.
    pub(super) fn integer_power(&mut self, a: &Complex, exponent: i64) -> Result<Complex> {
        let mut result = Complex::from(Real::integer(1));
        let size = exponent.unsigned_abs();
        for bit in (0..64 - size.leading_zeros()).rev() {
            result = self.multiply_complex(&result, &result)?;
            if size >> bit & 1 == 1 {
                result = self.multiply_complex(&result, a)?;
            }
        }
        if exponent < 0 { self.divide_complex(&Real::integer(1).into(), &result) } else { Ok(result) }
    }
}
