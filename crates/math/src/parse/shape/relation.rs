//! Relations and ratios.

use std::ops::Range;

use super::{Context, Read, as_text, leaf, member};
use crate::parse::token::Kind;
use crate::{Relation, Sign, Value};

/// Most members of a relation or ratio.
const MAX_MEMBERS: usize = 64;

fn sign(kind: &Kind<'_>) -> Option<Sign> {
    Some(match kind {
        Kind::Symbol('=') => Sign::Equal,
        Kind::Symbol('<') => Sign::Less,
        Kind::Symbol('>') => Sign::Greater,
        Kind::Command("le") => Sign::LessOrEqual,
        Kind::Command("ge") => Sign::GreaterOrEqual,
        Kind::Command("ne") => Sign::NotEqual,
        Kind::Command("in") => Sign::In,
        Kind::Command("approx" | "sim") => Sign::Approximately,
        Kind::Command("equiv" | "cong") => Sign::Congruent,
        Kind::Command("to") => Sign::To,
        _ => return None,
    })
}

/// Members with signs between them. `None` without a sign, or if a side is empty.
pub(super) fn read(context: &mut Context<'_, '_, '_>, range: Range<usize>) -> Read {
    let tokens = context.tokens();
    let (mut ranges, mut signs) = (Vec::new(), Vec::new());
    let mut start = range.start;
    while let Some(at) = tokens.find(start..range.end, |kind| sign(kind).is_some()) {
        let mut member = tokens.trimmed(start..at);
        let mut found = sign(tokens.kind(at));
        // `\not=` is `\ne`; other negated signs are not supported.
        if !member.is_empty() && *tokens.kind(member.end - 1) == Kind::Command("not") {
            if found != Some(Sign::Equal) {
                return Ok(None);
            }
            found = Some(Sign::NotEqual);
            member = tokens.trimmed(member.start..member.end - 1);
        }
        signs.extend(found);
        ranges.push(member);
        start = at + 1;
    }
    ranges.push(tokens.trimmed(start..range.end));
    if signs.is_empty() || ranges.len() > MAX_MEMBERS || ranges.iter().any(Range::is_empty) {
        return Ok(None);
    }
    let mut members = Vec::with_capacity(ranges.len());
    for range in ranges {
        match member(context, range.clone())? {
            Some(value) => members.push(value),
            None => members.push(as_text(tokens, range)?),
        }
    }
    // `x = y = z` without a formula on any side is prose.
    if members.iter().all(|member| matches!(member, Value::Text(_))) {
        return Ok(None);
    }
    Ok(Some(Value::Relation(Relation { members, signs })))
}

/// Terms separated by colons.
pub(super) fn ratio(context: &mut Context<'_, '_, '_>, range: Range<usize>) -> Read {
    let tokens = context.tokens();
    let is_colon = |kind: &Kind<'_>| *kind == Kind::Symbol(':');
    let mut terms = Vec::new();
    let mut start = range.start;
    while let Some(at) = tokens.find(start..range.end, is_colon) {
        terms.push(tokens.trimmed(start..at));
        start = at + 1;
    }
    terms.push(tokens.trimmed(start..range.end));
    if !(2..=MAX_MEMBERS).contains(&terms.len()) || terms.iter().any(Range::is_empty) {
        return Ok(None);
    }
    let mut values = Vec::with_capacity(terms.len());
    for term in terms {
        match leaf::read(context, term)? {
            Some(value @ (Value::Number(_) | Value::Expr(_))) => values.push(value),
            _ => return Ok(None),
        }
    }
    Ok(Some(Value::Ratio(values)))
}
