//! Relations: equations, inequalities, memberships, and the values they assign.

use super::{compare as compare_values, equation, inequality, is_equal, pairwise, region};
use crate::expr::Node;
use crate::{CheckOutcome, Equations, Fuel, Reason, Relation, Rules, Sign, Value};

/// At least one side is a relation.
pub(super) fn compare(gold: &Value, answer: &Value, rules: &Rules, fuel: &mut Fuel) -> Reason {
    match (gold, answer) {
        (Value::Relation(a), Value::Relation(b)) => compare_relations(a, b, rules, fuel),
        (Value::Relation(relation), other) => {
            if let Some(reason) = region::compare_relation(relation, other, false, rules, fuel) {
                return reason;
            }
            if rules.equations == Equations::Strict {
                return Reason::DifferentKind;
            }
            match relation.named_value() {
                Some(value) => compare_values(value, other, rules, fuel),
                None => Reason::DifferentKind,
            }
        }
        (other, Value::Relation(relation)) => {
            if let Some(reason) = region::compare_relation(relation, other, true, rules, fuel) {
                return reason;
            }
            match relation.named_value().or_else(|| value_of_sum(relation)) {
                Some(value) => match inconsistency(relation, rules, fuel) {
                    Some(reason) => reason,
                    None => compare_values(other, value, rules, fuel),
                },
                None => compare_chain(other, relation, rules, fuel),
            }
        }
        _ => Reason::DifferentKind,
    }
}

/// The value of `m + n = 113`, since many tasks ask for such a sum. Not with coefficients, and not in a gold answer: then it is one
/// equation of several.
fn value_of_sum(relation: &Relation) -> Option<&Value> {
    let [Value::Expr(sum), .., last] = relation.members.as_slice() else { return None };
    let is_sum =
        sum.names().len() > 1 && sum.nodes().iter().all(|node| matches!(node, Node::Symbol(_) | Node::Add(..)));
    let is_chain = relation.signs.iter().all(|sign| *sign == Sign::Equal);
    (is_sum && is_chain && is_number(last)).then_some(last)
}

/// The contradiction in a chain with a name, if any: `x = 6 = 5` does not answer 5.
fn inconsistency(relation: &Relation, rules: &Rules, fuel: &mut Fuel) -> Option<Reason> {
    let rounded = relation.signs.iter().position(|sign| *sign == Sign::Approximately);
    let exact = rounded.filter(|at| *at > 0).map_or(relation.members.len(), |at| at + 1);
    let numbers: Vec<&Value> = relation.members.iter().take(exact).filter(|member| is_number(member)).collect();
    let (last, others) = numbers.split_last()?;
    for other in others {
        let reason = compare_values(last, other, rules, fuel);
        if is_equal(reason) {
            continue;
        }
        // Either may be the rounded one.
        if reason.outcome() == CheckOutcome::Undecided || !is_equal(compare_values(other, last, rules, fuel)) {
            return Some(if reason.outcome() == CheckOutcome::Undecided { reason } else { Reason::FalseChain });
        }
    }
    None
}

fn is_number(value: &Value) -> bool {
    match value {
        Value::Number(_) => true,
        Value::Expr(expr) => expr.is_closed(),
        Value::Quantity(quantity) => is_number(&quantity.amount),
        _ => false,
    }
}

/// A chain of numbers without a name, such as `42 = 7`, has a value only if all of them are equal.
fn compare_chain(gold: &Value, relation: &Relation, rules: &Rules, fuel: &mut Fuel) -> Reason {
    let is_number = |value: &Value| match value {
        Value::Number(_) => true,
        Value::Expr(expr) => expr.is_closed(),
        _ => false,
    };
    let [first, rest @ ..] = relation.members.as_slice() else { return Reason::DifferentKind };
    if !relation.members.iter().all(is_number) || relation.signs.iter().any(|sign| *sign != Sign::Equal) {
        return Reason::DifferentKind;
    }
    let agree =
        pairwise(rest.iter().map(|member| (first, member)), Reason::EqualRelation, Reason::FalseChain, rules, fuel);
    if is_equal(agree) { compare_values(gold, first, rules, fuel) } else { agree }
}

fn compare_relations(gold: &Relation, answer: &Relation, rules: &Rules, fuel: &mut Fuel) -> Reason {
    if let (Some(a), Some(b)) = (gold.equation(), answer.equation()) {
        return equation::compare(a, b, rules, fuel);
    }
    // Chains that name the same quantity are compared by their values.
    if let (Some(a), Some(b)) = (gold.named_value(), answer.named_value()) {
        let same_name = pairwise(
            gold.members.iter().zip(&answer.members).take(1),
            Reason::EqualRelation,
            Reason::DifferentRelation,
            rules,
            fuel,
        );
        return if is_equal(same_name) { compare_values(a, b, rules, fuel) } else { same_name };
    }
    if let Some(reason) = region::compare_relations(gold, answer, rules, fuel)
        && (is_equal(reason) || reason.outcome() == CheckOutcome::Undecided)
    {
        return reason;
    }
    let alike = member_by_member(gold, answer, rules, fuel);
    if is_equal(alike) {
        return alike;
    }
    match inequality::compare(gold, answer, rules, fuel) {
        Some(reason) => reason,
        None => alike,
    }
}

/// The same members and signs, in either direction.
fn member_by_member(gold: &Relation, answer: &Relation, rules: &Rules, fuel: &mut Fuel) -> Reason {
    if gold.members.len() != answer.members.len() {
        return Reason::DifferentRelation;
    }
    let mut last = Reason::DifferentRelation;
    if gold.signs == answer.signs {
        let pairs = gold.members.iter().zip(&answer.members);
        last = pairwise(pairs, Reason::EqualRelation, Reason::DifferentRelation, rules, fuel);
    }
    let flips = gold.signs.iter().eq(answer.signs.iter().rev().map(|sign| sign.flipped()).collect::<Vec<_>>().iter());
    let turns = |sign: &Sign| !matches!(sign, Sign::To | Sign::In);
    if !is_equal(last) && flips && gold.signs.iter().all(turns) {
        let pairs = gold.members.iter().zip(answer.members.iter().rev());
        let backward = pairwise(pairs, Reason::EqualRelation, Reason::DifferentRelation, rules, fuel);
        if is_equal(backward) {
            return backward;
        }
    }
    last
}
