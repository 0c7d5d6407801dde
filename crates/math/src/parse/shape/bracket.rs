//! Sets, tuples and other bracketed values.

use std::ops::Range;

use super::{Context, Read, item, list, value};
use crate::parse::ParseError;
use crate::parse::structure::Tokens;
use crate::parse::token::TokenKind;
use crate::{Comprehension, Region, Sign, Tuple, Value};

/// `(…)`, `[…]`, `{…}` and `⟨…⟩` around the whole range.
pub(super) fn read(context: &mut Context<'_, '_, '_>, range: Range<usize>) -> Read {
    let tokens = context.tokens();
    let TokenKind::Open(open) = *tokens.kind(range.start) else { return Ok(None) };
    let Some(end) = tokens.partner(range.start, range.end) else { return Ok(None) };
    if is_transpose(tokens, end + 1..range.end) {
        let tuple = context.nested(|context| read(context, range.start..end + 1))?;
        return Ok(tuple.filter(|value| matches!(value, Value::Tuple(_))));
    }
    if end != range.end - 1 {
        return adjacent(context, range);
    }
    let TokenKind::Close(close) = *tokens.kind(range.end - 1) else { return Ok(None) };
    let inner = tokens.trimmed(range.start + 1..range.end - 1);
    match (open, close) {
        ('{', '}') if inner.is_empty() => Ok(Some(Value::Set(Vec::new()))),
        ('{', '}') => set(context, inner).map(Some),
        ('(' | '[' | '⟨', ')' | ']' | '⟩') => {
            if inner.is_empty() {
                return Ok(None);
            }
            let Some(items) = tokens.items(inner.clone()) else {
                let is_pair = matches!((open, close), ('(', ')') | ('[', ']') | ('⟨', '⟩'));
                return if is_pair { enclosed(context, inner) } else { Ok(None) };
            };
            // Alternatives are no tuple.
            if tokens.find(inner.clone(), |kind| kind.is_or() || kind.is_logical()).is_some() {
                return context.nested(|context| list::read(context, inner));
            }
            let items = items.into_iter().map(|item| value(context, item)).collect::<Result<Vec<_>, _>>()?;
            Ok(Some(Value::Tuple(Tuple { open, close, items })))
        }
        _ => Ok(None),
    }
}

/// `^T` or `^{\\top}`: a row is a column as well.
fn is_transpose(tokens: &Tokens<'_>, range: Range<usize>) -> bool {
    let mut kinds = range
        .map(|at| tokens.kind(at))
        .filter(|kind| !matches!(kind, TokenKind::Space | TokenKind::GroupOpen | TokenKind::GroupClose));
    kinds.next() == Some(&TokenKind::Symbol('^'))
        && matches!(
            kinds.next(),
            Some(TokenKind::Word("T") | TokenKind::Label("T") | TokenKind::Command("top" | "intercal"))
        )
        && kinds.next().is_none()
}

/// Tuples side by side: `(2, 7) (5, 1)`. `None` for factors.
fn adjacent(context: &mut Context<'_, '_, '_>, range: Range<usize>) -> Read {
    let tokens = context.tokens();
    let mut groups = Vec::new();
    let mut at = range.start;
    while at < range.end {
        let Some(close) = tokens.partner(at, range.end).filter(|_| matches!(tokens.kind(at), TokenKind::Open('(')))
        else {
            return Ok(None);
        };
        if !matches!(tokens.kind(close), TokenKind::Close(')')) || tokens.items(tokens.trimmed(at + 1..close)).is_none()
        {
            return Ok(None);
        }
        groups.push(at..close + 1);
        at = tokens.stripped(close + 1..range.end).start;
    }
    let tuples = groups.into_iter().map(|group| value(context, group)).collect::<Result<Vec<_>, _>>()?;
    Ok(tuples.iter().all(|tuple| matches!(tuple, Value::Tuple(_))).then_some(Value::List(tuples)))
}

/// A point with its name: `P(2, 7)`.
pub(super) fn named_point(context: &mut Context<'_, '_, '_>, range: Range<usize>) -> Read {
    let tokens = context.tokens();
    let is_name = |word: &str| word.len() == 1 && word.starts_with(|c: char| c.is_ascii_uppercase());
    if !matches!(tokens.kind(range.start), TokenKind::Word(word) if is_name(word)) {
        return Ok(None);
    }
    let point = tokens.stripped(range.start + 1..range.end);
    if !matches!(tokens.kind(point.start), TokenKind::Open('('))
        || tokens.partner(point.start, point.end) != Some(point.end - 1)
        || tokens.items(tokens.trimmed(point.start + 1..point.end - 1)).is_none()
    {
        return Ok(None);
    }
    let tuple = context.nested(|context| read(context, point))?;
    let is_number =
        |item: &Value| matches!(item, Value::Number(_)) || matches!(item, Value::Expr(expr) if expr.is_closed());
    Ok(tuple.filter(|value| matches!(value, Value::Tuple(tuple) if tuple.items.iter().all(is_number))))
}

/// A single item in parentheses, which have no meaning unless it is a factor.
fn enclosed(context: &mut Context<'_, '_, '_>, mut inner: Range<usize>) -> Read {
    let tokens = context.tokens();
    // Nested parentheses are removed at once.
    while inner.len() > 2
        && matches!(tokens.kind(inner.start), TokenKind::Open('('))
        && tokens.partner(inner.start, inner.end) == Some(inner.end - 1)
        && matches!(tokens.kind(inner.end - 1), TokenKind::Close(')'))
        && matches!(tokens.kind(inner.start + 1), TokenKind::Open('('))
    {
        inner = tokens.stripped(inner.start + 1..inner.end - 1);
    }
    let value = context.nested(|context| item(context, inner))?;
    Ok(value.filter(|value| !matches!(value, Value::Text(_))))
}

/// `\\{x \\mid x > 2\\}` is its condition, `\\{x \\in \\mathbb{R} \\mid x > 2\\}` both; with a term that is no name, the set
/// keeps it. `None` where the condition is none.
fn by_condition(head: Value, condition: Value) -> Option<Value> {
    if !matches!(condition, Value::Relation(_) | Value::Conditions(_) | Value::List(_)) {
        return None;
    }
    let names_of = |value: &Value| match value {
        Value::Expr(expr) => expr.as_symbol().map(str::to_owned),
        _ => None,
    };
    // What the condition is about: its only name.
    let mut names = std::collections::BTreeSet::new();
    condition.any(&mut |part| {
        if let Value::Expr(expr) = part {
            names.extend(expr.names().iter().cloned());
        }
        false
    });
    let is_about = |name: &str| names.len() == 1 && names.contains(name);
    match &head {
        Value::Expr(_) if names_of(&head).is_some_and(|name| is_about(&name)) => Some(condition),
        Value::Relation(membership)
            if membership.signs == [Sign::In]
                && membership.members.first().and_then(names_of).is_some_and(|name| is_about(&name)) =>
        {
            let is_real = matches!(membership.members.get(1), Some(Value::Region(Region::Reals)));
            let mut relations = if is_real { Vec::new() } else { vec![membership.clone()] };
            match condition {
                condition if is_real => return Some(condition),
                Value::Relation(relation) => relations.push(relation),
                Value::Conditions(more) => relations.extend(more),
                _ => return None,
            }
            Some(Value::Conditions(relations))
        }
        _ => Some(Value::Comprehension(Comprehension { head: Box::new(head), condition: Box::new(condition) })),
    }
}

/// The items of a set, or what a condition says of them.
fn set(context: &mut Context<'_, '_, '_>, inner: Range<usize>) -> Result<Value, ParseError> {
    let tokens = context.tokens();
    let is_bar = |kind: &TokenKind<'_>| matches!(kind, TokenKind::Symbol(':' | '|') | TokenKind::Command("mid"));
    if let Some(bar) = tokens.find(inner.clone(), is_bar)
        && tokens.find(inner.clone(), |kind| matches!(kind, TokenKind::Symbol(','))).is_none_or(|comma| comma > bar)
        && bar > inner.start
        && bar + 1 < inner.end
    {
        let condition = value(context, tokens.trimmed(bar + 1..inner.end))?;
        let head = value(context, tokens.trimmed(inner.start..bar))?;
        if let Some(set) = by_condition(head, condition) {
            return Ok(set);
        }
    }
    let items = match tokens.items(inner.clone()) {
        Some(items) => items.into_iter().map(|item| value(context, item)).collect::<Result<Vec<_>, _>>()?,
        None => vec![value(context, inner)?],
    };
    Ok(Value::Set(list::flattened(list::continued(items))))
}
