//! Whether two values are equal, and by which rule.

mod list;
mod number;
mod text;

use crate::{Fuel, Policy, Reason, Value};

/// Compares an answer with the gold one. It is not symmetric where a policy rule is not: a gold answer may be shorter than a given one.
pub fn compare(gold: &Value, answer: &Value, policy: &Policy, fuel: &mut Fuel) -> Reason {
    match (gold, answer) {
        (Value::Number(gold), Value::Number(answer)) => {
            if fuel.spend(gold.cost(answer)).is_err() {
                return Reason::OutOfFuel;
            }
            number::compare(gold, answer, policy)
        }
        (Value::List(gold), Value::List(answer)) => list::compare(gold, answer, policy, fuel),
        (Value::Text(gold), Value::Text(answer)) => text::compare(gold, answer, policy),
        _ => Reason::DifferentKind,
    }
}
