//! Sets of real numbers: unions, intersections and differences of intervals and points.

use std::ops::Range;

use super::{Context, Read, value};
use crate::parse::structure::Tokens;
use crate::parse::token::Kind;
use crate::{Region, Value};

/// Most parts of a union.
const MAX_PARTS: usize = 256;

fn is_union(kind: &Kind<'_>) -> bool {
    matches!(kind, Kind::Command("cup") | Kind::Word("U"))
}

fn is_intersection(kind: &Kind<'_>) -> bool {
    matches!(kind, Kind::Command("cap"))
}

fn is_difference(kind: &Kind<'_>) -> bool {
    matches!(kind, Kind::Command("setminus") | Kind::Symbol('\\'))
}

/// A region written with set operators, or all real numbers.
pub(super) fn read(context: &mut Context<'_, '_, '_>, range: Range<usize>) -> Read {
    let tokens = context.tokens();
    if is_reals(tokens, range.clone()) {
        return Ok(Some(Value::Region(Region::Reals)));
    }
    if let Some(at) = tokens.find(range.clone(), is_difference) {
        let (Some(from), Some(what)) = (part(context, range.start..at)?, part(context, at + 1..range.end)?) else {
            return Ok(None);
        };
        return Ok(Some(Value::Region(Region::Minus(Box::new(from), Box::new(what)))));
    }
    if let Some(parts) = parts(context, range.clone(), is_union)? {
        return Ok(Some(Value::Region(Region::Union(parts))));
    }
    Ok(parts(context, range, is_intersection)?.map(|parts| Value::Region(Region::Intersection(parts))))
}

fn parts(context: &mut Context<'_, '_, '_>, range: Range<usize>, is: fn(&Kind<'_>) -> bool) -> Read<Vec<Region>> {
    let tokens = context.tokens();
    let mut parts = Vec::new();
    let mut start = range.start;
    while let Some(at) = tokens.find(start..range.end, is) {
        match part(context, start..at)? {
            Some(part) if parts.len() < MAX_PARTS => parts.push(part),
            _ => return Ok(None),
        }
        start = at + 1;
    }
    if parts.is_empty() {
        return Ok(None);
    }
    match part(context, start..range.end)? {
        Some(part) => parts.push(part),
        None => return Ok(None),
    }
    Ok(Some(parts))
}

/// One operand of a set operation.
fn part(context: &mut Context<'_, '_, '_>, range: Range<usize>) -> Read<Region> {
    let tokens = context.tokens();
    let range = tokens.trimmed(range);
    if range.is_empty() {
        return Ok(None);
    }
    let value = value(context, range)?;
    Ok(Region::of(&value))
}

/// `\mathbb{R}` and its synonyms.
fn is_reals(tokens: &Tokens<'_>, range: Range<usize>) -> bool {
    let mut kinds = range.map(|at| tokens.kind(at)).filter(|kind| **kind != Kind::Space);
    match kinds.next() {
        Some(Kind::Command("mathbb")) => {}
        Some(Kind::Command("R" | "reals")) => return kinds.next().is_none(),
        _ => return false,
    }
    let mut letters = kinds.filter(|kind| !matches!(kind, Kind::GroupOpen | Kind::GroupClose));
    letters.next() == Some(&Kind::Word("R")) && letters.next().is_none()
}
