//! Ratios and times of day.

use dashu_ratio::RBig;

use super::{is_equal, scalar};
use crate::expr::{Builder, Node};
use crate::{Fuel, Reason, Rules, Value};

pub(super) fn compare(gold: &Value, answer: &Value, rules: &Rules, fuel: &mut Fuel) -> Reason {
    match (gold, answer) {
        (Value::Time(gold), Value::Time(answer)) => {
            if gold.seconds == answer.seconds {
                Reason::EqualRatio
            } else {
                Reason::DifferentNumber
            }
        }
        // `20:60` is not half past ten.
        (Value::Time(_), Value::Ratio(_)) => Reason::NotUnderstood,
        (Value::Ratio(ratio), Value::Time(time)) => proportional(ratio, &time.ratio, rules, fuel),
        (Value::Ratio(gold), Value::Ratio(answer)) => proportional(gold, answer, rules, fuel),
        (Value::Ratio(terms), other) => quotient(terms, other, false, rules, fuel),
        // `36:1` says what 36 is to something else.
        (Value::Number(number), Value::Ratio(_)) if number.exact().is_some_and(RBig::is_int) => Reason::NotUnderstood,
        (other, Value::Ratio(terms)) => quotient(terms, other, true, rules, fuel),
        _ => Reason::DifferentKind,
    }
}

/// `a:b:c` equals `x:y:z` if all `a·y = b·x`.
fn proportional(gold: &[Value], answer: &[Value], rules: &Rules, fuel: &mut Fuel) -> Reason {
    if gold.len() != answer.len() {
        return Reason::DifferentCount;
    }
    let product = |a: &Value, b: &Value| Some(Value::Expr(Builder::binary(&a.scalar()?, &b.scalar()?, Node::Multiply)));
    let is_zero = |term: &Value| matches!(term, Value::Number(number) if number.exact().is_some_and(|n| n.is_zero()));
    if gold.iter().zip(answer).any(|(gold, answer)| is_zero(gold) != is_zero(answer)) {
        return Reason::DifferentItem;
    }
    let ([first, others @ ..], [answer_first, answer_others @ ..]) = (gold, answer) else {
        return Reason::DifferentKind;
    };
    for (a, b) in others.iter().zip(answer_others) {
        let (Some(left), Some(right)) = (product(first, b), product(a, answer_first)) else {
            return Reason::DifferentKind;
        };
        let reason = scalar::compare(&left, &right, rules, fuel);
        if !is_equal(reason) {
            return reason;
        }
    }
    Reason::EqualRatio
}

/// The quotient of a ratio of two terms.
fn quotient(terms: &[Value], other: &Value, ratio_is_answer: bool, rules: &Rules, fuel: &mut Fuel) -> Reason {
    let [above, below] = terms else { return Reason::DifferentKind };
    let (Some(above), Some(below), true) =
        (above.scalar(), below.scalar(), matches!(other, Value::Number(_) | Value::Expr(_)))
    else {
        return Reason::DifferentKind;
    };
    let quotient = Value::Expr(Builder::binary(&above, &below, Node::Divide));
    if ratio_is_answer {
        scalar::compare(other, &quotient, rules, fuel)
    } else {
        scalar::compare(&quotient, other, rules, fuel)
    }
}
