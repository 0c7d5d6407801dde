//! Tuples, vectors and matrices.

use super::{pairwise, quantity, region};
use crate::value::Assignments;
use crate::{Fuel, Reason, Rules, Tuple, Value};

/// A tuple against anything but a relation, a region or a matrix.
pub(super) fn compare(gold: &Value, answer: &Value, rules: &Rules, fuel: &mut Fuel) -> Reason {
    match (gold, answer) {
        (Value::Tuple(a), Value::Tuple(b)) => tuples(a, b, rules, fuel),
        (Value::Tuple(tuple), Value::List(_)) | (Value::List(_), Value::Tuple(tuple)) if is_half_open(tuple) => {
            Reason::DifferentBrackets
        }
        // `[1, 2]` may be an interval, whose brackets count.
        (Value::Tuple(Tuple { open: '[', close: ']', items }), Value::List(_)) if items.len() == 2 => {
            Reason::NotUnderstood
        }
        // `x = 2, x = 3` are two values of one name, and no pair.
        (Value::Tuple(_), Value::List(items)) | (Value::List(items), Value::Tuple(_)) if are_alternatives(items) => {
            Reason::NotUnderstood
        }
        (Value::Tuple(tuple), Value::List(items)) => match assigned(items) {
            Some(values) => in_order(&tuple.items, &values, rules, fuel),
            None => Reason::NotUnderstood,
        },
        (Value::List(items), Value::Tuple(tuple)) => match assigned(items) {
            Some(values) => in_order(&values, &tuple.items, rules, fuel),
            None => Reason::NotUnderstood,
        },
        // `\\{x = 1, y = 2\\}`
        (Value::Tuple(tuple), Value::Set(items))
            if let Some(values) = Assignments::of(items).filter(|assigned| !assigned.share_a_name()) =>
        {
            match values.into_ordered() {
                Some(values) => in_order(&tuple.items, &values, rules, fuel),
                None => Reason::NotUnderstood,
            }
        }
        (Value::Number(_) | Value::Expr(_) | Value::Quantity(_), Value::Tuple(tuple)) => match tuple.items.as_slice() {
            [item] => quantity::compare(gold, item, rules, fuel),
            _ => Reason::DifferentKind,
        },
        _ => Reason::DifferentKind,
    }
}

/// Whether the brackets are those of an interval such as `[3, 8)`, which is no pair.
fn is_half_open(tuple: &Tuple) -> bool {
    matches!((tuple.open, tuple.close), ('(', ']') | ('[', ')'))
}

/// Whether a list gives several values of one name.
fn are_alternatives(items: &[Value]) -> bool {
    items.len() > 1 && Assignments::of(items).is_some_and(|assigned| assigned.share_a_name())
}

/// The values of assignments in the order of their names, or the items of any other list. `None` where the order is not
/// known.
fn assigned(items: &[Value]) -> Option<Vec<Value>> {
    Assignments::of(items).map_or_else(|| Some(items.to_vec()), Assignments::into_ordered)
}

fn tuples(gold: &Tuple, answer: &Tuple, rules: &Rules, fuel: &mut Fuel) -> Reason {
    // Two items may be the endpoints of an interval, whose brackets matter.
    let is_angle = |tuple: &Tuple| tuple.open == '⟨';
    let same_brackets = (gold.open, gold.close) == (answer.open, answer.close) || is_angle(gold) || is_angle(answer);
    if gold.items.len() == 2 && !same_brackets {
        return Reason::DifferentBrackets;
    }
    let reason = in_order(&gold.items, &answer.items, rules, fuel);
    if reason == Reason::EqualTuple { region::interval_reason(gold).unwrap_or(reason) } else { reason }
}

fn in_order(gold: &[Value], answer: &[Value], rules: &Rules, fuel: &mut Fuel) -> Reason {
    if gold.len() != answer.len() {
        return Reason::DifferentCount;
    }
    pairwise(gold.iter().zip(answer), Reason::EqualTuple, Reason::DifferentItem, rules, fuel)
}

/// A matrix against anything but a relation or a region. A single row or column is a vector, which may be written as a
/// tuple.
pub(super) fn compare_matrix(gold: &Value, answer: &Value, rules: &Rules, fuel: &mut Fuel) -> Reason {
    let ordered;
    let (gold_cells, answer_cells) = match (gold, answer) {
        (Value::Matrix(a), Value::Matrix(b)) => {
            if a.columns != b.columns || a.cells.len() != b.cells.len() {
                return Reason::DifferentCount;
            }
            (&a.cells, &b.cells)
        }
        (Value::Matrix(matrix), other) | (other, Value::Matrix(matrix)) => {
            ordered = other.items().and_then(assigned);
            let items = match other {
                // `[[1, 2], [3, 4]]`
                Value::Tuple(tuple) if let Some(rows) = rows(tuple, matrix.columns) => {
                    let pairs = || matrix.cells.iter().zip(rows.iter().copied());
                    if rows.len() != matrix.cells.len() {
                        return Reason::DifferentCount;
                    }
                    return if matches!(gold, Value::Matrix(_)) {
                        pairwise(pairs(), Reason::EqualMatrix, Reason::DifferentItem, rules, fuel)
                    } else {
                        pairwise(pairs().map(|(a, b)| (b, a)), Reason::EqualMatrix, Reason::DifferentItem, rules, fuel)
                    };
                }
                Value::Tuple(tuple) if is_half_open(tuple) => return Reason::DifferentBrackets,
                Value::Tuple(tuple) => &tuple.items,
                Value::List(items) if are_alternatives(items) => return Reason::NotUnderstood,
                Value::List(_) => match &ordered {
                    Some(items) => items,
                    None => return Reason::NotUnderstood,
                },
                other => match matrix.cells.as_slice() {
                    [cell] => return super::compare(cell, other, rules, fuel),
                    _ => return Reason::DifferentKind,
                },
            };
            if matrix.cells.len() != items.len() || (matrix.columns != 1 && matrix.columns != items.len()) {
                return Reason::DifferentCount;
            }
            if matches!(gold, Value::Matrix(_)) { (&matrix.cells, items) } else { (items, &matrix.cells) }
        }
        _ => return Reason::DifferentKind,
    };
    let pairs = gold_cells.iter().zip(answer_cells);
    pairwise(pairs, Reason::EqualMatrix, Reason::DifferentItem, rules, fuel)
}

/// The entries of a tuple of rows. `None` if an item is not a row of this length.
fn rows(tuple: &Tuple, columns: usize) -> Option<Vec<&Value>> {
    let mut cells = Vec::with_capacity(tuple.items.len() * columns);
    for item in &tuple.items {
        match item {
            Value::Tuple(row) if row.items.len() == columns => cells.extend(&row.items),
            _ => return None,
        }
    }
    Some(cells)
}
