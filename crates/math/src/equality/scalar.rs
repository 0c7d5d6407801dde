//! Scalars: exactly, then modulo two primes, then in interval arithmetic, finally as rounded decimals.

mod constant;
mod exact;
pub(super) mod matrices;
mod modular;
mod near;
mod order;
mod points;
mod rounded;

use super::{is_equal, number};
use crate::evaluate::{EnclosureOptions, EvalError, is_complex_letter};
use crate::expr::{Expr, Function, Node};
use crate::{Decimals, Fuel, Notation, Number, Reason, Rules, Value};
use constant::with_constant;
use exact::exact_form;
pub(super) use modular::EXPONENT_POINTS;
use modular::compare_modulo_primes;
pub(super) use near::is_near;
use points::{compare_enclosures, refute, refute_with};

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
        Comparison::Same if matrices::of(&gold_expr, &answer_expr).is_empty() => Reason::EqualRounded,
        Comparison::Unknown(Reason::OutOfFuel) => Reason::OutOfFuel,
        _ => reason,
    }
}

fn has_decimals(expr: &Expr) -> bool {
    expr.any(|node| matches!(node, Node::Literal(number) if matches!(number.notation, Notation::Decimal { .. })))
}

/// Compares two scalar expressions within the fuel.
fn compare_expressions(gold: &Expr, answer: &Expr, fuel: &mut Fuel) -> Reason {
    let reason = compare_at_real_points(gold, answer, fuel);
    if is_equal(reason) && !matrices::same(gold, answer, fuel) {
        return Reason::NotSeparated;
    }
    if !is_equal(reason) || reason == Reason::EqualForm || ![gold, answer].into_iter().any(has_complex_part) {
        return reason;
    }
    // `|z|^2` is the square of z for real numbers only.
    let options = EnclosureOptions { complex: true, complex_letters: true, ..EnclosureOptions::default() };
    match refute_with(options, gold, answer, fuel) {
        Comparison::Same => reason,
        Comparison::Different => Reason::NotSeparated,
        Comparison::Unknown(why) => why,
    }
}

/// Whether a part or the absolute value of a complex variable occurs.
fn has_complex_part(expr: &Expr) -> bool {
    let is_part =
        |node: &Node| matches!(node, Node::Call(Function::Abs | Function::RealPart | Function::ImaginaryPart, _));
    expr.any(is_part) && expr.names().iter().any(|name| is_complex_letter(name))
}

fn compare_at_real_points(gold: &Expr, answer: &Expr, fuel: &mut Fuel) -> Reason {
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
