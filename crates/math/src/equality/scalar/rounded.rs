//! Expressions with decimals that were rounded.

use super::{Found, MAX_ATTEMPTS, POINTS};
use crate::evaluate::real::Precision;
use crate::evaluate::{Enclosure, Fault, Names, Point, Setting, evaluate};
use crate::expr::{Constant, Expr, Node};
use crate::{Fuel, Reason};

/// Bits to which a value is known that decimals of enough digits make.
const ROUNDED_SHARP: i64 = 6;
/// Digits behind the point that a decimal stands for others from, in a gold answer and in a given one.
const ROUNDED_FROM: [usize; 2] = [2, 3];

/// Whether the values meet once each decimal stands for everything that rounds to it.
pub(super) fn compare(gold: &Expr, answer: &Expr, fuel: &mut Fuel) -> Found {
    let complex = [gold, answer].iter().any(|expr| expr.any(|node| matches!(node, Node::Constant(Constant::I))));
    let names = Names::of(&[gold, answer]);
    let closed = gold.is_closed() && answer.is_closed();
    let wanted = if closed { 1 } else { POINTS };
    let mut agreed = 0;
    for attempt in 0..if closed { 1 } else { MAX_ATTEMPTS } {
        let mut value = |expr, from| {
            let setting = Setting { complex, rounded_from: Some(from), ..Setting::default() };
            let point = Point { names: &names, attempt };
            evaluate(expr, &mut Enclosure { precision: Precision::new(128), setting, point }, fuel)
        };
        match (value(gold, ROUNDED_FROM[0]), value(answer, ROUNDED_FROM[1])) {
            (Ok(gold), Ok(answer)) => match Precision::new(128).subtract_complex(&gold, &answer) {
                Ok(difference) if difference.contains_zero() => {
                    // Digits that cancel each other say nothing.
                    let sharp = gold.is_sharp(ROUNDED_SHARP) && answer.is_sharp(ROUNDED_SHARP);
                    if !sharp || gold.contains_zero() || answer.contains_zero() {
                        return Found::Different;
                    }
                    agreed += 1;
                }
                _ => return Found::Different,
            },
            (Err(Fault::OutOfFuel), _) | (_, Err(Fault::OutOfFuel)) => return Found::Unknown(Reason::OutOfFuel),
            (Err(Fault::Undefined | Fault::Vague), _) | (_, Err(Fault::Undefined | Fault::Vague)) => {}
            _ => return Found::Unknown(Reason::NotSeparated),
        }
        if agreed == wanted {
            return Found::Same;
        }
    }
    Found::Unknown(Reason::NotSeparated)
}
