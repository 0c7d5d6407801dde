//! Several inequalities and memberships that all hold: the intersection of their regions.

use super::region::{self, NamedRegion};
use super::{compare as compare_values, is_equal};
use crate::{CheckOutcome, Fuel, Reason, Relation, Rules, Value};

/// At least one side is a conjunction.
pub(super) fn compare(gold: &Value, answer: &Value, rules: &Rules, fuel: &mut Fuel) -> Reason {
    let found = match (region_of(gold, rules, fuel), region_of(answer, rules, fuel)) {
        (Some(gold), Some(answer)) => {
            let same_name = gold.name.is_none() || answer.name.is_none() || gold.name == answer.name;
            if !same_name {
                return Reason::DifferentRelation;
            }
            Some(region::regions(&gold.region, &answer.region, rules, fuel))
        }
        _ => None,
    };
    match found {
        Some(reason) if is_equal(reason) || reason == Reason::OutOfFuel => reason,
        // A value for one name is not a set of them.
        Some(reason) if !matches!((gold, answer), (Value::Conditions(_), Value::Conditions(_))) => reason,
        // Conditions on several names, or with terms that have no order, are equal one by one.
        found => {
            let one_by_one = compare_values(&as_list(gold), &as_list(answer), rules, fuel);
            // A list of inequalities gives alternatives: `x > 0 or y > 0`.
            if is_equal(one_by_one) && matches!((gold, answer), (Value::List(_), _) | (_, Value::List(_))) {
                return Reason::NotUnderstood;
            }
            match found {
                Some(reason) if one_by_one.outcome() == CheckOutcome::NotEqual => reason,
                _ => one_by_one,
            }
        }
    }
}

/// The region of a value. `None` if it has none, or if its conditions are about several names.
fn region_of(value: &Value, rules: &Rules, fuel: &mut Fuel) -> Option<NamedRegion> {
    match value {
        Value::Conditions(relations) => region::intersection(relations, rules, fuel),
        value => region::named(value),
    }
}

fn as_list(value: &Value) -> Value {
    match value {
        Value::Conditions(relations) => {
            Value::List(relations.iter().cloned().map(|relation: Relation| Value::Relation(relation)).collect())
        }
        value => value.clone(),
    }
}
