//! Comparison modulo two primes.

use super::Comparison;
use crate::evaluate::{EvalError, Modular, Variables, evaluate};
use crate::expr::Expr;
use crate::{Fuel, Reason};

/// Points of the modular test: the number tried, and the number that must agree if variables are small integers.
const SEEDS: u64 = 48;

const INTEGER_POINTS: usize = 6;

/// Points of the modular test with variables in exponents: a power of -1 or i reveals only a bit or two per point.
pub(in crate::equality) const EXPONENT_POINTS: usize = 32;

/// Modulo two primes: at one point, or at several if variables are restricted to small integers.
pub(super) fn compare_modulo_primes(gold: &Expr, answer: &Expr, fuel: &mut Fuel) -> Comparison {
    let variables = Variables::of(&[gold, answer]);
    let wanted = match () {
        () if variables.in_exponent => EXPONENT_POINTS,
        () if variables.any_integer_valued() => INTEGER_POINTS,
        () => 1,
    };
    let mut agreed = 0;
    for seed in 0..SEEDS {
        let mut value_of = |expr| evaluate(expr, &mut Modular { seed, variables: &variables }, fuel);
        match (value_of(gold), value_of(answer)) {
            (Ok(gold), Ok(answer)) if gold.equals(&answer) => agreed += 1,
            (Ok(_), Ok(_)) => return Comparison::Different,
            (Err(EvalError::OutOfFuel), _) | (_, Err(EvalError::OutOfFuel)) => {
                return Comparison::Unknown(Reason::OutOfFuel);
            }
            // Undefined here; nearly every other point is defined.
            (Err(EvalError::Undefined), _) | (_, Err(EvalError::Undefined)) => {}
            _ => break,
        }
        if agreed == wanted {
            return Comparison::Same;
        }
    }
    Comparison::Unknown(Reason::NotSeparated)
}
