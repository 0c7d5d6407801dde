//! Equations: the same assignment, or the same up to a constant factor.

use super::{compare as compare_values, is_equal, scalar};
use crate::evaluate::real::Precision;
use crate::evaluate::{Enclosure, Fault, Modular, Names, Point, Setting, evaluate};
use crate::expr::{Builder, Expr, Node};
use crate::{Fuel, Policy, Reason, Value};

type Sides<'v> = (&'v Value, &'v Value);

/// Points at which the factor must be the same.
const POINTS: u64 = 4;
/// Precision of an enclosure.
const BITS: usize = 320;
/// Points that are tried.
const ATTEMPTS: u64 = 24;

pub(super) fn compare(gold: Sides<'_>, answer: Sides<'_>, policy: &Policy, fuel: &mut Fuel) -> Reason {
    for (left, right) in [answer, (answer.1, answer.0)] {
        // Sides that are equal each make equations that are.
        if is_equal(named(gold.0, left, policy, fuel)) {
            let reason = compare_values(gold.1, right, policy, fuel);
            if is_equal(reason) || reason == Reason::OutOfFuel {
                return if is_equal(reason) { Reason::EqualRelation } else { reason };
            }
        }
    }
    // Both give a value to a name, and the names or the values differ.
    if gold.0.is_name() && answer.0.is_name() && is_closed(gold.1) && is_closed(answer.1) {
        return Reason::DifferentRelation;
    }
    match (difference(gold), difference(answer)) {
        (Some(gold), Some(answer)) => proportional(&gold, &answer, false, fuel),
        _ => Reason::DifferentRelation,
    }
}

fn is_closed(value: &Value) -> bool {
    match value {
        Value::Expr(expr) => expr.is_closed(),
        Value::Relation(_) | Value::Text(_) => false,
        _ => true,
    }
}

/// Whether two left sides are the same. What a function is called and what it is taken of are free, and so is y for its value:
/// `f(x) = ...`, `y = ...`.
fn named(gold: &Value, answer: &Value, policy: &Policy, fuel: &mut Fuel) -> Reason {
    if let (Value::Expr(a), Value::Expr(b)) = (gold, answer) {
        let is_value = |expr: &Expr| expr.as_symbol().is_some_and(|name| name == "y");
        let both = a.as_application().zip(b.as_application());
        if both.is_some_and(|(a, b)| a == b && !a.ends_with('_'))
            || (a.as_application().is_some() && is_value(b))
            || (is_value(a) && b.as_application().is_some())
        {
            return Reason::EqualForm;
        }
    }
    compare_values(gold, answer, policy, fuel)
}

/// Left minus right.
pub(super) fn difference((left, right): Sides<'_>) -> Option<Expr> {
    let right = Builder::wrap(&right.scalar()?, Node::Negate);
    Some(Builder::join(&left.scalar()?, &right, Node::Add))
}

/// Whether one is the other times a constant other than zero, and a positive one where that is asked for.
pub(super) fn proportional(gold: &Expr, answer: &Expr, positive: bool, fuel: &mut Fuel) -> Reason {
    let outcome = if positive { Ok(None) } else { modular(gold, answer, fuel) };
    match outcome {
        // The primes are known to everybody, and an answer could be a multiple of them away.
        Ok(Some(true)) => {
            return match enclosed(gold, answer, false, fuel) {
                Ok(Some(false)) => Reason::DifferentRelation,
                Ok(_) => Reason::EqualRelation,
                Err(_) => Reason::OutOfFuel,
            };
        }
        Ok(Some(false)) => return Reason::DifferentRelation,
        Err(_) => return Reason::OutOfFuel,
        Ok(None) => {}
    }
    match enclosed(gold, answer, positive, fuel) {
        Ok(Some(true)) => Reason::EqualRelation,
        Ok(Some(false)) => Reason::DifferentRelation,
        Ok(None) => Reason::NotSeparated,
        Err(_) => Reason::OutOfFuel,
    }
}

/// `g(P)·a(Q) = g(Q)·a(P)` modulo two primes. `None` where it cannot tell.
fn modular(gold: &Expr, answer: &Expr, fuel: &mut Fuel) -> Result<Option<bool>, Fault> {
    let mut first = None;
    let names = Names::of(&[gold, answer]);
    let points = if names.raised { scalar::RAISED_POINTS as u64 } else { POINTS };
    for seed in 1..=points {
        let mut domain = Modular { seed, names: &names };
        let pair = evaluate(gold, &mut domain, fuel).and_then(|gold| Ok((gold, evaluate(answer, &mut domain, fuel)?)));
        let (g, a) = match pair {
            Ok(pair) => pair,
            Err(Fault::OutOfFuel) => return Err(Fault::OutOfFuel),
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

fn enclosed(gold: &Expr, answer: &Expr, positive: bool, fuel: &mut Fuel) -> Result<Option<bool>, Fault> {
    let names = Names::of(&[gold, answer]);
    let domain = |attempt, bits: usize| Enclosure {
        precision: Precision::new(bits),
        setting: Setting::default(),
        point: Point { names: &names, attempt },
    };
    let (mut first, mut agreed) = (None, 0);
    for attempt in 0..ATTEMPTS {
        let mut domain = domain(attempt, BITS);
        let pair = evaluate(gold, &mut domain, fuel).and_then(|gold| Ok((gold, evaluate(answer, &mut domain, fuel)?)));
        let (g, a) = match pair {
            Ok(pair) => pair,
            Err(Fault::OutOfFuel) => return Err(Fault::OutOfFuel),
            Err(Fault::Undefined | Fault::Vague) => continue,
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
        let sharp = precision.sharp();
        if precision.absorbed || !g.is_sharp(sharp) || !a.is_sharp(sharp) {
            return Ok(None);
        }
        agreed += 1;
        if agreed == POINTS {
            return Ok(Some(true));
        }
    }
    Ok(None)
}
