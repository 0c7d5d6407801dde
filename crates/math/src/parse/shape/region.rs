//! Sets of real numbers: unions, intersections and differences of intervals and points.

use std::ops::Range;

use super::{Context, Read, value};
use crate::parse::structure::Tokens;
use crate::parse::token::TokenKind;
use crate::{End, Number, Region, Value};

/// Most parts of a union.
const MAX_PARTS: usize = 256;

fn is_union(kind: &TokenKind<'_>) -> bool {
    matches!(kind, TokenKind::Command("cup") | TokenKind::Word("U"))
}

fn is_intersection(kind: &TokenKind<'_>) -> bool {
    matches!(kind, TokenKind::Command("cap"))
}

fn is_difference(kind: &TokenKind<'_>) -> bool {
    matches!(kind, TokenKind::Command("setminus") | TokenKind::Symbol('\\'))
}

/// A region written with set operators, or all real numbers.
pub(super) fn read(context: &mut Context<'_, '_, '_>, range: Range<usize>) -> Read {
    let tokens = context.tokens();
    if let Some(reals) = reals(tokens, range.clone()) {
        return Ok(Some(Value::Region(reals)));
    }
    // `\\mathbb{R} - [1, 2]`
    let begins = matches!(tokens.kind(range.start), TokenKind::Command("mathbb" | "R" | "reals" | "Reals"));
    let minus = begins.then(|| tokens.find(range.clone(), |kind| matches!(kind, TokenKind::Symbol('-')))).flatten();
    let minus = minus.filter(|at| reals(tokens, range.start..*at).is_some());
    if let Some(at) = minus.or_else(|| tokens.find(range.clone(), is_difference)) {
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

/// "all real numbers except 5". `None` for anything else.
pub(super) fn all_except(context: &mut Context<'_, '_, '_>, range: Range<usize>) -> Read<Region> {
    let tokens = context.tokens();
    let word = |at: usize| match tokens.kind(at) {
        TokenKind::Word(word) | TokenKind::Label(word) => Some(*word),
        _ => None,
    };
    if !matches!(word(range.start), Some("all" | "All")) {
        return Ok(None);
    }
    let mut at = range.start + 1;
    let mut is_real = false;
    let mut is_except = false;
    while at < range.end {
        match (tokens.kind(at), word(at)) {
            (TokenKind::Space, _) => {}
            (_, Some("real" | "reals")) => is_real = true,
            (_, Some("numbers" | "number" | "values" | "for" | "the")) if is_real => {}
            (_, Some("except" | "excluding")) if is_real => is_except = true,
            _ => break,
        }
        at += 1;
    }
    if !is_except || at == range.end {
        return Ok(None);
    }
    let is_point = |value: &Value| matches!(value, Value::Number(_) | Value::Expr(_));
    let region = match value(context, tokens.trimmed(at..range.end))? {
        Value::List(points) if points.iter().all(is_point) => Region::Points(points),
        point if is_point(&point) => Region::Points(vec![point]),
        Value::Relation(relation) => match relation.named_value() {
            Some(point) if is_point(point) => Region::Points(vec![point.clone()]),
            _ => return Ok(None),
        },
        other => match Region::of(&other) {
            Some(region) => region,
            None => return Ok(None),
        },
    };
    Ok(Some(Region::Minus(Box::new(Region::Reals), Box::new(region))))
}

fn parts(context: &mut Context<'_, '_, '_>, range: Range<usize>, is: fn(&TokenKind<'_>) -> bool) -> Read<Vec<Region>> {
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

/// `\mathbb{R}` and its synonyms; with a sign or bound, the half of it: `\mathbb{R}^+`, `\mathbb{R}_{\ge 0}`.
fn reals(tokens: &Tokens<'_>, range: Range<usize>) -> Option<Region> {
    let mut kinds = range
        .map(|at| tokens.kind(at))
        .filter(|kind| !matches!(kind, TokenKind::Space | TokenKind::GroupOpen | TokenKind::GroupClose));
    match kinds.next()? {
        TokenKind::Command("mathbb") if kinds.next() == Some(&TokenKind::Word("R")) => {}
        TokenKind::Command("R" | "reals" | "Reals") => {}
        _ => return None,
    }
    let marks: Vec<&TokenKind<'_>> = kinds.collect();
    let is_zero =
        |kind: &TokenKind<'_>| matches!(kind, TokenKind::Numeral(numeral) if numeral.integer == "0" && !numeral.point);
    let half = |negative: bool, closed: bool| {
        let zero = Value::Number(Number::default());
        let zero = End { value: Box::new(zero), closed };
        let far = Value::Infinite { negative };
        let far = End { value: Box::new(far), closed: false };
        if negative { Region::Interval(far, zero) } else { Region::Interval(zero, far) }
    };
    Some(match marks.as_slice() {
        [] => Region::Reals,
        [TokenKind::Symbol('^' | '_'), TokenKind::Symbol('+')] => half(false, false),
        [TokenKind::Symbol('^' | '_'), TokenKind::Symbol('-')] => half(true, false),
        [TokenKind::Symbol('^'), TokenKind::Symbol('+'), TokenKind::Symbol('_'), zero]
        | [TokenKind::Symbol('_'), zero, TokenKind::Symbol('^'), TokenKind::Symbol('+')]
            if is_zero(zero) =>
        {
            half(false, true)
        }
        [TokenKind::Symbol('_'), TokenKind::Symbol('>'), zero] if is_zero(zero) => half(false, false),
        [TokenKind::Symbol('_'), TokenKind::Symbol('<'), zero] if is_zero(zero) => half(true, false),
        [TokenKind::Symbol('_'), TokenKind::Command("ge"), zero] if is_zero(zero) => half(false, true),
        [TokenKind::Symbol('_'), TokenKind::Command("le"), zero] if is_zero(zero) => half(true, true),
        [TokenKind::Symbol('_'), TokenKind::Command("ne"), zero] if is_zero(zero) => {
            Region::Minus(Box::new(Region::Reals), Box::new(Region::Points(vec![Value::Number(Number::default())])))
        }
        _ => return None,
    })
}
