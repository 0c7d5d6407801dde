//! Expressions with rounded decimals.

use super::Comparison;
use super::points::{MAX_ATTEMPTS, POINTS};
use crate::equality::number::is_in_eighths;
use crate::evaluate::real::Precision;
use crate::evaluate::{Enclosure, EnclosureOptions, EvalError, Point, Variables, evaluate};
use crate::expr::{Constant, Expr, Node};
use crate::{Fuel, Reason};

/// Bits to which a value must be known when its decimals have enough digits.
const MIN_KNOWN_BITS: i64 = 6;
/// Digits after the point from which a decimal counts as rounded, in a gold and in a given answer.
const MIN_DECIMAL_DIGITS: [usize; 2] = [2, 3];

/// Whether the values intersect if each decimal stands for every number that rounds to it.
pub(super) fn compare(gold: &Expr, answer: &Expr, fuel: &mut Fuel) -> Comparison {
    if let Node::Literal(number) = gold.root()
        && number.exact().is_some_and(is_in_eighths)
    {
        return Comparison::Different;
    }
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
                    // Cancelled digits carry no information.
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
