//! Lists: items between separators, with names and ellipses resolved.

use std::ops::Range;

use dashu_ratio::RBig;

use super::{Context, Read, value};
use crate::parse::ParseError;
use crate::{Magnitude, Notation, Number, Sign, Value, fuel};

/// Most items that an ellipsis may stand for.
const MAX_CONTINUED: i128 = 1000;

/// Items separated by commas, semicolons, "and" and "or". `None` if there is only one.
pub(super) fn read(context: &mut Context<'_, '_, '_>, range: Range<usize>) -> Read {
    let tokens = context.tokens();
    let Some(items) = tokens.items(range) else { return Ok(None) };
    context.spend(items.len().saturating_mul(fuel::ITEM))?;
    let items = items.into_iter().map(|item| value(context, item)).collect::<Result<Vec<_>, ParseError>>()?;
    let items = flattened(continued(without_name(items)));
    Ok(Some(Value::List(items)))
}

/// `n = 1, 2, 3` assigns all values to one name, which is dropped.
fn without_name(mut items: Vec<Value>) -> Vec<Value> {
    let rest_is_bare = items.iter().skip(1).all(|item| !matches!(item, Value::Relation(_) | Value::Text(_)));
    if let Some(Value::Relation(relation)) = items.first()
        && rest_is_bare
        && relation.signs == [Sign::Equal]
        && let [name, value] = relation.members.as_slice()
        && name.is_name()
    {
        let value = value.clone();
        items.splice(..1, [value]);
    }
    items
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
    let (step, gap) = (last - first, next - last);
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
