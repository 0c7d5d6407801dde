//! Functions of enclosures: roots, powers, logarithms, trigonometric and hyperbolic functions with their inverses.

use super::Enclosure;
use crate::Fuel;
use crate::evaluate::algebra::EvalError;
use crate::evaluate::complex::Complex;
use crate::evaluate::real::{Real, Result};
use crate::expr::Function;

impl Enclosure<'_> {
    pub(super) fn real(a: &Complex) -> Result<&Real> {
        if a.im.is_some() { Err(EvalError::Unsupported) } else { Ok(&a.re) }
    }

    pub(super) fn sqrt(&mut self, a: &Complex) -> Result<Complex> {
        if self.options.complex {
            self.precision.sqrt_complex(a)
        } else {
            self.precision.sqrt(Self::real(a)?).map(Into::into)
        }
    }

    pub(super) fn ln(&mut self, a: &Complex) -> Result<Complex> {
        if self.options.complex {
            self.precision.ln_complex(a)
        } else {
            self.precision.ln(Self::real(a)?).map(Into::into)
        }
    }

    /// Steps of a power series: about as many multiplications as bits, each of this many words.
    pub(super) fn series(&self) -> usize {
        let bits = self.precision.bits;
        let real = 4 * bits + bits * bits / 256;
        // A complex function takes several real ones.
        if self.options.complex { 3 * real } else { real }
    }

    /// The quotient of two values.
    pub(super) fn quotient(&mut self, above: Complex, below: Complex) -> Result<Complex> {
        self.precision.divide_complex(&above, &below)
    }

    /// An odd root of a negative number is negative.
    pub(super) fn root(&mut self, a: &Complex, index: i64) -> Result<Complex> {
        if index == 0 {
            return Err(EvalError::Undefined);
        }
        if index == 2 {
            return self.sqrt(a);
        }
        if a.im.is_none() && index % 2 != 0 && a.re.is_negative() {
            let root = self.root(&a.negated(), index)?;
            return Ok(root.negated());
        }
        if a.re.is_exact_zero() && a.im.is_none() && index > 0 {
            return Ok(a.clone());
        }
        let ln = self.ln(a)?;
        let part = self.precision.divide_complex(&ln, &Real::integer(index).into())?;
        self.precision.exp_complex(&part)
    }

    pub(super) fn by_exponential(&mut self, a: &Complex, b: &Complex) -> Result<Complex> {
        if a.im.is_none() && a.re.is_exact_zero() {
            return if b.re.is_positive() { Ok(a.clone()) } else { Err(EvalError::Undefined) };
        }
        let ln = self.ln(a)?;
        let exponent = self.precision.multiply_complex(&ln, b)?;
        self.precision.exp_complex(&exponent)
    }

    pub(super) fn hyperbolic(&mut self, function: Function, a: &Complex) -> Result<Complex> {
        let forth = self.precision.exp_complex(a)?;
        let back = self.precision.exp_complex(&a.negated())?;
        let sum = self.precision.add_complex(&forth, &back)?;
        let difference = self.precision.subtract_complex(&forth, &back)?;
        let two = Complex::from(Real::integer(2));
        match function {
            Function::Sinh => self.quotient(difference, two),
            Function::Cosh => self.quotient(sum, two),
            _ => self.quotient(difference, sum),
        }
    }

    pub(super) fn inverse_hyperbolic(&mut self, function: Function, a: &Complex) -> Result<Complex> {
        let one = Complex::from(Real::integer(1));
        if function == Function::Arctanh {
            let above = self.precision.add_complex(&one, a)?;
            let below = self.precision.subtract_complex(&one, a)?;
            let quotient = self.quotient(above, below)?;
            let ln = self.ln(&quotient)?;
            return self.quotient(ln, Real::integer(2).into());
        }
        // arsinh x = ln(x + √(x² + 1)), and arcosh with the other sign.
        let square = self.precision.multiply_complex(a, a)?;
        let one = if function == Function::Arcsinh { one } else { one.negated() };
        let below = self.precision.add_complex(&square, &one)?;
        let root = self.sqrt(&below)?;
        let sum = self.precision.add_complex(a, &root)?;
        self.ln(&sum)
    }

    pub(super) fn product(&mut self, factors: impl Iterator<Item = i64>, fuel: &mut Fuel) -> Result<Complex> {
        let mut product = Real::integer(1);
        for factor in factors {
            fuel.spend(4)?;
            product = self.precision.multiply(&product, &Real::integer(factor))?;
        }
        Ok(product.into())
    }

    pub(super) fn trigonometric(&mut self, function: Function, a: &Complex) -> Result<Complex> {
        let (sin, cos) = self.precision.sin_cos_complex(a)?;
        let one = || Complex::from(Real::integer(1));
        match function {
            Function::Sin => Ok(sin),
            Function::Cos => Ok(cos),
            Function::Tan => self.quotient(sin, cos),
            Function::Cot => self.quotient(cos, sin),
            Function::Sec => self.quotient(one(), cos),
            _ => self.quotient(one(), sin),
        }
    }

    pub(super) fn inverse_trigonometric(&mut self, function: Function, a: &Real) -> Result<Complex> {
        let precision = &mut self.precision;
        let value = match function {
            Function::Arcsin => precision.arcsin(a)?,
            Function::Arctan => precision.arctan(a)?,
            _ => {
                let other = if function == Function::Arccos { precision.arcsin(a)? } else { precision.arctan(a)? };
                let quarter = precision.half(&precision.pi()?);
                precision.subtract(&quarter, &other)?
            }
        };
        Ok(value.into())
    }
}
