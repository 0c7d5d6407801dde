//! Expressions with decimals that were rounded.

use super::{Comparison, MAX_ATTEMPTS, POINTS};
use crate::evaluate::real::Precision;
use crate::evaluate::{Enclosure, EnclosureOptions, EvalError, Point, Variables, evaluate};
use crate::expr::{Constant, Expr, Node};
use crate::{Fuel, Reason};

/// Bits to which a value is known that decimals of enough digits make.
const MIN_KNOWN_BITS: i64 = 6;
/// Digits behind the point that a decimal stands for others from, in a gold answer and in a given one.
const MIN_DECIMAL_DIGITS: [usize; 2] = [2, 3];

/// Whether the values meet once each decimal stands for everything that rounds to it.
pub(super) fn compare(gold: &Expr, answer: &Expr, fuel: &mut Fuel) -> Comparison {
    let complex = [gold, answer].iter().any(|expr| expr.any(|node| matches!(node, Node::Constant(Constant::I))));
    let variables = Variables::of(&[gold, answer]);
    let closed = gold.is_closed() && answer.is_closed();
    let wanted = if closed { 1 } else { POINTS };
    let mut agreed = 0;
    for attempt in 0..if closed { 1 } else { MAX_ATTEMPTS } {
        let mut value = |expr, from| {
            let options = EnclosureOptions { complex, rounded_from: Some(from), ..EnclosureOptions::default() };
            let point = Point { variables: &variables, attempt };
            evaluate(expr, &mut Enclosure { precision: Precision::new(128), options, point }, fuel)
        };
        match (value(gold, MIN_DECIMAL_DIGITS[0]), value(answer, MIN_DECIMAL_DIGITS[1])) {
            (Ok(gold), Ok(answer)) => match Precision::new(128).subtract_complex(&gold, &answer) {
                Ok(difference) if difference.contains_zero() => {
                    // Digits that cancel each other say nothing.
                    let sharp = gold.is_known_to(MIN_KNOWN_BITS) && answer.is_known_to(MIN_KNOWN_BITS);
                    if !sharp || gold.contains_zero() || answer.contains_zero() {
                        return Comparison::Different;
                    }
                    agreed += 1;
                }
                _ => return Comparison::Different,
            },
            (Err(EvalError::OutOfFuel), _) | (_, Err(EvalError::OutOfFuel)) => {
                return Comparison::Unknown(Reason::OutOfFuel);
            }
            (Err(EvalError::Undefined | EvalError::Imprecise), _)
            | (_, Err(EvalError::Undefined | EvalError::Imprecise)) => {}
            _ => return Comparison::Unknown(Reason::NotSeparated),
        }
        if agreed == wanted {
            return Comparison::Same;
        }
    }
    Comparison::Unknown(Reason::NotSeparated)
}
