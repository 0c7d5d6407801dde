//! Comparison in interval arithmetic at several points.

use super::Comparison;
use crate::evaluate::real::Precision;
use crate::evaluate::{Enclosure, EnclosureOptions, EvalError, Point, Variables, evaluate};
use crate::expr::{Constant, Expr, Function, Node};
use crate::{Fuel, Reason};

/// Precisions tried in turn, in bits.
const PRECISIONS: [usize; 3] = [64, 320, 1280];

/// Bits to which two values must agree to count as equal.
const MIN_AGREEING_BITS: i64 = 200;

/// Points at which two expressions must agree, normally and if they may agree in one region only.
pub(super) const POINTS: usize = 5;

const MANY_POINTS: usize = 12;

/// Points that suffice if the expressions are undefined elsewhere.
const FEW_POINTS: usize = 3;

/// Points that are tried.
pub(super) const MAX_ATTEMPTS: u64 = 40;

/// Points at which an agreement modulo two primes may still be refuted.
const REFUTATION_POINTS: u64 = 2;

/// Compares in interval arithmetic: over the reals, and over the complex numbers if i occurs or the reals do not
/// decide. A logarithm without base may be natural or decimal.
pub(super) fn compare_enclosures(gold: &Expr, answer: &Expr, fuel: &mut Fuel) -> Comparison {
    let has = |is: fn(&Node) -> bool| gold.any(is) || answer.any(is);
    let imaginary = has(|node| matches!(node, Node::Constant(Constant::I)));
    let mut options = EnclosureOptions { complex: imaginary, ..EnclosureOptions::default() };
    let mut found = compare_at_points(gold, answer, options, fuel);
    if matches!(found, Comparison::Unknown(reason) if reason != Reason::OutOfFuel) && !imaginary {
        options.complex = true;
        found = compare_at_points(gold, answer, options, fuel);
    }
    if found != Comparison::Same && has(|node| matches!(node, Node::Call(Function::Log, _))) {
        options.decimal_log = true;
        if compare_at_points(gold, answer, options, fuel) == Comparison::Same {
            return Comparison::Same;
        }
    }
    found
}

/// Whether both have the same value at all points where both are defined.
fn compare_at_points(gold: &Expr, answer: &Expr, options: EnclosureOptions, fuel: &mut Fuel) -> Comparison {
    let variables = Variables::of(&[gold, answer]);
    let closed = gold.is_closed() && answer.is_closed();
    let wanted = match () {
        () if closed => 1,
        () if variables.discrete || variables.piecewise => MANY_POINTS,
        () => POINTS,
    };
    let mut agreed = 0;
    let mut why = Reason::NotSeparated;
    let mut seen = Vec::new();
    for attempt in 0..if closed { 1 } else { MAX_ATTEMPTS } {
        // Points with integer coordinates repeat and add no evidence.
        let point = Point { variables: &variables, attempt };
        let place: Vec<_> =
            [gold, answer].iter().flat_map(|expr| expr.names()).map(|name| point.coordinates(name)).collect();
        if seen.contains(&place) {
            continue;
        }
        seen.push(place);
        match equal_at_point(gold, answer, options, point, fuel) {
            Ok(true) => agreed += 1,
            Ok(false) => return Comparison::Different,
            Err(EvalError::OutOfFuel) => return Comparison::Unknown(Reason::OutOfFuel),
            Err(EvalError::Unsupported) => return Comparison::Unknown(Reason::Unsupported),
            // Other points are unlikely to be smaller.
            Err(EvalError::TooLarge) if why == Reason::TooLarge => break,
            Err(EvalError::TooLarge) => why = Reason::TooLarge,
            Err(EvalError::Undefined | EvalError::Imprecise) => {}
        }
        if agreed == wanted {
            break;
        }
    }
    match () {
        () if agreed == wanted || agreed >= FEW_POINTS && why == Reason::NotSeparated => {
            // Pieces may meet where no point is.
            if variables.beyond_reach { Comparison::Unknown(Reason::TooLarge) } else { Comparison::Same }
        }
        () => Comparison::Unknown(why),
    }
}

/// Whether both have the same value at a point.
fn equal_at_point(
    gold: &Expr,
    answer: &Expr,
    options: EnclosureOptions,
    point: Point<'_>,
    fuel: &mut Fuel,
) -> Result<bool, EvalError> {
    for bits in PRECISIONS {
        let mut domain = Enclosure { precision: Precision::new(bits), options, point };
        let pair = evaluate(gold, &mut domain, fuel).and_then(|gold| Ok((gold, evaluate(answer, &mut domain, fuel)?)));
        let (gold, answer) = match pair {
            Ok(pair) => pair,
            Err(EvalError::Imprecise) => continue,
            Err(fault) => return Err(fault),
        };
        let absorbed = domain.precision.absorbed;
        let difference = domain.precision.subtract_complex(&gold, &answer)?;
        if !difference.contains_zero() {
            return Ok(false);
        }
        let sharp = domain.precision.trusted_bits();
        if sharp >= MIN_AGREEING_BITS && !absorbed && gold.is_known_to(sharp) && answer.is_known_to(sharp) {
            return Ok(true);
        }
    }
    Err(EvalError::Imprecise)
}

/// Whether interval arithmetic refutes the equality. `Same` unless it does.
pub(super) fn refute(gold: &Expr, answer: &Expr, fuel: &mut Fuel) -> Comparison {
    let complex = [gold, answer].iter().any(|expr| expr.any(|node| matches!(node, Node::Constant(Constant::I))));
    refute_with(EnclosureOptions { complex, ..EnclosureOptions::default() }, gold, answer, fuel)
}

pub(super) fn refute_with(options: EnclosureOptions, gold: &Expr, answer: &Expr, fuel: &mut Fuel) -> Comparison {
    let variables = Variables::of(&[gold, answer]);
    for attempt in 0..REFUTATION_POINTS {
        let point = Point { variables: &variables, attempt };
        let mut domain = Enclosure { precision: Precision::new(PRECISIONS[0]), options, point };
        match (evaluate(gold, &mut domain, fuel), evaluate(answer, &mut domain, fuel)) {
            (Err(EvalError::OutOfFuel), _) | (_, Err(EvalError::OutOfFuel)) => {
                return Comparison::Unknown(Reason::OutOfFuel);
            }
            (Ok(gold), Ok(answer)) => {
                let difference = domain.precision.subtract_complex(&gold, &answer);
                if difference.is_ok_and(|difference| !difference.contains_zero()) {
                    return Comparison::Different;
                }
            }
            // One side can be evaluated and the other is too large.
            (Ok(_), Err(EvalError::TooLarge)) | (Err(EvalError::TooLarge), Ok(_)) => {
                return Comparison::Unknown(Reason::TooLarge);
            }
            _ => {}
        }
    }
    Comparison::Same
}
