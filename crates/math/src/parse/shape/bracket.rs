//! Sets, tuples and other bracketed values.

use std::ops::Range;

use super::{Context, Read, item, list, value};
use crate::parse::ParseError;
use crate::parse::token::Kind;
use crate::{Tuple, Value};

/// `(…)`, `[…]`, `{…}` and `⟨…⟩` around the whole range.
pub(super) fn read(context: &mut Context<'_, '_, '_>, range: Range<usize>) -> Read {
    let tokens = context.tokens();
    let Kind::Open(open) = *tokens.kind(range.start) else { return Ok(None) };
    if tokens.partner(range.start, range.end) != Some(range.end - 1) {
        return Ok(None);
    }
    let Kind::Close(close) = *tokens.kind(range.end - 1) else { return Ok(None) };
    let inner = tokens.trimmed(range.start + 1..range.end - 1);
    match (open, close) {
        ('{', '}') if inner.is_empty() => Ok(Some(Value::Set(Vec::new()))),
        ('{', '}') => set(context, inner).map(Some),
        ('(' | '[' | '⟨', ')' | ']' | '⟩') => {
            if inner.is_empty() {
                return Ok(None);
            }
            let Some(items) = tokens.items(inner.clone()) else {
                return enclosed(context, inner);
            };
            let items = items.into_iter().map(|item| value(context, item)).collect::<Result<Vec<_>, _>>()?;
            Ok(Some(Value::Tuple(Tuple { open, close, items })))
        }
        _ => Ok(None),
    }
}

/// A single item in parentheses, which have no meaning unless it is a factor.
fn enclosed(context: &mut Context<'_, '_, '_>, mut inner: Range<usize>) -> Read {
    let tokens = context.tokens();
    // Nested parentheses are removed at once.
    while inner.len() > 2
        && *tokens.kind(inner.start) == Kind::Open('(')
        && tokens.partner(inner.start, inner.end) == Some(inner.end - 1)
        && *tokens.kind(inner.end - 1) == Kind::Close(')')
        && *tokens.kind(inner.start + 1) == Kind::Open('(')
    {
        inner = tokens.stripped(inner.start + 1..inner.end - 1);
    }
    let value = context.nested(|context| item(context, inner))?;
    Ok(value.filter(|value| !matches!(value, Value::Text(_))))
}

/// The items of a set; of a set-builder expression, its condition.
fn set(context: &mut Context<'_, '_, '_>, inner: Range<usize>) -> Result<Value, ParseError> {
    let tokens = context.tokens();
    let is_bar = |kind: &Kind<'_>| matches!(kind, Kind::Symbol(':' | '|') | Kind::Command("mid"));
    if let Some(bar) = tokens.find(inner.clone(), is_bar)
        && tokens.find(inner.clone(), |kind| *kind == Kind::Symbol(',')).is_none_or(|comma| comma > bar)
        && bar > inner.start
        && bar + 1 < inner.end
    {
        let condition = value(context, tokens.trimmed(bar + 1..inner.end))?;
        if matches!(condition, Value::Relation(_) | Value::Conditions(_)) {
            return Ok(condition);
        }
    }
    let items = match tokens.items(inner.clone()) {
        Some(items) => items.into_iter().map(|item| value(context, item)).collect::<Result<Vec<_>, _>>()?,
        None => vec![value(context, inner)?],
    };
    Ok(Value::Set(list::flattened(list::continued(items))))
}
