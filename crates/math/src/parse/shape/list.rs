//! Lists: items between separators, with names and ellipses resolved.

use std::ops::Range;

use dashu_ratio::RBig;

use super::{Context, Read, as_text, value};
use crate::parse::ParseError;
use crate::parse::token::TokenKind;
use crate::value::Assignments;
use crate::{Magnitude, Notation, Number, Relation, Sign, Value, fuel};

/// Most items that an ellipsis may stand for.
const MAX_CONTINUED: i128 = 1000;

/// Items separated by commas, semicolons, "and" and "or". `None` if there is only one.
pub(super) fn read(context: &mut Context<'_, '_, '_>, range: Range<usize>) -> Read {
    let tokens = context.tokens();
    let Some(items) = tokens.items(range.clone()) else { return Ok(None) };
    if items.len() > 3
        && let Some(solutions) = solutions(context, range.clone())?
    {
        return Ok(Some(solutions));
    }
    context.spend(items.len().saturating_mul(fuel::ITEM))?;
    let whole = items.first().map_or(0, |item| item.start)..items.last().map_or(0, |item| item.end);
    let items = items.into_iter().map(|item| value(context, item)).collect::<Result<Vec<_>, ParseError>>()?;
    let (name, items) = without_name(items);
    let mut items = flattened(continued(items));
    if let Some(name) = name {
        let assigned = |value| Relation { members: vec![name.clone(), value], signs: vec![Sign::Equal] };
        items = items.into_iter().map(|value| Value::Relation(assigned(value))).collect();
    }
    let alternatives = tokens.find(whole.clone(), |kind| kind.is_or()).is_some();
    // Between letters, `\\lor` and `\\land` are signs of logic. What is said to hold together and cannot is no union.
    let is_logic = items.iter().any(is_letters) && tokens.find(whole.clone(), |kind| kind.is_logical()).is_some();
    if is_logic || !alternatives && exclude_each_other(&items) && tokens.find(whole, |kind| kind.is_and()).is_some() {
        return as_text(tokens, range).map(Some);
    }
    if alternatives && are_about_several(&items) {
        // Each alternative says nothing of the other names.
        return Ok(Some(Value::List(items.into_iter().map(|item| Value::List(vec![item])).collect())));
    }
    Ok(Some(conditions(items, alternatives)))
}

/// Whether an item is a word or has letters, and is no relation.
fn is_letters(item: &Value) -> bool {
    match item {
        Value::Expr(expr) => !expr.is_closed(),
        item => matches!(item, Value::Text(_)),
    }
}

/// Whether all items are relations, and not all about the same names: `x = 2 or y = 3`.
fn are_about_several(items: &[Value]) -> bool {
    if !items.iter().all(|item| matches!(item, Value::Relation(_)))
        || Assignments::of(items).is_some_and(|assigned| assigned.common_name().is_some())
    {
        return false;
    }
    let names = |item: &Value| {
        let mut names = std::collections::BTreeSet::new();
        item.any(&mut |part| {
            if let Value::Expr(expr) = part {
                names.extend(expr.names().iter().cloned());
            }
            false
        });
        names
    };
    let names: Vec<_> = items.iter().map(names).collect();
    names.windows(2).any(|pair| pair.first() != pair.last())
}

/// Whether two of the items are an upper and a lower bound of one name without a number between them.
fn exclude_each_other(items: &[Value]) -> bool {
    let bound = |item: &Value| {
        let Value::Relation(relation) = item else { return None };
        let ([name @ Value::Expr(expr), Value::Number(number)], [sign]) =
            (relation.members.as_slice(), relation.signs.as_slice())
        else {
            return None;
        };
        (sign.is_order() && name.is_name()).then_some((expr.to_string(), *sign, number.exact()?.clone()))
    };
    let bounds: Vec<_> = items.iter().filter_map(bound).collect();
    bounds.iter().any(|(name, sign, above)| {
        matches!(sign, Sign::Less | Sign::LessOrEqual)
            && bounds.iter().any(|(other, sign, below)| {
                matches!(sign, Sign::Greater | Sign::GreaterOrEqual) && other == name && below >= above
            })
    })
}

/// `x = 2, y = 7 or x = 5, y = 1`: solutions that assign the same names each. `None` for anything else.
fn solutions(context: &mut Context<'_, '_, '_>, range: Range<usize>) -> Read {
    let tokens = context.tokens();
    let is_or = |kind: &TokenKind<'_>| kind.is_or() || kind.is_and();
    let Some(first) = tokens.find(range.clone(), is_or) else { return Ok(None) };
    let has_comma = |range: Range<usize>| tokens.find(range, |kind| matches!(kind, TokenKind::Symbol(','))).is_some();
    if !has_comma(range.start..first) || !has_comma(first + 1..range.end) {
        return Ok(None);
    }
    let mut parts = Vec::new();
    let mut start = range.start;
    while let Some(at) = tokens.find(start..range.end, is_or) {
        parts.push(tokens.trimmed(start..at));
        start = at + 1;
    }
    parts.push(tokens.trimmed(start..range.end));
    if parts.iter().any(|part| part.is_empty() || matches!(tokens.kind(part.end - 1), TokenKind::Symbol(','))) {
        return Ok(None);
    }
    context.spend(parts.len().saturating_mul(fuel::ITEM))?;
    let parts = context.nested(|context| {
        parts.into_iter().map(|part| value(context, part)).collect::<Result<Vec<_>, ParseError>>().map(Some)
    })?;
    let Some(parts) = parts else { return Ok(None) };
    let Some(solutions) = parts.iter().map(assignments).collect::<Option<Vec<_>>>() else { return Ok(None) };
    let are_solutions = solutions.iter().all(|solution| !solution.share_a_name())
        && solutions.windows(2).all(|pair| matches!(pair, [a, b] if a.has_names_of(b)));
    drop(solutions);
    Ok(are_solutions.then_some(Value::List(parts)))
}

fn assignments(part: &Value) -> Option<Assignments<'_>> {
    if let Value::List(items) = part { Assignments::of(items) } else { None }
}

/// Relations that all hold, if the items are relations and one of them is no equation; otherwise the list. `x \\ne 2,
/// 3` excludes both.
pub(super) fn conditions(mut items: Vec<Value>, alternatives: bool) -> Value {
    let excluded = match items.first() {
        Some(Value::Relation(relation)) if relation.signs == [Sign::NotEqual] => relation.members.first().cloned(),
        _ => None,
    };
    let is_bare = |item: &Value| matches!(item, Value::Number(_) | Value::Expr(_));
    if let Some(name) = excluded.filter(Value::is_name)
        && items.iter().skip(1).all(is_bare)
    {
        let others = items.split_off(1).into_iter();
        let excluded = |value| Relation { members: vec![name.clone(), value], signs: vec![Sign::NotEqual] };
        items.extend(others.map(|value| Value::Relation(excluded(value))));
    } else if alternatives {
        return Value::List(items);
    }
    let is_condition = |item: &Value| match item {
        Value::Relation(relation) => relation.signs.iter().any(|sign| *sign != Sign::Equal),
        _ => false,
    };
    if !items.iter().all(|item| matches!(item, Value::Relation(_))) || !items.iter().any(is_condition) {
        return Value::List(items);
    }
    let relation = |item| if let Value::Relation(relation) = item { Some(relation) } else { None };
    Value::Conditions(items.into_iter().filter_map(relation).collect())
}

/// `n = 1, 2, 3` assigns all values to one name.
fn without_name(mut items: Vec<Value>) -> (Option<Value>, Vec<Value>) {
    let rest_is_bare = items.iter().skip(1).all(|item| !matches!(item, Value::Relation(_) | Value::Text(_)));
    if let Some(Value::Relation(relation)) = items.first()
        && rest_is_bare
        && relation.signs == [Sign::Equal]
        && let [name, value] = relation.members.as_slice()
        && name.is_name()
    {
        let name = name.clone();
        let value = value.clone();
        items.splice(..1, [value]);
        return (Some(name), items);
    }
    (None, items)
}

/// Flattens items that are lists themselves, such as `1 ± 2`.
pub(super) fn flattened(items: Vec<Value>) -> Vec<Value> {
    // Lists of assignments stay together, as those between semicolons.
    let is_assigned = |items: &[Value]| items.iter().any(|item| matches!(item, Value::Relation(_)));
    let mut flat = Vec::with_capacity(items.len());
    for item in items {
        match item {
            Value::List(inner) if !is_assigned(&inner) => flat.extend(inner),
            item => flat.push(item),
        }
    }
    flat
}

/// Expands `1, 2, ..., 5` to `1, 2, 3, 4, 5` if integers in equal steps connect both sides.
pub(super) fn continued(mut items: Vec<Value>) -> Vec<Value> {
    let is_ellipsis =
        |value: &Value| matches!(value, Value::Text(text) if matches!(text.as_str(), "\\ldots" | "..." | "\\vdots"));
    let Some(at) = items.iter().position(is_ellipsis) else { return items };
    let integer = |at: Option<usize>| match items.get(at?) {
        Some(Value::Number(number)) if number.notation == Notation::Integer && number.is_bare() => {
            i64::try_from(number.exact()?.numerator()).ok().map(i128::from)
        }
        _ => None,
    };
    let (Some(first), Some(last), Some(next)) =
        (integer(at.checked_sub(2)), integer(at.checked_sub(1)), integer(Some(at + 1)))
    else {
        return items;
    };
    let step = last - first;
    let gap = next - last;
    if step == 0 || gap % step != 0 || !(1..=MAX_CONTINUED).contains(&(gap / step)) {
        return items;
    }
    let between = (1..gap / step).map(|index| {
        Value::Number(Number::plain(Magnitude::Exact(RBig::from(last + index * step)), Notation::Integer))
    });
    let between: Vec<Value> = between.collect();
    items.splice(at..=at, between);
    items
}
