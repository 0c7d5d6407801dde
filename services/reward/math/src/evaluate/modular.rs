//! Values modulo two primes at a random point: two expressions that agree there are identical, but for a chance below 2^-100, and two
//! that do not are different. Powers of any size cost a few multiplications.
//!
//! What is not a field operation has no residue: roots, logarithms, trigonometry. π and e are variables here, since nothing that is
//! built from them by field operations alone has a rational value; i is a root of -1.

use dashu_ratio::RBig;

use super::algebra::{Algebra, Fault};
use super::points::Names;
use super::prime::{self, PRIMES, ROOTS_OF_MINUS_ONE};
use crate::expr::{Constant, Function};
use crate::{Fuel, Number};

/// Largest number whose factorial is multiplied out.
const MAX_FACTORIAL: i64 = 20_000;

/// A value modulo both primes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Residue {
    value: [u64; 2],
    /// Modulo the primes less one, which exponents are counted by. `None` where it is not built from integers by ring operations.
    exponent: Option<[u64; 2]>,
    /// The value itself where it is a small integer.
    small: Option<i64>,
}

impl Residue {
    /// Whether both are the same residues.
    pub(crate) fn equals(&self, other: &Self) -> bool {
        self.value == other.value
    }

    /// Whether it is zero.
    pub(crate) fn is_zero(&self) -> bool {
        self.value == [0, 0]
    }
}

/// The domain at one point.
#[derive(Debug)]
pub(crate) struct Modular<'n> {
    /// Which point.
    pub(crate) seed: u64,
    /// Variables that must be small integers here.
    pub(crate) names: &'n Names,
}

fn each(f: impl Fn(usize) -> u64) -> [u64; 2] {
    [f(0), f(1)]
}

/// The same operation on the values and on the exponents.
fn ring(a: &Residue, b: &Residue, f: impl Fn(u64, u64, u64) -> u64, small: Option<i64>) -> Residue {
    let value = each(|k| f(a.value[k], b.value[k], PRIMES[k]));
    let exponent = a.exponent.zip(b.exponent).map(|(a, b)| each(|k| f(a[k], b[k], PRIMES[k] - 1)));
    Residue { value, exponent, small }
}

impl Modular<'_> {
    fn random(&self, name: &str) -> u64 {
        prime::mix(self.seed ^ prime::hash(name))
    }

    /// A value that is no integer.
    fn generic(&self, name: &str) -> Residue {
        let random = self.random(name);
        Residue { value: each(|k| prime::mix(random ^ k as u64) % PRIMES[k]), exponent: None, small: None }
    }

    fn rational(value: &RBig) -> Result<Residue, Fault> {
        let numerator = value.numerator();
        let mut residue = each(|k| prime::reduce(numerator, PRIMES[k]));
        if value.is_int() {
            let exponent = each(|k| prime::reduce(numerator, PRIMES[k] - 1));
            return Ok(Residue { value: residue, exponent: Some(exponent), small: i64::try_from(numerator).ok() });
        }
        for (k, part) in residue.iter_mut().enumerate() {
            let below = prime::reduce_unsigned(value.denominator(), PRIMES[k]);
            *part = prime::multiply(*part, prime::inverse(below, PRIMES[k]).ok_or(Fault::Undefined)?, PRIMES[k]);
        }
        Ok(Residue { value: residue, exponent: None, small: None })
    }

    /// The product of two residues.
    pub(crate) fn product_of(a: &Residue, b: &Residue) -> Residue {
        ring(a, b, prime::multiply, None)
    }

    fn product(&mut self, factors: impl Iterator<Item = i64>, fuel: &mut Fuel) -> Result<Residue, Fault> {
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

    fn division(&self) -> usize {
        // Two inverses, which are powers.
        250
    }

    fn literal(&mut self, number: &Number) -> Result<Residue, Fault> {
        Self::rational(number.exact().ok_or(Fault::TooLarge)?)
    }

    fn integer(&mut self, integer: i64) -> Result<Residue, Fault> {
        Self::rational(&RBig::from(integer))
    }

    fn constant(&mut self, constant: Constant) -> Result<Residue, Fault> {
        Ok(match constant {
            Constant::Pi => self.generic("\\pi"),
            Constant::E => self.generic("\\e"),
            Constant::I => Residue { value: ROOTS_OF_MINUS_ONE, exponent: None, small: None },
        })
    }

    fn symbol(&mut self, name: &str) -> Result<Residue, Fault> {
        if self.names.is_counted(name) {
            return self.integer(i64::from(self.random(name) as u8 % 9) + 2);
        }
        // An integer, so that it may also stand in exponents.
        let integer = (self.random(name) >> 22) + 2;
        Ok(Residue { value: [integer; 2], exponent: Some([integer; 2]), small: None })
    }

    fn negate(&mut self, a: &Residue) -> Result<Residue, Fault> {
        let value = each(|k| prime::negate(a.value[k], PRIMES[k]));
        let exponent = a.exponent.map(|e| each(|k| prime::negate(e[k], PRIMES[k] - 1)));
        Ok(Residue { value, exponent, small: a.small.and_then(i64::checked_neg) })
    }

    fn add(&mut self, a: &Residue, b: &Residue) -> Result<Residue, Fault> {
        let small = a.small.zip(b.small).and_then(|(a, b)| a.checked_add(b));
        Ok(ring(a, b, prime::add, small))
    }

    fn multiply(&mut self, a: &Residue, b: &Residue) -> Result<Residue, Fault> {
        let small = a.small.zip(b.small).and_then(|(a, b)| a.checked_mul(b));
        Ok(ring(a, b, prime::multiply, small))
    }

    fn divide(&mut self, a: &Residue, b: &Residue) -> Result<Residue, Fault> {
        let mut value = [0; 2];
        for (k, part) in value.iter_mut().enumerate() {
            let inverse = prime::inverse(b.value[k], PRIMES[k]).ok_or(Fault::Undefined)?;
            *part = prime::multiply(a.value[k], inverse, PRIMES[k]);
        }
        let small = a.small.zip(b.small).filter(|(a, b)| *b != 0 && a % b == 0).map(|(a, b)| a / b);
        Ok(Residue { value, exponent: small.map(|small| each(|k| prime::reduce(&small.into(), PRIMES[k] - 1))), small })
    }

    fn power(&mut self, a: &Residue, b: &Residue, _: Option<&RBig>, fuel: &mut Fuel) -> Result<Residue, Fault> {
        fuel.spend(250)?;
        let exponent = b.exponent.ok_or(Fault::Unsupported)?;
        if a.value.contains(&0) && b.small.is_none_or(|small| small <= 0) {
            return Err(Fault::Undefined);
        }
        let value = each(|k| prime::power(a.value[k], exponent[k], PRIMES[k]));
        let small = match (a.small, b.small) {
            (Some(a), Some(b)) => u32::try_from(b).ok().and_then(|b| a.checked_pow(b)),
            _ => None,
        };
        // The order of a number modulo a prime less one is not known, so that a tower needs its exponents themselves.
        let exponent = match (a.exponent, b.small) {
            (Some(base), Some(small)) if small >= 0 => {
                Some(each(|k| prime::power(base[k], small.unsigned_abs(), PRIMES[k] - 1)))
            }
            _ => None,
        };
        Ok(Residue { value, exponent, small })
    }

    fn call(&mut self, function: Function, a: &Residue, fuel: &mut Fuel) -> Result<Residue, Fault> {
        let small = |max| a.small.filter(|small| (0..=max).contains(small)).ok_or(Fault::Unsupported);
        match function {
            Function::Factorial => {
                let n = small(MAX_FACTORIAL)?;
                self.product(2..=n, fuel)
            }
            Function::DoubleFactorial => {
                let n = small(MAX_FACTORIAL)?;
                self.product((0..n).step_by(2).map(|step| n - step), fuel)
            }
            _ => Err(Fault::Unsupported),
        }
    }

    fn call2(&mut self, function: Function, a: &Residue, b: &Residue, fuel: &mut Fuel) -> Result<Residue, Fault> {
        match (function, a.small, b.small) {
            (Function::Binomial, Some(n), Some(k)) if 0 <= k && k <= n => {
                let k = k.min(n - k);
                if k > MAX_FACTORIAL {
                    return Err(Fault::Unsupported);
                }
                let above = self.product((0..k).map(|step| n - step), fuel)?;
                let below = self.product(2..=k, fuel)?;
                let mut quotient = self.divide(&above, &below)?;
                quotient.exponent = None;
                Ok(quotient)
            }
            _ => Err(Fault::Unsupported),
        }
    }

    fn apply(&mut self, name: &str, a: &Residue) -> Result<Residue, Fault> {
        // Whatever the function is, equal arguments have equal values.
        let random = prime::mix(self.random(name) ^ a.value[0]) ^ a.value[1];
        Ok(Residue { value: each(|k| prime::mix(random ^ k as u64) % PRIMES[k]), exponent: None, small: None })
    }

    fn as_integer(&self, a: &Residue) -> Option<i64> {
        a.small
    }
}
