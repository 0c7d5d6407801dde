//! Scalars: exactly, then modulo two primes, then in enclosures, and at last as decimals that were rounded.

mod rounded;

use super::{is_equal, number};
use crate::evaluate::real::Precision;
use crate::evaluate::{Enclosure, Fault, Modular, Names, Point, Setting, Surd, evaluate, exact};
use crate::expr::{Constant, Expr, Function, Node};
use crate::{Decimals, Fuel, Magnitude, Number, Policy, Reason, Value, Written};

/// Precisions that enclosures are tried at, in bits.
const LADDER: [usize; 3] = [64, 320, 1280];
/// Fewest bits to which two values must be the same to be taken for equal.
const SHARP: i64 = 200;
/// Points at which two expressions must agree, and where they may do so in one place and not in another.
const POINTS: usize = 5;
const MANY_POINTS: usize = 12;
/// Points of which fewer may do, where the expressions have no value at others.
const FEW_POINTS: usize = 3;
/// Points that are tried.
const MAX_ATTEMPTS: u64 = 40;
/// Points of the modular test that are tried, and that must agree where variables are small integers.
const SEEDS: u64 = 48;
const COUNTED_POINTS: usize = 6;
/// The same where variables stand in exponents: of a power of -1 or i a point tells no more than a bit or two.
pub(super) const RAISED_POINTS: usize = 32;
/// Points at which what agrees modulo two primes may still be refuted.
const REFUTING_POINTS: u64 = 2;

/// What one kind of test found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    Same,
    Different,
    /// It cannot tell.
    Unknown(Reason),
}

/// Compares two numbers or expressions.
pub(super) fn compare(gold: &Value, answer: &Value, policy: &Policy, fuel: &mut Fuel) -> Reason {
    let (Some(gold_expr), Some(answer_expr)) = (gold.scalar(), answer.scalar()) else { return Reason::DifferentKind };
    if gold_expr == answer_expr {
        return Reason::EqualForm;
    }
    let (gold_exact, answer_exact) = match (reduced(gold, &gold_expr, fuel), reduced(answer, &answer_expr, fuel)) {
        (Ok(gold), Ok(answer)) => (gold, answer),
        (_, Err(Fault::Undefined)) => return Reason::UndefinedAnswer,
        (Err(Fault::Undefined), _) => return Reason::DifferentExpression,
        _ => return Reason::OutOfFuel,
    };
    let mut reason = None;
    if let (Some(gold), Some(answer)) = (&gold_exact, &answer_exact) {
        if let (Some(gold), Some(answer)) = (gold.number(), answer.number()) {
            if fuel.spend(gold.cost(answer)).is_err() {
                return Reason::OutOfFuel;
            }
            let found = number::compare(gold, answer, policy);
            // A whole number is never rounded to, and never rounded.
            let whole = |number: &Number| number.exact().is_some_and(dashu_ratio::RBig::is_int);
            if is_equal(found) || whole(gold) || whole(answer) {
                return found;
            }
            reason = Some(found);
        } else if gold.surd() == answer.surd() {
            return Reason::EqualRadical;
        } else {
            reason = Some(Reason::DifferentNumber);
        }
    }
    let reason = reason.unwrap_or_else(|| identity(&gold_expr, &answer_expr, fuel));
    if is_equal(reason)
        || policy.decimals == Decimals::Exact
        || !has_decimals(&gold_expr) && !has_decimals(&answer_expr)
    {
        return reason;
    }
    match rounded::compare(&gold_expr, &answer_expr, fuel) {
        Found::Same => Reason::EqualRounded,
        Found::Unknown(Reason::OutOfFuel) => Reason::OutOfFuel,
        _ => reason,
    }
}

/// A closed value in its exact form.
enum Reduced {
    Number(Number),
    Surd(Surd),
}

impl Reduced {
    fn number(&self) -> Option<&Number> {
        match self {
            Self::Number(number) => Some(number),
            Self::Surd(_) => None,
        }
    }

    fn surd(&self) -> Option<&Surd> {
        match self {
            Self::Surd(surd) => Some(surd),
            Self::Number(_) => None,
        }
    }
}

fn reduced(value: &Value, expr: &Expr, fuel: &mut Fuel) -> Result<Option<Reduced>, Fault> {
    if let Value::Number(number) = value {
        return Ok(Some(Reduced::Number(number.clone())));
    }
    if !expr.is_closed() {
        return Ok(None);
    }
    let Some(surd) = exact(expr, fuel)? else { return Ok(None) };
    Ok(Some(match surd.as_rational() {
        Some(value) => {
            let written = if value.is_int() { Written::Integer } else { Written::Fraction };
            Reduced::Number(Number::plain(Magnitude::Exact(value), written))
        }
        None => Reduced::Surd(surd),
    }))
}

fn has_decimals(expr: &Expr) -> bool {
    expr.any(|node| matches!(node, Node::Literal(number) if matches!(number.written, Written::Decimal { .. })))
}

/// Whether two expressions are identical.
fn identity(gold: &Expr, answer: &Expr, fuel: &mut Fuel) -> Reason {
    match modular(gold, answer, fuel) {
        Found::Same => {
            // The primes are known to everybody, and an answer could be a multiple of them away.
            return match refuted(gold, answer, fuel) {
                Found::Same => Reason::EqualIdentity,
                Found::Different => Reason::DifferentExpression,
                Found::Unknown(reason) => reason,
            };
        }
        Found::Different => return Reason::DifferentExpression,
        Found::Unknown(Reason::OutOfFuel) => return Reason::OutOfFuel,
        Found::Unknown(_) => {}
    }
    match enclosed(gold, answer, fuel) {
        Found::Same => Reason::EqualEnclosure,
        Found::Different => Reason::DifferentExpression,
        Found::Unknown(reason) => reason,
    }
}

/// Whether enclosures show that two expressions differ after all. They are the same where nothing is shown.
fn refuted(gold: &Expr, answer: &Expr, fuel: &mut Fuel) -> Found {
    let names = Names::of(&[gold, answer]);
    let complex = [gold, answer].iter().any(|expr| expr.any(|node| matches!(node, Node::Constant(Constant::I))));
    let setting = Setting { complex, ..Setting::default() };
    for attempt in 0..REFUTING_POINTS {
        let point = Point { names: &names, attempt };
        let mut domain = Enclosure { precision: Precision::new(LADDER[0]), setting, point };
        match (evaluate(gold, &mut domain, fuel), evaluate(answer, &mut domain, fuel)) {
            (Err(Fault::OutOfFuel), _) | (_, Err(Fault::OutOfFuel)) => return Found::Unknown(Reason::OutOfFuel),
            (Ok(gold), Ok(answer)) => {
                let difference = domain.precision.subtract_complex(&gold, &answer);
                if difference.is_ok_and(|difference| !difference.contains_zero()) {
                    return Found::Different;
                }
            }
            // Beside what has a size, what has none that is computed with.
            (Ok(_), Err(Fault::TooLarge)) | (Err(Fault::TooLarge), Ok(_)) => return Found::Unknown(Reason::TooLarge),
            _ => {}
        }
    }
    Found::Same
}

/// Modulo two primes: at one point, which will do, or at several where variables can only be small integers.
fn modular(gold: &Expr, answer: &Expr, fuel: &mut Fuel) -> Found {
    let names = Names::of(&[gold, answer]);
    let wanted = match () {
        () if names.raised => RAISED_POINTS,
        () if names.any_counted() => COUNTED_POINTS,
        () => 1,
    };
    let mut agreed = 0;
    for seed in 0..SEEDS {
        let mut at = |expr| evaluate(expr, &mut Modular { seed, names: &names }, fuel);
        match (at(gold), at(answer)) {
            (Ok(gold), Ok(answer)) if gold.equals(&answer) => agreed += 1,
            (Ok(_), Ok(_)) => return Found::Different,
            (Err(Fault::OutOfFuel), _) | (_, Err(Fault::OutOfFuel)) => return Found::Unknown(Reason::OutOfFuel),
            // Nearly every point will do.
            (Err(Fault::Undefined), _) | (_, Err(Fault::Undefined)) => {}
            _ => break,
        }
        if agreed == wanted {
            return Found::Same;
        }
    }
    Found::Unknown(Reason::NotSeparated)
}

/// In enclosures: over the reals, and over the complex numbers where i occurs or the reals are not enough. The logarithm without a base
/// may be either.
fn enclosed(gold: &Expr, answer: &Expr, fuel: &mut Fuel) -> Found {
    let has = |is: fn(&Node) -> bool| gold.any(is) || answer.any(is);
    let imaginary = has(|node| matches!(node, Node::Constant(Constant::I)));
    let mut setting = Setting { complex: imaginary, ..Setting::default() };
    let mut found = agreement(gold, answer, setting, fuel);
    if matches!(found, Found::Unknown(reason) if reason != Reason::OutOfFuel) && !imaginary {
        setting.complex = true;
        found = agreement(gold, answer, setting, fuel);
    }
    if found != Found::Same && has(|node| matches!(node, Node::Call(Function::Log, _))) {
        setting.decimal_log = true;
        if agreement(gold, answer, setting, fuel) == Found::Same {
            return Found::Same;
        }
    }
    found
}

/// Whether both have the same value at all points where both have one.
fn agreement(gold: &Expr, answer: &Expr, setting: Setting, fuel: &mut Fuel) -> Found {
    let names = Names::of(&[gold, answer]);
    let closed = gold.is_closed() && answer.is_closed();
    let wanted = match () {
        () if closed => 1,
        () if names.discrete || names.piecewise => MANY_POINTS,
        () => POINTS,
    };
    let (mut agreed, mut why) = (0, Reason::NotSeparated);
    let mut seen = Vec::new();
    for attempt in 0..if closed { 1 } else { MAX_ATTEMPTS } {
        // Integers soon come again, and say nothing new.
        let point = Point { names: &names, attempt };
        let place: Vec<_> = [gold, answer].iter().flat_map(|expr| expr.names()).map(|name| point.parts(name)).collect();
        if seen.contains(&place) {
            continue;
        }
        seen.push(place);
        match at_point(gold, answer, setting, point, fuel) {
            Ok(true) => agreed += 1,
            Ok(false) => return Found::Different,
            Err(Fault::OutOfFuel) => return Found::Unknown(Reason::OutOfFuel),
            Err(Fault::Unsupported) => return Found::Unknown(Reason::Unsupported),
            // Other points hardly make it smaller.
            Err(Fault::TooLarge) if why == Reason::TooLarge => break,
            Err(Fault::TooLarge) => why = Reason::TooLarge,
            Err(Fault::Undefined | Fault::Vague) => {}
        }
        if agreed == wanted {
            return Found::Same;
        }
    }
    if agreed >= FEW_POINTS && why == Reason::NotSeparated { Found::Same } else { Found::Unknown(why) }
}

/// Whether both have the same value at a point; an error where that is not to be found.
fn at_point(gold: &Expr, answer: &Expr, setting: Setting, point: Point<'_>, fuel: &mut Fuel) -> Result<bool, Fault> {
    for bits in LADDER {
        let mut domain = Enclosure { precision: Precision::new(bits), setting, point };
        let pair = evaluate(gold, &mut domain, fuel).and_then(|gold| Ok((gold, evaluate(answer, &mut domain, fuel)?)));
        let (gold, answer) = match pair {
            Ok(pair) => pair,
            Err(Fault::Vague) => continue,
            Err(fault) => return Err(fault),
        };
        let absorbed = domain.precision.absorbed;
        let difference = domain.precision.subtract_complex(&gold, &answer)?;
        if !difference.contains_zero() {
            return Ok(false);
        }
        let sharp = domain.precision.sharp();
        if sharp >= SHARP && !absorbed && gold.is_sharp(sharp) && answer.is_sharp(sharp) {
            return Ok(true);
        }
    }
    Err(Fault::Vague)
}
