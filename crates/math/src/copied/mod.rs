//! Whether an answer copies an unevaluated expression from its task: "compute `\binom{31}{28}`" answered by
//! `\binom{31}{28}`.
//!
//! Such an answer equals the gold one and shows nothing. Both sides are reduced to a signature (`signature`) under
//! which the usual disguises are the same expression: brackets, spelling, neutral terms and factors, the order of terms
//! and factors. The task's text is searched for formulas (`formulas`), of which every part counts. Numerals, symbols,
//! and lists of them are answers wherever they stand.

mod by_value;
mod formulas;
mod signature;

use std::collections::HashSet;

use crate::expr::{Builder, Expr, NodeId};
use crate::parse::parse;
use crate::{CheckOutcome, Fuel, Rules, Sign, Value, equality};
use formulas::formulas;
use signature::{Signature, of_value, parts_of};

/// Steps for reading a task, on top of those of the check: its text is longer than an answer.
const FUEL: u64 = 400_000;
/// Longest part of a task that is searched, from its end: questions stand there.
const MAX_PROMPT_BYTES: usize = 32 << 10;

/// Whether an answer equal to the gold one is an unevaluated expression of the task, and not the gold answer as
/// written.
pub(crate) fn is_copied(answer: &Value, gold: &Value, prompt: &str, rules: &Rules) -> bool {
    let answers = candidates(answer);
    if answers.is_empty() {
        return false;
    }
    let as_written: HashSet<Signature> = candidates(gold).into_iter().collect();
    let left: Vec<Signature> = answers.into_iter().filter(|answer| !as_written.contains(answer)).collect();
    if left.is_empty() {
        return false;
    }
    let known = Formulas::of(prompt);
    left.iter().any(|answer| known.written.contains(answer)) || has_copied_part(answer, gold, &known, rules)
}

/// The formulas of a task: their signatures as written, and those that look through arithmetic.
#[derive(Default)]
struct Formulas {
    written: HashSet<Signature>,
    by_value: HashSet<Signature>,
}

/// Most parts of an answer that are compared with the gold one.
const MAX_PARTS: usize = 8;

/// Whether a part of the answer that stands in the task equals the gold answer by itself: `\\max(\\binom{31}{28}, 0)`.
fn has_copied_part(answer: &Value, gold: &Value, known: &Formulas, rules: &Rules) -> bool {
    let expr: &Expr = match answer {
        Value::Expr(expr) => expr,
        Value::Quantity(quantity) => match &*quantity.amount {
            Value::Expr(expr) => expr,
            _ => return false,
        },
        _ => return false,
    };
    let written = signature::of_nodes(expr);
    let mut fuel = Fuel::new(rules.limits.fuel);
    let by_value = by_value::of_nodes(expr, &mut fuel);
    // A gold answer that is left unevaluated in the same way is an answer.
    let own: HashSet<Signature> = match gold {
        Value::Expr(gold) => by_value::of_nodes(gold, &mut fuel).into_iter().flatten().collect(),
        _ => HashSet::new(),
    };
    let is_known = |at: usize| {
        let by_value = by_value.get(at).copied().flatten();
        written.get(at).is_some_and(|signature| known.written.contains(signature))
            || by_value.is_some_and(|signature| known.by_value.contains(&signature) && !own.contains(&signature))
    };
    let copied = expr.nodes().iter().enumerate().filter(|(at, node)| signature::is_operation(node) && is_known(*at));
    copied.take(MAX_PARTS).any(|(id, _)| {
        let part = Value::Expr(Builder::part(expr, id as NodeId));
        equality::compare(gold, &part, rules, &mut fuel).outcome() == CheckOutcome::Equal
    })
}

/// The signatures under which a value may stand in a task: its own, and that of what it assigns. Empty where nothing is
/// left to evaluate.
fn candidates(value: &Value) -> Vec<Signature> {
    let mut found = Vec::new();
    if is_unevaluated(value) {
        found.extend(of_value(value));
    }
    if let Value::Relation(relation) = value {
        // `x = \binom{31}{28} = 4495` is evaluated, and `2x + 1 = 11` is not solved.
        let has_number = relation.members.iter().any(|member| matches!(member, Value::Number(_)));
        let is_open = |member: &Value| matches!(member, Value::Expr(expr) if !expr.is_closed() && !expr.is_name());
        let is_chain = relation.signs.iter().all(|sign| matches!(sign, Sign::Equal | Sign::Approximately));
        if is_chain && has_number && !relation.members.iter().any(is_open) {
            return Vec::new();
        }
        if is_chain && !has_number {
            found.extend(relation.members.iter().filter(|member| is_unevaluated(member)).filter_map(of_value));
        }
    }
    if let Value::Quantity(quantity) = value
        && is_unevaluated(&quantity.amount)
    {
        found.extend(of_value(&quantity.amount));
    }
    if let Value::Set(items) = value
        && let [item] = items.as_slice()
    {
        found.extend(candidates(item));
    }
    found
}

/// Whether anything is left to compute or to solve.
fn is_unevaluated(value: &Value) -> bool {
    match value {
        Value::Expr(expr) => signature::has_operation(expr),
        // An assignment, or a bound of a name, is an answer as it stands.
        Value::Relation(relation) => {
            let is_plain = |member: &Value| !is_unevaluated(member);
            !relation.members.iter().all(is_plain)
        }
        Value::Conditions(relations) => relations.iter().any(|relation| relation.members.iter().any(is_unevaluated)),
        Value::Quantity(quantity) => is_unevaluated(&quantity.amount),
        Value::List(items) | Value::Set(items) | Value::Ratio(items) => items.iter().any(is_unevaluated),
        Value::Tuple(tuple) => tuple.items.iter().any(is_unevaluated),
        Value::Matrix(matrix) => matrix.cells.iter().any(is_unevaluated),
        Value::Region(region) => signature::is_computed(region),
        Value::Number(_)
        | Value::Based(_)
        | Value::Infinite { .. }
        | Value::Time(_)
        | Value::Comprehension(_)
        | Value::Text(_) => false,
    }
}

impl Formulas {
    /// The formulas of a text, with all of their parts.
    fn of(prompt: &str) -> Self {
        let start = prompt.ceil_char_boundary(prompt.len().saturating_sub(MAX_PROMPT_BYTES));
        let mut fuel = Fuel::new(FUEL);
        let mut found = Self::default();
        for formula in formulas(crate::slicing::SafeSlice::suffix_from(prompt, start)) {
            match parse(&formula, &mut fuel) {
                Ok(value) => {
                    parts_of(&value, &mut found.written);
                    value.any(&mut |part| {
                        if let Value::Expr(expr) = part {
                            found.by_value.extend(by_value::of_nodes(expr, &mut fuel).into_iter().flatten());
                        }
                        false
                    });
                }
                Err(crate::parse::ParseError::OutOfFuel) => break,
                Err(_) => {}
            }
        }
        found
    }
}

#[cfg(test)]
mod tests;
