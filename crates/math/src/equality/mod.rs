//! Equality of two values, with the rule that decided it.
//!
//! Scalars are compared exactly if possible, then modulo two primes, then in interval arithmetic (`scalar`). Composite
//! values are compared part by part, each kind by its own rules (`relation`, `region`, `list`, `tuple`, `quantity` and
//! others).

pub(crate) mod comprehension;
mod conditions;
mod equation;
mod inequality;
mod list;
mod number;
mod quantity;
mod ratio;
mod region;
mod relation;
mod scalar;
mod text;
mod tuple;

use crate::{CheckOutcome, Fuel, Reason, Rules, Value};

/// Compares an answer with the gold answer. Not symmetric: some rules treat the two sides differently, for example a
/// gold equation may not be answered with an expression but the reverse may hold.
pub fn compare(gold: &Value, answer: &Value, rules: &Rules, fuel: &mut Fuel) -> Reason {
    if fuel.spend(4).is_err() {
        return Reason::OutOfFuel;
    }
    match (gold, answer) {
        (Value::Number(gold), Value::Number(answer)) => {
            if fuel.spend(gold.cost(answer)).is_err() {
                return Reason::OutOfFuel;
            }
            number::compare(gold, answer, rules)
        }
        (Value::Text(gold), Value::Text(answer)) => text::compare(gold, answer, rules),
        (Value::Text(text), Value::Expr(expr)) | (Value::Expr(expr), Value::Text(text)) => {
            text::compare_spelled(text, expr, rules)
        }
        // Identical parses are equal, whatever the kind.
        _ if gold == answer => same(gold),
        (Value::Expr(gold), Value::Number(_) | Value::Expr(_)) if gold.is_capitals() => Reason::NotUnderstood,
        (Value::Comprehension(_), _) | (_, Value::Comprehension(_)) => {
            comprehension::compare(gold, answer, rules, fuel)
        }
        (Value::Conditions(_), _) | (_, Value::Conditions(_)) => conditions::compare(gold, answer, rules, fuel),
        (Value::List(gold), Value::List(answer)) => list::compare(gold, answer, rules, fuel),
        (Value::Relation(_), _) | (_, Value::Relation(_)) => relation::compare(gold, answer, rules, fuel),
        (Value::Region(_), _) | (_, Value::Region(_)) => region::compare(gold, answer, rules, fuel),
        (Value::Matrix(_), _) | (_, Value::Matrix(_)) => tuple::compare_matrix(gold, answer, rules, fuel),
        (Value::Tuple(_), _) | (_, Value::Tuple(_)) => tuple::compare(gold, answer, rules, fuel),
        (Value::Set(_), _) | (_, Value::Set(_)) => list::compare_set(gold, answer, rules, fuel),
        (Value::Ratio(_) | Value::Time(_), _) | (_, Value::Ratio(_) | Value::Time(_)) => {
            ratio::compare(gold, answer, rules, fuel)
        }
        (Value::Based(_), _) | (_, Value::Based(_)) => text::compare_based(gold, answer),
        (Value::Infinite { .. }, _) | (_, Value::Infinite { .. }) => Reason::DifferentKind,
        (Value::Number(_) | Value::Expr(_) | Value::Quantity(_), Value::List(items)) => {
            match list::single_value(items, rules, fuel) {
                Some(value) => compare(gold, value, rules, fuel),
                None => Reason::DifferentKind,
            }
        }
        // A gold answer in several notations.
        (Value::List(items), Value::Number(_) | Value::Expr(_) | Value::Quantity(_)) => {
            match list::single_value(items, rules, fuel) {
                Some(value) => compare(value, answer, rules, fuel),
                None => Reason::DifferentKind,
            }
        }
        (Value::List(_) | Value::Text(_), _) | (_, Value::Text(_)) => Reason::DifferentKind,
        (Value::Number(_) | Value::Expr(_) | Value::Quantity(_), _) => quantity::compare(gold, answer, rules, fuel),
    }
}

/// The reason for identical values.
fn same(value: &Value) -> Reason {
    match value {
        Value::Number(_) => Reason::EqualRational,
        Value::Expr(_) => Reason::EqualForm,
        Value::Quantity(_) => Reason::EqualQuantity,
        Value::Based(_) => Reason::EqualDigits,
        Value::Infinite { .. } => Reason::EqualInfinity,
        Value::Time(_) | Value::Ratio(_) => Reason::EqualRatio,
        Value::List(_) => Reason::EqualList,
        Value::Tuple(_) => Reason::EqualTuple,
        Value::Set(_) | Value::Comprehension(_) => Reason::EqualSet,
        Value::Region(_) => Reason::EqualRegion,
        Value::Matrix(_) => Reason::EqualMatrix,
        Value::Relation(_) | Value::Conditions(_) => Reason::EqualRelation,
        Value::Text(_) => Reason::EqualText,
    }
}

fn is_equal(reason: Reason) -> bool {
    reason.outcome() == CheckOutcome::Equal
}

/// Compares pairs in order. Returns `equal`, or `different` at the first difference, or an undecided reason.
fn pairwise<'v>(
    pairs: impl Iterator<Item = (&'v Value, &'v Value)>,
    equal: Reason,
    different: Reason,
    rules: &Rules,
    fuel: &mut Fuel,
) -> Reason {
    let mut undecided = None;
    for (gold, answer) in pairs {
        if fuel.spend(crate::fuel::ITEM).is_err() {
            return Reason::OutOfFuel;
        }
        let reason = compare(gold, answer, rules, fuel);
        match reason.outcome() {
            CheckOutcome::Equal => {}
            CheckOutcome::Undecided => undecided = Some(reason),
            _ => return different,
        }
    }
    undecided.unwrap_or(equal)
}
