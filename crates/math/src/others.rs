//! Other readings of formulas, where the first ones differ: a letter before brackets as a factor, and parameters with
//! other names.

use crate::equality::comprehension::parameter;
use crate::expr::{Builder, Expr, Node};
use crate::{Relation, Sign, Value};

/// Pairs of a gold answer and an answer to compare as well.
pub(crate) fn of_formulas(gold: &Value, answer: &Value) -> Vec<(Value, Value)> {
    let mut found = Vec::new();
    if let Some((own, wanted)) = parameters(gold, answer) {
        found.push((gold.clone(), answer.renamed(&own, &wanted)));
    }
    let (in_gold, in_answer) = (as_factors(gold, answer, true), as_factors(answer, gold, false));
    if in_gold.is_some() || in_answer.is_some() {
        found.push((in_gold.unwrap_or_else(|| gold.clone()), in_answer.unwrap_or_else(|| answer.clone())));
    }
    found
}

/// Capitals that may be a function or a quantity.
const EITHER: &str = "FGHPW";

/// The value with `P(1 - r)` as a product, if P stands without brackets in the other value and not here. A gold answer
/// must show by itself that P is a quantity. `None` where nothing changes.
fn as_factors(value: &Value, other: &Value, is_gold: bool) -> Option<Value> {
    let (Value::Expr(expr), Value::Expr(other)) = (sides(value).1, sides(other).1) else { return None };
    let is_applied =
        |expr: &Expr, name: &str| expr.any(|node| matches!(node, Node::Apply(index, _) if expr.name(*index) == name));
    let applied = expr.nodes().iter().filter_map(|node| match node {
        Node::Apply(index, argument) => Some((expr.name(*index), expr.node(*argument))),
        _ => None,
    });
    let (name, _) = applied.clone().find(|(name, _)| name.len() == 1 && EITHER.contains(name))?;
    // `P(A)` is the probability of A, and `F(2)` a value at 2.
    let is_value = |argument: &Node| matches!(argument, Node::Symbol(_) | Node::Literal(_));
    let has_value = applied.clone().any(|(other, argument)| other == name && is_value(argument));
    let stands_alone = |expr: &Expr| expr.any(|node| matches!(node, Node::Symbol(index) if expr.name(*index) == name));
    if has_value || is_applied(other, name) || !stands_alone(other) || is_gold && !stands_alone(expr) {
        return None;
    }
    let product = Value::Expr(Builder::applied_as_factor(expr, name)?);
    Some(match value {
        Value::Relation(relation) => {
            let mut members = relation.members.clone();
            *members.last_mut()? = product;
            Value::Relation(Relation { members, signs: relation.signs.clone() })
        }
        _ => product,
    })
}

/// The name of an assignment and its value; a bare value without a name.
fn sides(value: &Value) -> (Option<&Value>, &Value) {
    match value {
        Value::Relation(relation) => match (relation.members.as_slice(), relation.signs.as_slice()) {
            ([name, value], [Sign::Equal]) => (Some(name), value),
            _ => (None, value),
        },
        value => (None, value),
    }
}

/// The parameter of the answer and that of the gold answer, where both have one under another name: `x = k\\pi, k \\in
/// \\mathbb{Z}` and `x = n\\pi, n \\in \\mathbb{Z}`.
fn parameters(gold: &Value, answer: &Value) -> Option<(String, String)> {
    let parameter_of = |value: &Value| match value {
        Value::List(items) => items.iter().find_map(parameter),
        Value::Conditions(relations) => {
            relations.iter().find_map(|relation| parameter(&Value::Relation(relation.clone())))
        }
        _ => None,
    };
    let (wanted, own) = (parameter_of(gold)?, parameter_of(answer)?);
    let mut is_taken = false;
    answer.any(&mut |part| {
        is_taken |= matches!(part, Value::Expr(expr) if expr.names().contains(&wanted));
        false
    });
    (own != wanted && !is_taken).then_some((own, wanted))
}
