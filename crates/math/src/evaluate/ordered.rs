//! Values in two-by-two matrices over a prime field, at a pseudo-random point: products of matrices have an order, so that
//! `AB` is not `BA`. Whatever is no field operation is a random value of its operands, which proves no equality.

use dashu_ratio::RBig;

use super::algebra::{Algebra, EvalError};
use super::prime::{self, PRIMES, ROOTS_OF_MINUS_ONE};
use crate::expr::{Constant, Function};
use crate::{Fuel, Number};

const PRIME: u64 = PRIMES[0];

/// A matrix, row by row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Block {
    cells: [u64; 4],
    /// The value if it is a small integer, as an exponent is.
    small: Option<i64>,
}

impl Block {
    /// Whether both have the same value.
    pub(crate) fn equals(&self, other: &Self) -> bool {
        self.cells == other.cells
    }

    fn scalar(value: u64) -> Self {
        Self { cells: [value, 0, 0, value], small: None }
    }

    fn is_scalar(&self) -> bool {
        let [a, b, c, d] = self.cells;
        a == d && b == 0 && c == 0
    }

    fn product(&self, other: &Self) -> Self {
        let ([a, b, c, d], [e, f, g, h]) = (self.cells, other.cells);
        let sum = |x: u64, y: u64, z: u64, w: u64| {
            prime::add(prime::multiply(x, y, PRIME), prime::multiply(z, w, PRIME), PRIME)
        };
        let small = self.small.zip(other.small).and_then(|(a, b)| a.checked_mul(b));
        Self { cells: [sum(a, e, b, g), sum(a, f, b, h), sum(c, e, d, g), sum(c, f, d, h)], small }
    }

    fn inverse(&self) -> Result<Self, EvalError> {
        let [a, b, c, d] = self.cells;
        let times = |x, y| prime::multiply(x, y, PRIME);
        let determinant = prime::add(times(a, d), prime::negate(times(b, c), PRIME), PRIME);
        let below = prime::inverse(determinant, PRIME).ok_or(EvalError::Undefined)?;
        let minus = |x| times(prime::negate(x, PRIME), below);
        Ok(Self { cells: [times(d, below), minus(b), minus(c), times(a, below)], small: None })
    }
}

/// The domain of matrices at one point.
#[derive(Debug)]
pub(crate) struct Ordered<'n> {
    /// Names of matrices; others are numbers.
    pub(crate) matrices: &'n [&'n str],
}

/// A random value for a state: a number, or a matrix.
fn random(state: u64, is_scalar: bool) -> Block {
    let cell = |at: u64| prime::mix(prime::mix(state) ^ at) % PRIME;
    if is_scalar { Block::scalar(cell(0)) } else { Block { cells: [cell(0), cell(1), cell(2), cell(3)], small: None } }
}

/// A random value that operands determine.
fn opaque(kind: u64, operands: &[&Block]) -> Block {
    let cells = operands.iter().flat_map(|operand| operand.cells);
    random(cells.fold(kind, |state, cell| prime::mix(state ^ cell)), operands.iter().all(|operand| operand.is_scalar()))
}

impl Algebra for Ordered<'_> {
    type Value = Block;

    fn cost(&self) -> usize {
        4
    }

    fn division_cost(&self) -> usize {
        125
    }

    fn literal(&mut self, number: &Number) -> Result<Block, EvalError> {
        let value = number.exact().ok_or(EvalError::TooLarge)?;
        let above = prime::reduce(value.numerator(), PRIME);
        let below = prime::inverse(prime::reduce_unsigned(value.denominator(), PRIME), PRIME);
        let small = if value.is_int() { i64::try_from(value.numerator()).ok() } else { None };
        let scalar = Block::scalar(prime::multiply(above, below.ok_or(EvalError::Undefined)?, PRIME));
        Ok(Block { small, ..scalar })
    }

    fn integer(&mut self, integer: i64) -> Result<Block, EvalError> {
        Ok(Block { small: Some(integer), ..Block::scalar(prime::reduce(&integer.into(), PRIME)) })
    }

    fn constant(&mut self, constant: Constant) -> Result<Block, EvalError> {
        Ok(match constant {
            Constant::I => Block::scalar(ROOTS_OF_MINUS_ONE[0]),
            constant => random(constant as u64, true),
        })
    }

    fn symbol(&mut self, name: &str) -> Result<Block, EvalError> {
        Ok(random(prime::hash(name), !self.matrices.contains(&name)))
    }

    fn negate(&mut self, a: &Block) -> Result<Block, EvalError> {
        let small = a.small.and_then(i64::checked_neg);
        Ok(Block { cells: a.cells.map(|cell| prime::negate(cell, PRIME)), small })
    }

    fn add(&mut self, a: &Block, b: &Block) -> Result<Block, EvalError> {
        let small = a.small.zip(b.small).and_then(|(a, b)| a.checked_add(b));
        let ([a, b, c, d], [e, f, g, h]) = (a.cells, b.cells);
        let sum = |x, y| prime::add(x, y, PRIME);
        Ok(Block { cells: [sum(a, e), sum(b, f), sum(c, g), sum(d, h)], small })
    }

    fn multiply(&mut self, a: &Block, b: &Block) -> Result<Block, EvalError> {
        Ok(a.product(b))
    }

    fn divide(&mut self, a: &Block, b: &Block) -> Result<Block, EvalError> {
        // The quotient of two matrices has two meanings.
        if !b.is_scalar() {
            return Err(EvalError::Unsupported);
        }
        Ok(a.product(&b.inverse()?))
    }

    fn power(&mut self, a: &Block, b: &Block, _: Option<&RBig>, fuel: &mut Fuel) -> Result<Block, EvalError> {
        let Some(exponent) = b.small else { return Ok(opaque(1, &[a, b])) };
        fuel.spend(250)?;
        let mut square = if exponent < 0 { a.inverse()? } else { *a };
        let mut left = exponent.unsigned_abs();
        let mut power = self.integer(1)?;
        while left > 0 {
            if left & 1 == 1 {
                power = power.product(&square);
            }
            square = square.product(&square);
            left >>= 1;
        }
        Ok(power)
    }

    fn call(&mut self, function: Function, a: &Block, _: &mut Fuel) -> Result<Block, EvalError> {
        let value = opaque(100 + function as u64, &[a]);
        // A norm is a number.
        Ok(if function == Function::Abs { Block::scalar(value.cells[0]) } else { value })
    }

    fn call2(&mut self, function: Function, a: &Block, b: &Block, _: &mut Fuel) -> Result<Block, EvalError> {
        Ok(opaque(200 + function as u64, &[a, b]))
    }

    fn apply(&mut self, name: &str, a: &Block) -> Result<Block, EvalError> {
        Ok(opaque(prime::hash(name), &[a]))
    }

    fn as_integer(&self, a: &Block) -> Option<i64> {
        a.small
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_of_matrices_have_an_order_and_an_inverse() {
        let mut domain = Ordered { matrices: &["A", "B"] };
        let mut value = |name| domain.symbol(name).unwrap();
        let (a, b, x) = (value("A"), value("B"), value("x"));
        assert!(!a.product(&b).equals(&b.product(&a)));
        assert!(a.product(&x).equals(&x.product(&a)));
        assert!(a.product(&a.inverse().unwrap()).equals(&Block::scalar(1)));
    }
}
