//! Values modulo two primes at a pseudo-random point: expressions that agree are identical except with probability
//! below 2^-100, and expressions that differ are different. Powers of any size cost a few multiplications.
//!
//! Operations outside of a field have no residue: roots, logarithms, trigonometry. π and e are treated as variables,
//! since nothing built from them by field operations is rational; i is a root of -1.

use dashu_ratio::RBig;

use super::algebra::{Algebra, EvalError};
use super::points::Variables;
use super::prime::{self, PRIMES, ROOTS_OF_MINUS_ONE};
use crate::expr::{Constant, Function};
use crate::{Fuel, Number};

/// Largest number whose factorial is computed.
const MAX_FACTORIAL: i64 = 20_000;

/// A value modulo both primes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Residue {
    value: [u64; 2],
    /// Modulo each prime minus one, for use in exponents. `None` unless it is built from integers by ring operations.
    exponent: Option<[u64; 2]>,
    /// The value itself if it is a small integer.
    small: Option<i64>,
}

impl Residue {
    /// Whether both residues are equal.
    pub(crate) fn equals(&self, other: &Self) -> bool {
        self.value == other.value
    }

    /// Whether it is zero.
    pub(crate) fn is_zero(&self) -> bool {
        self.value == [0, 0]
    }
}

/// The domain of residues at one point.
#[derive(Debug)]
pub(crate) struct Modular<'n> {
    /// The number of the point.
    pub(crate) seed: u64,
    /// Variables restricted to small integers.
    pub(crate) variables: &'n Variables,
}

/// Moduli of exponents: the primes minus one.
const ORDERS: [u64; 2] = [PRIMES[0] - 1, PRIMES[1] - 1];

/// Applies `f(a, modulus)` to both.
fn each(a: [u64; 2], moduli: [u64; 2], f: impl Fn(u64, u64) -> u64) -> [u64; 2] {
    let [a, b] = a;
    let [p, q] = moduli;
    [f(a, p), f(b, q)]
}

/// Applies `f(a, b, modulus)` to both.
fn both(a: [u64; 2], b: [u64; 2], moduli: [u64; 2], f: impl Fn(u64, u64, u64) -> u64) -> [u64; 2] {
    let ([a, b], [x, y], [p, q]) = (a, b, moduli);
    [f(a, x, p), f(b, y, q)]
}

/// The inverses modulo both primes. `None` if one is zero.
fn inverse([a, b]: [u64; 2]) -> Option<[u64; 2]> {
    let [p, q] = PRIMES;
    Some([prime::inverse(a, p)?, prime::inverse(b, q)?])
}

/// Pseudo-random residues derived from a number.
fn spread(random: u64) -> [u64; 2] {
    each([0, 1], PRIMES, |k, prime| prime::mix(random ^ k) % prime)
}

/// Applies the same operation to values and exponents.
fn ring(a: &Residue, b: &Residue, f: impl Fn(u64, u64, u64) -> u64, small: Option<i64>) -> Residue {
    let value = both(a.value, b.value, PRIMES, &f);
    let exponent = a.exponent.zip(b.exponent).map(|(a, b)| both(a, b, ORDERS, &f));
    Residue { value, exponent, small }
}

impl Modular<'_> {
    fn random(&self, name: &str) -> u64 {
        prime::mix(self.seed ^ prime::hash(name))
    }

    /// A value that is not an integer.
    fn generic(&self, name: &str) -> Residue {
        Residue { value: spread(self.random(name)), exponent: None, small: None }
    }

    fn rational(value: &RBig) -> Result<Residue, EvalError> {
        let numerator = value.numerator();
        let above = PRIMES.map(|prime| prime::reduce(numerator, prime));
        if value.is_int() {
            let exponent = ORDERS.map(|order| prime::reduce(numerator, order));
            return Ok(Residue { value: above, exponent: Some(exponent), small: i64::try_from(numerator).ok() });
        }
        let below = PRIMES.map(|prime| prime::reduce_unsigned(value.denominator(), prime));
        let below = inverse(below).ok_or(EvalError::Undefined)?;
        Ok(Residue { value: both(above, below, PRIMES, prime::multiply), exponent: None, small: None })
    }

    /// The product of two residues.
    pub(crate) fn product_of(a: &Residue, b: &Residue) -> Residue {
        ring(a, b, prime::multiply, None)
    }

    fn product(&mut self, factors: impl Iterator<Item = i64>, fuel: &mut Fuel) -> Result<Residue, EvalError> {
        let mut product = self.integer(1)?;
        for factor in factors {
            fuel.spend(6)?;
            let factor = self.integer(factor)?;
            product = self.multiply(&product, &factor)?;
        }
        Ok(product)
    }
}

impl Algebra for Modular<'_> {
    type Value = Residue;

    fn cost(&self) -> usize {
        2
    }

    fn division_cost(&self) -> usize {
        // Two inversions, each a power.
        250
    }

    fn literal(&mut self, number: &Number) -> Result<Residue, EvalError> {
        Self::rational(number.exact().ok_or(EvalError::TooLarge)?)
    }

    fn integer(&mut self, integer: i64) -> Result<Residue, EvalError> {
        Self::rational(&RBig::from(integer))
    }

    fn constant(&mut self, constant: Constant) -> Result<Residue, EvalError> {
        Ok(match constant {
            Constant::Pi => self.generic("\\pi"),
            Constant::E => self.generic("\\e"),
            Constant::I => Residue { value: ROOTS_OF_MINUS_ONE, exponent: None, small: None },
        })
    }

    fn symbol(&mut self, name: &str) -> Result<Residue, EvalError> {
        if self.variables.is_integer_valued(name) {
            return self.integer(i64::from(self.random(name) as u8 % 9) + 2);
        }
        // An integer, so that it may also be an exponent.
        let integer = (self.random(name) >> 22) + 2;
        Ok(Residue { value: [integer; 2], exponent: Some([integer; 2]), small: None })
    }

    fn negate(&mut self, a: &Residue) -> Result<Residue, EvalError> {
        let value = each(a.value, PRIMES, prime::negate);
        let exponent = a.exponent.map(|exponent| each(exponent, ORDERS, prime::negate));
        Ok(Residue { value, exponent, small: a.small.and_then(i64::checked_neg) })
    }

    fn add(&mut self, a: &Residue, b: &Residue) -> Result<Residue, EvalError> {
        let small = a.small.zip(b.small).and_then(|(a, b)| a.checked_add(b));
        Ok(ring(a, b, prime::add, small))
    }

    fn multiply(&mut self, a: &Residue, b: &Residue) -> Result<Residue, EvalError> {
        let small = a.small.zip(b.small).and_then(|(a, b)| a.checked_mul(b));
        Ok(ring(a, b, prime::multiply, small))
    }

    fn divide(&mut self, a: &Residue, b: &Residue) -> Result<Residue, EvalError> {
        let inverse = inverse(b.value).ok_or(EvalError::Undefined)?;
        let value = both(a.value, inverse, PRIMES, prime::multiply);
        let whole = |(a, b): (i64, i64)| a.checked_div(b).filter(|_| a.checked_rem(b) == Some(0));
        let small = a.small.zip(b.small).and_then(whole);
        Ok(Residue {
            value,
            exponent: small.map(|small| ORDERS.map(|order| prime::reduce(&small.into(), order))),
            small,
        })
    }

    fn power(&mut self, a: &Residue, b: &Residue, _: Option<&RBig>, fuel: &mut Fuel) -> Result<Residue, EvalError> {
        fuel.spend(250)?;
        let exponent = b.exponent.ok_or(EvalError::Unsupported)?;
        if a.value.contains(&0) && b.small.is_none_or(|small| small <= 0) {
            return Err(EvalError::Undefined);
        }
        let value = both(a.value, exponent, PRIMES, prime::power);
        let small = match (a.small, b.small) {
            (Some(a), Some(b)) => u32::try_from(b).ok().and_then(|b| a.checked_pow(b)),
            _ => None,
        };
        // The order modulo a prime minus one is unknown, so a tower needs the exponents themselves.
        let exponent = match (a.exponent, b.small) {
            (Some(base), Some(small)) if small >= 0 => {
                Some(each(base, ORDERS, |base, order| prime::power(base, small.unsigned_abs(), order)))
            }
            _ => None,
        };
        Ok(Residue { value, exponent, small })
    }

    fn call(&mut self, function: Function, a: &Residue, fuel: &mut Fuel) -> Result<Residue, EvalError> {
        let small = |max| a.small.filter(|small| (0..=max).contains(small)).ok_or(EvalError::Unsupported);
        match function {
            Function::Factorial => {
                let n = small(MAX_FACTORIAL)?;
                self.product(2..=n, fuel)
            }
            Function::DoubleFactorial => {
                let n = small(MAX_FACTORIAL)?;
                self.product((0..n).step_by(2).map(|step| n - step), fuel)
            }
            _ => Err(EvalError::Unsupported),
        }
    }

    fn call2(&mut self, function: Function, a: &Residue, b: &Residue, fuel: &mut Fuel) -> Result<Residue, EvalError> {
        match (function, a.small, b.small) {
            (Function::Binomial, Some(n), Some(k)) if 0 <= k && k <= n => {
                let k = k.min(n - k);
                if k > MAX_FACTORIAL {
                    return Err(EvalError::Unsupported);
                }
                let above = self.product((0..k).map(|step| n - step), fuel)?;
                let below = self.product(2..=k, fuel)?;
                let mut quotient = self.divide(&above, &below)?;
                quotient.exponent = None;
                Ok(quotient)
            }
            _ => Err(EvalError::Unsupported),
        }
    }

    fn apply(&mut self, name: &str, a: &Residue) -> Result<Residue, EvalError> {
        // Equal arguments have equal values, whatever the function is.
        let [first, second] = a.value;
        let random = prime::mix(self.random(name) ^ first) ^ second;
        Ok(Residue { value: spread(random), exponent: None, small: None })
    }

    fn as_integer(&self, a: &Residue) -> Option<i64> {
        a.small
    }
}
