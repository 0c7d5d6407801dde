//! Exact values of closed expressions: rationals and sums of square roots.

use dashu_int::ops::BitTest;
use dashu_int::{IBig, UBig};
use dashu_ratio::RBig;

use super::algebra::{Algebra, EvalError, evaluate};
use super::surd::Surd;
use crate::expr::{Constant, Expr, Function};
use crate::{Fuel, MAX_EXACT_DIGITS, Number};

/// Bits of the longest number that is computed, about as many as the digits that are read.
const MAX_BITS: usize = MAX_EXACT_DIGITS * 10 / 3;
/// Largest number whose factorial is computed.
const MAX_FACTORIAL: i64 = 3_000;
/// Largest exponent of a sum of roots.
const MAX_SURD_EXPONENT: u64 = 256;

/// The exact value of a closed expression. `None` if it is not of this kind or too long.
///
/// # Errors
/// [`EvalError::Undefined`] where it divides by zero, and [`EvalError::OutOfFuel`].
pub(crate) fn exact(expr: &Expr, fuel: &mut Fuel) -> Result<Option<Surd>, EvalError> {
    match evaluate(expr, &mut Exact { variable: None }, fuel) {
        Ok(value) => Ok(Some(value)),
        Err(fault @ (EvalError::Undefined | EvalError::OutOfFuel)) => Err(fault),
        Err(_) => Ok(None),
    }
}

/// The domain of exact values.
#[derive(Debug)]
pub(crate) struct Exact {
    /// The value of every variable.
    variable: Option<RBig>,
}

/// Steps for one value of an expression in one variable.
const VALUE_FUEL: u64 = 20_000;

/// The rational value of an expression in one variable. `None` if it has none.
pub(crate) fn exact_at(expr: &Expr, variable: &RBig) -> Option<RBig> {
    let mut domain = Exact { variable: Some(variable.clone()) };
    evaluate(expr, &mut domain, &mut Fuel::new(VALUE_FUEL)).ok()?.as_rational()
}

fn known(value: Option<Surd>) -> Result<Surd, EvalError> {
    value.ok_or(EvalError::Unsupported)
}

fn bits(value: &RBig) -> usize {
    value.numerator().bit_len().max(value.denominator().bit_len())
}

fn integer_power(base: &RBig, exponent: i64, fuel: &mut Fuel) -> Result<RBig, EvalError> {
    let size = exponent.unsigned_abs();
    if base.is_zero() {
        return match exponent {
            0 => Ok(RBig::ONE),
            1.. => Ok(RBig::ZERO),
            _ => Err(EvalError::Undefined),
        };
    }
    // For ±1 only the parity of the exponent matters.
    let size = if bits(base) == 1 { size % 2 } else { size };
    let length = (bits(base) as u64).saturating_mul(size);
    if length > MAX_BITS as u64 {
        return Err(EvalError::TooLarge);
    }
    let words = length as usize / 64;
    fuel.spend(words + words * words / 128)?;
    let power = base.clone().pow(size as isize);
    Ok(if exponent < 0 { RBig::ONE / power } else { power })
}

impl Exact {
    fn surd_power(base: &Surd, exponent: i64, fuel: &mut Fuel) -> Result<Surd, EvalError> {
        if exponent.unsigned_abs() > MAX_SURD_EXPONENT {
            return Err(EvalError::TooLarge);
        }
        let mut result = Surd::rational(RBig::ONE);
        for bit in (0..9).rev() {
            fuel.spend(16)?;
            result = known(result.times(&result))?;
            if exponent.unsigned_abs() >> bit & 1 == 1 {
                result = known(result.times(base))?;
            }
        }
        if exponent < 0 { known(result.inverse()) } else { Ok(result) }
    }

    fn product(factors: impl Iterator<Item = i64>, fuel: &mut Fuel) -> Result<Surd, EvalError> {
        let mut product = UBig::ONE;
        for factor in factors {
            fuel.spend(1 + product.bit_len() / 512)?;
            product *= factor.unsigned_abs();
        }
        Ok(Surd::rational(RBig::from(product)))
    }

    /// A rational root: of a perfect power, and for odd indices also of its negative.
    fn root(radicand: &RBig, index: i64, fuel: &mut Fuel) -> Result<Surd, EvalError> {
        let index =
            usize::try_from(index).ok().filter(|index| (1..=64).contains(index)).ok_or(EvalError::Unsupported)?;
        if index == 2 {
            return known(Surd::sqrt(radicand));
        }
        let negative = *radicand < RBig::ZERO;
        if negative && index.is_multiple_of(2) {
            return Err(EvalError::Unsupported);
        }
        let (_, above) = radicand.numerator().clone().into_parts();
        let below = radicand.denominator();
        if above.bit_len().max(below.bit_len()) > 4096 {
            return Err(EvalError::TooLarge);
        }
        fuel.spend(above.bit_len() + below.bit_len())?;
        let top = above.nth_root(index);
        let bottom = below.nth_root(index);
        if top.clone().pow(index) != above || bottom.clone().pow(index) != *below {
            return Err(EvalError::Unsupported);
        }
        let root = RBig::from_parts(IBig::from(top), bottom);
        Ok(Surd::rational(if negative { -root } else { root }))
    }
}

impl Algebra for Exact {
    type Value = Surd;

    fn cost(&self) -> usize {
        4
    }

    fn length_cost(&self, a: &Surd, b: &Surd) -> usize {
        let words = (a.bits() + b.bits()) / 64;
        // Fractions are reduced, which costs more than any sum or product.
        let is_whole = |value: &Surd| value.as_rational().is_some_and(|value| value.is_int());
        if is_whole(a) && is_whole(b) { words + words * words / 64 } else { words + words * words / 8 }
    }

    fn literal(&mut self, number: &Number) -> Result<Surd, EvalError> {
        number.exact().cloned().map(Surd::rational).ok_or(EvalError::TooLarge)
    }

    fn integer(&mut self, integer: i64) -> Result<Surd, EvalError> {
        Ok(Surd::rational(RBig::from(integer)))
    }

    fn constant(&mut self, constant: Constant) -> Result<Surd, EvalError> {
        match constant {
            Constant::I => Ok(Surd::imaginary_unit()),
            Constant::Pi | Constant::E => Err(EvalError::Unsupported),
        }
    }

    fn symbol(&mut self, _: &str) -> Result<Surd, EvalError> {
        self.variable.clone().map(Surd::rational).ok_or(EvalError::Unsupported)
    }

    fn negate(&mut self, a: &Surd) -> Result<Surd, EvalError> {
        Ok(a.negated())
    }

    fn add(&mut self, a: &Surd, b: &Surd) -> Result<Surd, EvalError> {
        fits(known(a.plus(b))?)
    }

    fn multiply(&mut self, a: &Surd, b: &Surd) -> Result<Surd, EvalError> {
        fits(known(a.times(b))?)
    }

    fn divide(&mut self, a: &Surd, b: &Surd) -> Result<Surd, EvalError> {
        if b.as_rational().is_some_and(|b| b.is_zero()) {
            return Err(EvalError::Undefined);
        }
        fits(known(b.inverse().and_then(|inverse| a.times(&inverse)))?)
    }

    fn power(&mut self, a: &Surd, b: &Surd, _: Option<&RBig>, fuel: &mut Fuel) -> Result<Surd, EvalError> {
        let exponent = b.as_rational().ok_or(EvalError::Unsupported)?;
        let whole = i64::try_from(exponent.numerator()).map_err(|_| EvalError::TooLarge)?;
        if exponent.is_int() {
            return match a.as_rational() {
                Some(base) => integer_power(&base, whole, fuel).map(Surd::rational),
                None => Self::surd_power(a, whole, fuel),
            };
        }
        // a^(p/q) is the root of a^p, for a base above zero.
        let index = i64::try_from(exponent.denominator()).map_err(|_| EvalError::TooLarge)?;
        let base = a.as_rational().filter(|base| *base > RBig::ZERO).ok_or(EvalError::Unsupported)?;
        Self::root(&integer_power(&base, whole, fuel)?, index, fuel)
    }

    fn call(&mut self, function: Function, a: &Surd, fuel: &mut Fuel) -> Result<Surd, EvalError> {
        let value = a.as_rational().ok_or(EvalError::Unsupported)?;
        let small = || self.as_integer(a).filter(|n| (0..=MAX_FACTORIAL).contains(n)).ok_or(EvalError::Unsupported);
        match function {
            Function::Sqrt => {
                fuel.spend(40)?;
                known(Surd::sqrt(&value))
            }
            Function::Abs => Ok(Surd::rational(if value < RBig::ZERO { -value } else { value })),
            Function::Floor => Ok(Surd::rational(RBig::from(value.floor()))),
            Function::Ceiling => Ok(Surd::rational(RBig::from(value.ceil()))),
            Function::Factorial => {
                let n = small()?;
                Self::product(2..=n, fuel)
            }
            Function::DoubleFactorial => {
                let n = small()?;
                Self::product((0..n).step_by(2).map(|step| n - step), fuel)
            }
            Function::RealPart => Ok(Surd::rational(value)),
            Function::ImaginaryPart => Ok(Surd::rational(RBig::ZERO)),
            _ => Err(EvalError::Unsupported),
        }
    }

    fn call2(&mut self, function: Function, a: &Surd, b: &Surd, fuel: &mut Fuel) -> Result<Surd, EvalError> {
        fuel.spend(16)?;
        let (x, y) = a.as_rational().zip(b.as_rational()).ok_or(EvalError::Unsupported)?;
        let integers = self.as_integer(a).zip(self.as_integer(b));
        match (function, integers) {
            (Function::Root, Some((_, index))) => Self::root(&x, index, fuel),
            (Function::Root, None) => Self::root(&x, self.as_integer(b).ok_or(EvalError::Unsupported)?, fuel),
            (Function::Min, _) => Ok(Surd::rational(x.min(y))),
            (Function::Max, _) => Ok(Surd::rational(x.max(y))),
            (Function::Modulo, _) if !y.is_zero() => {
                let whole = RBig::from((x.clone() / y.clone()).floor());
                Ok(Surd::rational(x - whole * y))
            }
            (Function::Gcd | Function::Lcm, Some((a, b))) => {
                let a = i128::from(a).abs();
                let b = i128::from(b).abs();
                let mut common = a;
                let mut rest = b;
                while rest != 0 {
                    (common, rest) = (rest, common % rest);
                }
                let value = match (function, common) {
                    (Function::Gcd, _) => common,
                    (_, 0) => 0,
                    _ => a / common * b,
                };
                Ok(Surd::rational(RBig::from(value)))
            }
            (Function::Binomial, Some((n, k))) if (0..=n).contains(&k) => {
                let k = k.min(n - k);
                // The binomial coefficient is at most the power of n.
                let bits = u64::from(u64::BITS - n.leading_zeros());
                if k > MAX_FACTORIAL || k.unsigned_abs().saturating_mul(bits) > MAX_BITS as u64 {
                    return Err(EvalError::TooLarge);
                }
                let above = Self::product((0..k).map(|step| n - step), fuel)?;
                let below = Self::product(2..=k, fuel)?;
                self.divide(&above, &below)
            }
            _ => Err(EvalError::Unsupported),
        }
    }

    fn apply(&mut self, _: &str, _: &Surd) -> Result<Surd, EvalError> {
        Err(EvalError::Unsupported)
    }

    fn as_integer(&self, a: &Surd) -> Option<i64> {
        let value = a.as_rational()?;
        if value.is_int() { i64::try_from(value.numerator()).ok() } else { None }
    }
}

/// Bounds the growth of sums and products of long numbers.
fn fits(value: Surd) -> Result<Surd, EvalError> {
    if value.bits() > 2 * MAX_BITS { Err(EvalError::TooLarge) } else { Ok(value) }
}
