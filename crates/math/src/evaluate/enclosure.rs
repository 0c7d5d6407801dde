//! Interval evaluation of an expression at a point.

mod functions;

use dashu_int::ops::BitTest;
use dashu_int::{IBig, UBig};
use dashu_ratio::RBig;

use super::algebra::{Algebra, EvalError};
use super::complex::Complex;
use super::points::Point;
use super::real::{Precision, Real, Result};
use crate::expr::{Constant, Function};
use crate::{Fuel, Notation, Number};

/// Largest number whose factorial is computed.
const MAX_FACTORIAL: i64 = 1_000;

/// How ambiguous expressions are interpreted.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct EnclosureOptions {
    /// Whether roots and logarithms of negative numbers are complex (otherwise undefined).
    pub(crate) complex: bool,
    /// Whether the logarithm without a base is decimal (otherwise natural).
    pub(crate) decimal_log: bool,
    /// Whether the variables z and w are complex.
    pub(crate) complex_letters: bool,
    /// Significant digits after the point from which a decimal stands for every number that rounds to it.
    pub(crate) rounded_from: Option<usize>,
}

/// Whether a variable usually denotes a complex number: z, w, and those with an index.
pub(crate) fn is_complex_letter(name: &str) -> bool {
    matches!(name.split('_').next(), Some("z" | "w"))
}

/// The domain of enclosures.
#[derive(Debug)]
pub(crate) struct Enclosure<'n> {
    pub(crate) precision: Precision,
    pub(crate) options: EnclosureOptions,
    pub(crate) point: Point<'n>,
}

impl Algebra for Enclosure<'_> {
    type Value = Complex;

    fn cost(&self) -> usize {
        8 + self.precision.bits / 8
    }

    fn literal(&mut self, number: &Number) -> Result<Complex> {
        let value = self.precision.rational(number.exact().ok_or(EvalError::TooLarge)?)?;
        if let (Some(least), Notation::Decimal { significant, places }) = (self.options.rounded_from, number.notation)
            && significant.min(places) >= least
            && places < 1000
        {
            // Half a unit of the last digit on both sides: what rounds to it.
            let half = RBig::from_parts(IBig::ONE, UBig::from(10_u8).pow(places) * UBig::from(2_u8));
            let half = self.precision.rational(&half)?;
            return Ok(self.precision.widen(&value, &half)?.into());
        }
        Ok(value.into())
    }

    fn integer(&mut self, integer: i64) -> Result<Complex> {
        Ok(Real::integer(integer).into())
    }

    fn constant(&mut self, constant: Constant) -> Result<Complex> {
        match constant {
            Constant::Pi => self.precision.pi().map(Into::into),
            Constant::E => self.precision.e().map(Into::into),
            Constant::I if self.options.complex => Ok(Complex::imaginary_unit()),
            Constant::I => Err(EvalError::Undefined),
        }
    }

    fn symbol(&mut self, name: &str) -> Result<Complex> {
        let re = self.point.value(name);
        let im =
            (self.options.complex_letters && is_complex_letter(name)).then(|| self.point.value(&format!("i {name}")));
        Ok(Complex { re, im })
    }

    fn negate(&mut self, a: &Complex) -> Result<Complex> {
        Ok(a.negated())
    }

    fn add(&mut self, a: &Complex, b: &Complex) -> Result<Complex> {
        self.precision.add_complex(a, b)
    }

    fn multiply(&mut self, a: &Complex, b: &Complex) -> Result<Complex> {
        self.precision.multiply_complex(a, b)
    }

    fn divide(&mut self, a: &Complex, b: &Complex) -> Result<Complex> {
        self.precision.divide_complex(a, b)
    }

    fn power(&mut self, a: &Complex, b: &Complex, exact: Option<&RBig>, fuel: &mut Fuel) -> Result<Complex> {
        fuel.spend(self.series())?;
        if b.im.is_none()
            && let Some(exponent) = b.re.as_integer()
        {
            if exponent <= 0 && a.im.is_none() && a.re.is_exact_zero() {
                return if exponent == 0 { self.integer(1) } else { Err(EvalError::Undefined) };
            }
            return self.precision.integer_power(a, exponent);
        }
        if !self.options.complex
            && a.re.is_negative()
            && let Some(exact) = exact
            && exact.denominator().bit_len() < 32
        {
            // a^(p/q) is the q-th root of a, to the p.
            let index = i64::try_from(exact.denominator()).map_err(|_| EvalError::Unsupported)?;
            let above = i64::try_from(exact.numerator()).map_err(|_| EvalError::TooLarge)?;
            let root = self.root(a, index)?;
            return self.precision.integer_power(&root, above);
        }
        self.by_exponential(a, b)
    }

    fn call(&mut self, function: Function, a: &Complex, fuel: &mut Fuel) -> Result<Complex> {
        fuel.spend(self.series())?;
        let small = || self.as_integer(a).filter(|n| (0..=MAX_FACTORIAL).contains(n)).ok_or(EvalError::Unsupported);
        match function {
            Function::Sqrt => self.sqrt(a),
            Function::Exp => self.precision.exp_complex(a),
            Function::Ln => self.ln(a),
            Function::Log | Function::Lg if self.options.decimal_log || function == Function::Lg => {
                let above = self.ln(a)?;
                let below = self.precision.ln(&Real::integer(10))?;
                self.quotient(above, below.into())
            }
            Function::Log => self.ln(a),
            Function::Sin | Function::Cos | Function::Tan | Function::Cot | Function::Sec | Function::Csc => {
                self.trigonometric(function, a)
            }
            Function::Arcsin | Function::Arccos | Function::Arctan | Function::Arccot => {
                self.inverse_trigonometric(function, Self::real(a)?)
            }
            Function::Sinh | Function::Cosh | Function::Tanh => self.hyperbolic(function, a),
            Function::Arcsinh | Function::Arccosh | Function::Arctanh => self.inverse_hyperbolic(function, a),
            Function::Abs => self.precision.abs_complex(a).map(Into::into),
            Function::Floor => Self::real(a)?.floor().map(Into::into).ok_or(EvalError::Imprecise),
            Function::Ceiling => {
                let floor = Self::real(a)?.negated().floor().ok_or(EvalError::Imprecise)?;
                Ok(floor.negated().into())
            }
            Function::Factorial => {
                let n = small()?;
                self.product(2..=n, fuel)
            }
            Function::DoubleFactorial => {
                let n = small()?;
                self.product((0..n).step_by(2).map(|step| n - step), fuel)
            }
            Function::RealPart => Ok(a.re.clone().into()),
            Function::ImaginaryPart => Ok(a.imaginary().into()),
            _ => Err(EvalError::Unsupported),
        }
    }

    fn call2(&mut self, function: Function, a: &Complex, b: &Complex, fuel: &mut Fuel) -> Result<Complex> {
        fuel.spend(2 * self.series())?;
        match function {
            Function::LogBase => {
                let above = self.ln(a)?;
                let below = self.ln(b)?;
                self.quotient(above, below)
            }
            Function::Root => match self.as_integer(b) {
                Some(index) => self.root(a, index),
                None => {
                    let one = Real::integer(1).into();
                    let exponent = self.quotient(one, b.clone())?;
                    self.by_exponential(a, &exponent)
                }
            },
            Function::Modulo => {
                let quotient = self.quotient(a.clone(), b.clone())?;
                let whole = Self::real(&quotient)?.floor().ok_or(EvalError::Imprecise)?;
                let multiple = self.precision.multiply_complex(&whole.into(), b)?;
                self.precision.subtract_complex(a, &multiple)
            }
            Function::Min | Function::Max => {
                let difference = self.precision.subtract(Self::real(a)?, Self::real(b)?)?;
                match () {
                    () if difference.is_negative() == (function == Function::Min) && !difference.contains_zero() => {
                        Ok(a.clone())
                    }
                    () if !difference.contains_zero() => Ok(b.clone()),
                    () => Err(EvalError::Imprecise),
                }
            }
            Function::Binomial => {
                let (n, k) = self.as_integer(a).zip(self.as_integer(b)).ok_or(EvalError::Unsupported)?;
                if !(0..=MAX_FACTORIAL).contains(&k) {
                    return Err(EvalError::Unsupported);
                }
                // The last factor.
                n.checked_sub(k).ok_or(EvalError::TooLarge)?;
                let above = self.product((0..k).map(|step| n - step), fuel)?;
                let below = self.product(2..=k, fuel)?;
                self.quotient(above, below)
            }
            _ => Err(EvalError::Unsupported),
        }
    }

    fn apply(&mut self, name: &str, a: &Complex) -> Result<Complex> {
        // Equal arguments have equal values, whatever the function is; the argument must be exact.
        let argument = Self::real(a)?.as_binary().ok_or(EvalError::Unsupported)?;
        Ok(self.point.function_value(name, argument).into())
    }

    fn as_integer(&self, a: &Complex) -> Option<i64> {
        if a.im.is_some() { None } else { a.re.as_integer() }
    }
}
