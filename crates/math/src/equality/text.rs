//! Text in canonical spelling.

use crate::expr::{Constant, Expr, Node};
use crate::{Notation, Reason, Rules, Text, TextCase, Value};

pub(super) fn compare(gold: &Text, answer: &Text, rules: &Rules) -> Reason {
    compare_str(gold.as_str(), answer.as_str(), rules)
}

/// A text against letters parsed as a product: `\\text{No}` and `No`.
pub(super) fn compare_spelled(text: &Text, expr: &Expr, rules: &Rules) -> Reason {
    let mut spelled = String::new();
    for node in expr.nodes() {
        match node {
            Node::Symbol(name) => spelled.push_str(expr.name(*name)),
            Node::Constant(Constant::E) => spelled.push('e'),
            Node::Constant(Constant::I) => spelled.push('i'),
            Node::Constant(Constant::Pi) => spelled.push_str("pi"),
            Node::Multiply(..) => {}
            _ => return Reason::DifferentKind,
        }
    }
    compare_str(text.as_str(), &spelled, rules)
}

/// Digits in a base, against the same or against bare digits.
pub(super) fn compare_based(gold: &Value, answer: &Value) -> Reason {
    let digits = |value: &Value| match value {
        Value::Number(number) if number.notation == Notation::Integer && number.is_bare() => {
            number.exact().map(|value| value.numerator().to_string())
        }
        Value::Based(based) => Some(based.digits.clone()),
        _ => None,
    };
    match (gold, answer) {
        (Value::Based(a), Value::Based(b)) if a.base != b.base => Reason::DifferentBase,
        (gold, answer) => match (digits(gold), digits(answer)) {
            (Some(gold), Some(answer)) if gold == answer => Reason::EqualDigits,
            (Some(_), Some(_)) => Reason::DifferentNumber,
            _ => Reason::DifferentKind,
        },
    }
}

fn compare_str(gold: &str, answer: &str, rules: &Rules) -> Reason {
    let equal = gold == answer || (rules.text_case == TextCase::Fold && folded(gold).eq(folded(answer)));
    if equal { Reason::EqualText } else { Reason::DifferentText }
}

fn folded(text: &str) -> impl Iterator<Item = char> {
    text.chars().flat_map(char::to_lowercase)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_matters_where_the_policy_says_so() {
        let (gold, answer) = (Text("Évelyn".into()), Text("évelyn".into()));
        let exact = Rules { text_case: TextCase::Exact, ..Rules::default() };
        assert_eq!(compare(&gold, &answer, &Rules::default()), Reason::EqualText);
        assert_eq!(compare(&gold, &answer, &exact), Reason::DifferentText);
    }
}
