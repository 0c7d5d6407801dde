//! Sets by a condition on a term: `\\{2k \\mid k \\in \\mathbb{Z}\\}`.

use super::{compare as compare_values, is_equal};
use crate::{Comprehension, Fuel, Reason, Rules, Sign, Value};

/// At least one side is such a set.
pub(super) fn compare(gold: &Value, answer: &Value, rules: &Rules, fuel: &mut Fuel) -> Reason {
    match (gold, answer) {
        (Value::Comprehension(a), Value::Comprehension(b)) => {
            // The names are bound, so that any may stand for any.
            let renamed = matching(&a.condition, &b.condition);
            let answer = renamed.map_or_else(|| b.clone(), |(from, to)| with_name(b, &from, &to));
            let heads = compare_values(&a.head, &answer.head, rules, fuel);
            if !is_equal(heads) {
                return heads;
            }
            let conditions = compare_values(&a.condition, &answer.condition, rules, fuel);
            if is_equal(conditions) { Reason::EqualSet } else { conditions }
        }
        // `2x` for x > 1 may be an interval: the image of a set under a term is not computed.
        (Value::Comprehension(_), Value::Number(_)) | (Value::Number(_), Value::Comprehension(_)) => {
            Reason::DifferentKind
        }
        _ => Reason::Unsupported,
    }
}

fn with_name(set: &Comprehension, from: &str, to: &str) -> Comprehension {
    Comprehension { head: Box::new(set.head.renamed(from, to)), condition: Box::new(set.condition.renamed(from, to)) }
}

/// The name that a membership of the answer is about, and that of the gold one, where they differ.
fn matching(gold: &Value, answer: &Value) -> Option<(String, String)> {
    let (to, from) = (parameter(gold)?, parameter(answer)?);
    (from != to).then_some((from, to))
}

/// The only name of a membership: k in `k \\in \\mathbb{Z}`; of several relations, that of the first.
pub(crate) fn parameter(value: &Value) -> Option<String> {
    let relation = match value {
        Value::Relation(relation) => relation,
        Value::Conditions(relations) => relations.iter().find(|relation| relation.signs == [Sign::In])?,
        _ => return None,
    };
    let is_membership = relation.signs == [Sign::In] || relation.signs.iter().all(|sign| sign.is_order());
    match relation.members.first()? {
        Value::Expr(expr) if is_membership => expr.as_symbol().map(str::to_owned),
        _ => None,
    }
}
