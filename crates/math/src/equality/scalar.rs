//! Scalars: exactly, then modulo two primes, then in interval arithmetic, finally as rounded decimals.

mod order;
mod rounded;

use super::{is_equal, number};
use crate::evaluate::real::Precision;
use crate::evaluate::{Enclosure, EnclosureOptions, EvalError, Modular, Point, Surd, Variables, evaluate, exact};
use crate::expr::{Constant, Expr, Function, Node};
use crate::{Decimals, Fuel, Magnitude, Notation, Number, Reason, Rules, Value};

/// Precisions tried in turn, in bits.
const PRECISIONS: [usize; 3] = [64, 320, 1280];
/// Bits to which two values must agree to count as equal.
const MIN_AGREEING_BITS: i64 = 200;
/// Points at which two expressions must agree, normally and if they may agree in one region only.
const POINTS: usize = 5;
const MANY_POINTS: usize = 12;
/// Points that suffice if the expressions are undefined elsewhere.
const FEW_POINTS: usize = 3;
/// Points that are tried.
const MAX_ATTEMPTS: u64 = 40;
/// Points of the modular test: the number tried, and the number that must agree if variables are small integers.
const SEEDS: u64 = 48;
const INTEGER_POINTS: usize = 6;
/// The same with variables in exponents: a power of -1 or i reveals only a bit or two per point.
pub(super) const EXPONENT_POINTS: usize = 32;
/// Points at which an agreement modulo two primes may still be refuted.
const REFUTATION_POINTS: u64 = 2;

/// The result of one test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    Same,
    Different,
    /// The test cannot decide.
    Unknown(Reason),
}

/// Compares two numbers or expressions.
pub(super) fn compare(gold: &Value, answer: &Value, rules: &Rules, fuel: &mut Fuel) -> Reason {
    let reason = compare_as_named(gold, answer, rules, fuel);
    if !is_equal(reason)
        && let (Value::Expr(gold_expr), Value::Expr(answer)) = (gold, answer)
        && let Some(renamed) = with_constant(gold_expr, answer)
    {
        return compare_as_named(gold, &Value::Expr(renamed), rules, fuel);
    }
    reason
}

/// The answer with its constant of integration called C, as in the gold answer: `x^2 + c`. `None` if the gold answer
/// has none, or if the name is not free.
fn with_constant(gold: &Expr, answer: &Expr) -> Option<Expr> {
    const NAMES: [&str; 3] = ["c", "K", "k"];
    let has = |expr: &Expr, name: &str| expr.names().iter().any(|known| known == name);
    if !has(gold, "C") || has(answer, "C") || !is_added(gold, "C") {
        return None;
    }
    let name = NAMES.iter().find(|name| has(answer, name) && !has(gold, name))?;
    is_added(answer, name).then(|| answer.renamed(name, "C"))
}

/// Whether a variable is a term of a sum, and occurs nowhere else.
fn is_added(expr: &Expr, name: &str) -> bool {
    let is_it = |node: &Node| matches!(node, Node::Symbol(index) if expr.name(*index) == name);
    let mut open = vec![expr.root()];
    let mut found = 0;
    while let Some(node) = open.pop() {
        match node {
            Node::Add(a, b) => open.extend([expr.node(*a), expr.node(*b)]),
            node => found += usize::from(is_it(node)),
        }
    }
    found == 1 && expr.nodes().iter().filter(|node| is_it(node)).count() == 1 && matches!(expr.root(), Node::Add(..))
}

fn compare_as_named(gold: &Value, answer: &Value, rules: &Rules, fuel: &mut Fuel) -> Reason {
    let (Some(gold_expr), Some(answer_expr)) = (gold.scalar(), answer.scalar()) else { return Reason::DifferentKind };
    if gold_expr == answer_expr {
        return Reason::EqualForm;
    }
    let (gold_exact, answer_exact) = match (exact_form(gold, &gold_expr, fuel), exact_form(answer, &answer_expr, fuel))
    {
        (Ok(gold), Ok(answer)) => (gold, answer),
        (_, Err(EvalError::Undefined)) => return Reason::UndefinedAnswer,
        (Err(EvalError::Undefined), _) => return Reason::DifferentExpression,
        _ => return Reason::OutOfFuel,
    };
    let mut reason = None;
    if let (Some(gold), Some(answer)) = (&gold_exact, &answer_exact) {
        if let (Some(gold), Some(answer)) = (gold.number(), answer.number()) {
            if fuel.spend(gold.cost(answer)).is_err() {
                return Reason::OutOfFuel;
            }
            let found = number::compare(gold, answer, rules);
            // Integers are never the result of rounding and are never rounded.
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
    let reason = reason.unwrap_or_else(|| compare_expressions(&gold_expr, &answer_expr, fuel));
    if is_equal(reason) || rules.decimals == Decimals::Exact || !has_decimals(&gold_expr) && !has_decimals(&answer_expr)
    {
        return reason;
    }
    match rounded::compare(&gold_expr, &answer_expr, fuel) {
        Comparison::Same => Reason::EqualRounded,
        Comparison::Unknown(Reason::OutOfFuel) => Reason::OutOfFuel,
        _ => reason,
    }
}

/// Whether a decimal is a number rounded or cut at its last digit: what an approximation next to it may be.
pub(super) fn is_near(exact: &Expr, decimal: &Number, fuel: &mut Fuel) -> bool {
    let places = if let Notation::Decimal { places, .. } = decimal.notation { places } else { 0 };
    let Some(value) = decimal.exact().filter(|_| places < 1000 && exact.is_closed()) else { return false };
    let (value, places) =
        if decimal.percent { (value / dashu_int::IBig::from(100), places + 2) } else { (value.clone(), places) };
    let value = &value;
    let variables = Variables::default();
    let point = Point { variables: &variables, attempt: 0 };
    let precision = Precision::new(PRECISIONS[1]);
    let mut domain = Enclosure { precision, options: EnclosureOptions::default(), point };
    let Ok(found) = evaluate(exact, &mut domain, fuel) else { return false };
    let width = dashu_ratio::RBig::from_parts(1.into(), dashu_int::UBig::from(10_u8).pow(places));
    let inside = (|| {
        let precision = &mut domain.precision;
        let value = precision.rational(value)?;
        let width = precision.rational(&width)?;
        let difference = precision.subtract(&found.re, &value)?;
        let above = precision.subtract(&difference, &width)?;
        let below = precision.add(&difference, &width)?;
        Ok::<bool, EvalError>(found.im.is_none() && above.is_negative() && below.is_positive())
    })();
    inside.unwrap_or(false)
}

/// The exact value of a closed expression.
enum ExactForm {
    Number(Number),
    Surd(Surd),
}

impl ExactForm {
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

fn exact_form(value: &Value, expr: &Expr, fuel: &mut Fuel) -> Result<Option<ExactForm>, EvalError> {
    if let Value::Number(number) = value {
        return Ok(Some(ExactForm::Number(number.clone())));
    }
    if !expr.is_closed() {
        return Ok(None);
    }
    let Some(surd) = exact(expr, fuel)? else { return Ok(None) };
    Ok(Some(match surd.as_rational() {
        Some(value) => {
            let notation = if value.is_int() { Notation::Integer } else { Notation::Fraction };
            ExactForm::Number(Number::plain(Magnitude::Exact(value), notation))
        }
        None => ExactForm::Surd(surd),
    }))
}

fn has_decimals(expr: &Expr) -> bool {
    expr.any(|node| matches!(node, Node::Literal(number) if matches!(number.notation, Notation::Decimal { .. })))
}

/// Compares two expressions.
fn compare_expressions(gold: &Expr, answer: &Expr, fuel: &mut Fuel) -> Reason {
    match compare_modulo_primes(gold, answer, fuel) {
        Comparison::Same => {
            // The primes are public, so an answer could be built to differ by a multiple of them.
            return match refute(gold, answer, fuel) {
                Comparison::Same => Reason::EqualIdentity,
                Comparison::Different => Reason::DifferentExpression,
                Comparison::Unknown(reason) => reason,
            };
        }
        Comparison::Different => return Reason::DifferentExpression,
        Comparison::Unknown(Reason::OutOfFuel) => return Reason::OutOfFuel,
        Comparison::Unknown(_) => {}
    }
    // Enclosures take the most steps by far.
    match order::same(gold, answer, fuel) {
        Ok(true) => return Reason::EqualForm,
        Ok(false) => {}
        Err(_) => return Reason::OutOfFuel,
    }
    match compare_enclosures(gold, answer, fuel) {
        Comparison::Same => Reason::EqualEnclosure,
        Comparison::Different => Reason::DifferentExpression,
        Comparison::Unknown(reason) => reason,
    }
}

/// Whether interval arithmetic refutes the equality. `Same` unless it does.
fn refute(gold: &Expr, answer: &Expr, fuel: &mut Fuel) -> Comparison {
    let variables = Variables::of(&[gold, answer]);
    let complex = [gold, answer].iter().any(|expr| expr.any(|node| matches!(node, Node::Constant(Constant::I))));
    let options = EnclosureOptions { complex, ..EnclosureOptions::default() };
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

/// Modulo two primes: at one point, or at several if variables are restricted to small integers.
fn compare_modulo_primes(gold: &Expr, answer: &Expr, fuel: &mut Fuel) -> Comparison {
    let variables = Variables::of(&[gold, answer]);
    let wanted = match () {
        () if variables.in_exponent => EXPONENT_POINTS,
        () if variables.any_integer_valued() => INTEGER_POINTS,
        () => 1,
    };
    let mut agreed = 0;
    for seed in 0..SEEDS {
        let mut at = |expr| evaluate(expr, &mut Modular { seed, variables: &variables }, fuel);
        match (at(gold), at(answer)) {
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

/// In interval arithmetic: over the reals, and over the complex numbers if i occurs or the reals do not decide. A
/// logarithm without base may be natural or decimal.
fn compare_enclosures(gold: &Expr, answer: &Expr, fuel: &mut Fuel) -> Comparison {
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
