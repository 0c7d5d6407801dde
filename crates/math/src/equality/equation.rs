//! Equations: the same assignment, or the same up to a constant factor.

use super::{compare as compare_values, is_equal, scalar};
use crate::evaluate::real::Precision;
use crate::evaluate::{Enclosure, EnclosureOptions, EvalError, Modular, Point, Variables, evaluate};
use crate::expr::{Builder, Expr, Node};
use crate::{Fuel, Reason, Rules, Value};

type Sides<'v> = (&'v Value, &'v Value);

/// Points at which the factor must be the same.
const POINTS: u64 = 4;
/// Precision of an enclosure, in bits.
const BITS: usize = 320;
/// Points that are tried.
const ATTEMPTS: u64 = 24;

pub(super) fn compare(gold: Sides<'_>, answer: Sides<'_>, rules: &Rules, fuel: &mut Fuel) -> Reason {
    if let Some((left, right)) = with_variable_of(gold.0, answer) {
        return compare(gold, (&left, &right), rules, fuel);
    }
    for (left, right) in [answer, (answer.1, answer.0)] {
        // If both pairs of sides are equal, so are the equations.
        if is_equal(same_left_side(gold.0, left, rules, fuel)) {
            let reason = compare_values(gold.1, right, rules, fuel);
            if is_equal(reason) || reason == Reason::OutOfFuel {
                return if is_equal(reason) { Reason::EqualRelation } else { reason };
            }
        }
    }
    // Two assignments whose names or values differ.
    if gold.0.is_name() && answer.0.is_name() && is_closed(gold.1) && is_closed(answer.1) {
        return Reason::DifferentRelation;
    }
    match (difference(gold), difference(answer)) {
        (Some(gold), Some(answer)) => proportional(&gold, &answer, false, fuel),
        _ => Reason::DifferentRelation,
    }
}

/// `f(t) = t^2` with the variable of `f(x)`. `None` for the same variable, another function, or where that name is
/// taken.
fn with_variable_of(gold: &Value, answer: Sides<'_>) -> Option<(Value, Value)> {
    let (Value::Expr(gold), Value::Expr(left)) = (gold, answer.0) else { return None };
    let variable = |expr: &Expr| match expr.root() {
        Node::Apply(name, argument) => match expr.node(*argument) {
            Node::Symbol(variable) => Some((expr.name(*name).to_owned(), expr.name(*variable).to_owned())),
            _ => None,
        },
        _ => None,
    };
    let (function, wanted) = variable(gold)?;
    let (other, own) = variable(left)?;
    let right = match answer.1 {
        Value::Expr(right) if right.names().contains(&wanted) => return None,
        Value::Expr(right) => Value::Expr(right.renamed(&own, &wanted)),
        right => right.clone(),
    };
    (function == other && wanted != own).then(|| (Value::Expr(left.renamed(&own, &wanted)), right))
}

fn is_closed(value: &Value) -> bool {
    match value {
        Value::Expr(expr) => expr.is_closed(),
        Value::Relation(_) | Value::Text(_) => false,
        _ => true,
    }
}

/// Whether two left-hand sides are the same. The value of a function at a number is another one at another number; `y`
/// may stand for the value: `f(x) = ...`, `y = ...`.
fn same_left_side(gold: &Value, answer: &Value, rules: &Rules, fuel: &mut Fuel) -> Reason {
    if let (Value::Expr(a), Value::Expr(b)) = (gold, answer) {
        let is_value = |expr: &Expr| expr.as_symbol().is_some_and(|name| name == "y");
        let both = a.as_application().zip(b.as_application());
        let argument = |expr: &Expr| match expr.root() {
            Node::Apply(_, argument) => Some(Builder::prefix(expr, *argument)),
            _ => None,
        };
        // `f(2) = 2x + 1` does not define `y`.
        let is_general =
            |expr: &Expr| expr.as_application().is_some() && !argument(expr).is_some_and(|at| at.is_closed());
        let mut is_same_point = || match (argument(a), argument(b)) {
            (Some(a), Some(b)) if a.is_closed() || b.is_closed() => {
                is_equal(compare_values(&Value::Expr(a), &Value::Expr(b), rules, fuel))
            }
            // `f(t) = x^2` does not define `f(x)`.
            (Some(a), Some(b)) => a.as_symbol().is_none() || a.as_symbol() == b.as_symbol(),
            _ => true,
        };
        if both.is_some_and(|(a, b)| a == b && !a.ends_with('_')) && is_same_point()
            || (is_value(b) && is_general(a))
            || (is_value(a) && is_general(b))
        {
            return Reason::EqualForm;
        }
    }
    compare_values(gold, answer, rules, fuel)
}

/// Left side minus right side.
pub(super) fn difference((left, right): Sides<'_>) -> Option<Expr> {
    let right = Builder::unary(&right.scalar()?, Node::Negate);
    Some(Builder::binary(&left.scalar()?, &right, Node::Add))
}

/// Whether one is the other times a nonzero constant (a positive one if `positive`).
pub(super) fn proportional(gold: &Expr, answer: &Expr, positive: bool, fuel: &mut Fuel) -> Reason {
    // Products of matrices are compared as they stand.
    let is_same = |answer: &Expr, fuel: &mut Fuel| scalar::matrices::same(gold, answer, fuel);
    if !is_same(answer, fuel) && (positive || !is_same(&Builder::unary(answer, Node::Negate), fuel)) {
        return Reason::NotSeparated;
    }
    let outcome = if positive { Ok(None) } else { proportional_modulo_primes(gold, answer, fuel) };
    match outcome {
        // The primes are public, so an answer could be built to differ by a multiple of them.
        Ok(Some(true)) => {
            return match proportional_in_enclosures(gold, answer, false, fuel) {
                Ok(Some(false)) => Reason::DifferentRelation,
                Ok(_) => Reason::EqualRelation,
                Err(_) => Reason::OutOfFuel,
            };
        }
        Ok(Some(false)) => return Reason::DifferentRelation,
        Err(_) => return Reason::OutOfFuel,
        Ok(None) => {}
    }
    match proportional_in_enclosures(gold, answer, positive, fuel) {
        Ok(Some(true)) => Reason::EqualRelation,
        Ok(Some(false)) => Reason::DifferentRelation,
        Ok(None) => Reason::NotSeparated,
        Err(_) => Reason::OutOfFuel,
    }
}

/// Checks `g(P)·a(Q) = g(Q)·a(P)` modulo two primes. `None` if undecided.
fn proportional_modulo_primes(gold: &Expr, answer: &Expr, fuel: &mut Fuel) -> Result<Option<bool>, EvalError> {
    let mut first = None;
    let variables = Variables::of(&[gold, answer]);
    let points = if variables.in_exponent { scalar::EXPONENT_POINTS as u64 } else { POINTS };
    for seed in 1..=points {
        let mut domain = Modular { seed, variables: &variables };
        let pair = evaluate(gold, &mut domain, fuel).and_then(|gold| Ok((gold, evaluate(answer, &mut domain, fuel)?)));
        let (g, a) = match pair {
            Ok(pair) => pair,
            Err(EvalError::OutOfFuel) => return Err(EvalError::OutOfFuel),
            Err(_) => return Ok(None),
        };
        if g.is_zero() || a.is_zero() {
            return Ok(Some(false));
        }
        let Some((g0, a0)) = first else {
            first = Some((g, a));
            continue;
        };
        if !Modular::product_of(&g, &a0).equals(&Modular::product_of(&g0, &a)) {
            return Ok(Some(false));
        }
    }
    Ok(Some(true))
}

fn proportional_in_enclosures(
    gold: &Expr,
    answer: &Expr,
    positive: bool,
    fuel: &mut Fuel,
) -> Result<Option<bool>, EvalError> {
    let variables = Variables::of(&[gold, answer]);
    let domain = |attempt, bits: usize| Enclosure {
        precision: Precision::new(bits),
        options: EnclosureOptions::default(),
        point: Point { variables: &variables, attempt },
    };
    let mut first = None;
    let mut agreed = 0;
    for attempt in 0..ATTEMPTS {
        let mut domain = domain(attempt, BITS);
        let pair = evaluate(gold, &mut domain, fuel).and_then(|gold| Ok((gold, evaluate(answer, &mut domain, fuel)?)));
        let (g, a) = match pair {
            Ok(pair) => pair,
            Err(EvalError::OutOfFuel) => return Err(EvalError::OutOfFuel),
            Err(EvalError::Undefined | EvalError::Imprecise) => continue,
            Err(_) => return Ok(None),
        };
        if g.im.is_some() || a.im.is_some() {
            return Ok(None);
        }
        if g.contains_zero() || a.contains_zero() {
            if g.contains_zero() == a.contains_zero() {
                continue;
            }
            return Ok(Some(false));
        }
        if positive && g.re.is_positive() != a.re.is_positive() {
            return Ok(Some(false));
        }
        let Some((g0, a0)) = &first else {
            first = Some((g, a));
            continue;
        };
        let precision = &mut domain.precision;
        let difference = precision.multiply_complex(&g, a0).and_then(|left| {
            let right = precision.multiply_complex(g0, &a)?;
            precision.subtract_complex(&left, &right)
        })?;
        if !difference.contains_zero() {
            return Ok(Some(false));
        }
        let sharp = precision.trusted_bits();
        if precision.absorbed || !g.is_known_to(sharp) || !a.is_known_to(sharp) {
            return Ok(None);
        }
        agreed += 1;
        if agreed == POINTS {
            return Ok(Some(true));
        }
    }
    Ok(None)
}
