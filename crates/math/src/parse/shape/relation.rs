//! Parses relations and ratios.

use std::ops::Range;

use super::{Context, Read, as_text, designation, leaf, member};
use crate::parse::structure::Tokens;
use crate::parse::token::TokenKind;
use crate::{Region, Relation, Sign, Value};

/// Most members of a relation or ratio.
const MAX_MEMBERS: usize = 64;

fn sign(kind: &TokenKind<'_>) -> Option<Sign> {
    Some(match kind {
        TokenKind::Symbol('=') => Sign::Equal,
        TokenKind::Symbol('<') => Sign::Less,
        TokenKind::Symbol('>') => Sign::Greater,
        TokenKind::Command("le") => Sign::LessOrEqual,
        TokenKind::Command("ge") => Sign::GreaterOrEqual,
        TokenKind::Command("ne") => Sign::NotEqual,
        TokenKind::Command("in" | "notin") => Sign::In,
        TokenKind::Command("approx" | "sim") => Sign::Approximately,
        TokenKind::Command("equiv" | "cong") => Sign::Congruent,
        TokenKind::Command("to") => Sign::To,
        _ => return None,
    })
}

/// Members with signs between them. `None` without a sign, or if a side is empty.
pub(super) fn read(context: &mut Context<'_, '_, '_>, range: Range<usize>) -> Read {
    let tokens = context.tokens();
    let mut ranges = Vec::new();
    let mut signs = Vec::new();
    let mut is_outside = false;
    let mut start = range.start;
    while let Some(at) = tokens.find(start..range.end, |kind| sign(kind).is_some()) {
        let mut member = tokens.trimmed(start..at);
        let mut found = sign(tokens.kind(at));
        // `\not=` is `\ne`; other negated signs are not supported.
        if !member.is_empty() && matches!(tokens.kind(member.end - 1), TokenKind::Command("not")) {
            found = match found {
                Some(Sign::Equal) => Some(Sign::NotEqual),
                Some(Sign::In) => {
                    is_outside = true;
                    found
                }
                _ => return Ok(None),
            };
            member = tokens.trimmed(member.start..member.end - 1);
        }
        is_outside |= matches!(tokens.kind(at), TokenKind::Command("notin"));
        signs.extend(found);
        ranges.push(member);
        start = at + 1;
    }
    let last = tokens.trimmed(start..range.end);
    match modulus(tokens, last.clone()).filter(|_| signs == [Sign::Congruent]) {
        // `x \\equiv 7 \\pmod{12}`
        Some((value, modulus)) => {
            ranges.extend([value, modulus]);
            signs.push(Sign::Congruent);
        }
        None => ranges.push(last),
    }
    // `x = 30-60-90` gives a name.
    let is_named = ranges.last().is_some_and(|last| designation::read(tokens, last.clone()));
    if signs.is_empty() || is_named || ranges.len() > MAX_MEMBERS || ranges.iter().any(Range::is_empty) {
        return Ok(None);
    }
    let mut members = Vec::with_capacity(ranges.len());
    for range in ranges {
        match member(context, range.clone())? {
            Some(value) => members.push(value),
            None => members.push(as_text(tokens, range)?),
        }
    }
    // `n + 1 = \\ldots` says nothing.
    if members
        .last()
        .is_some_and(|last| matches!(last, Value::Text(text) if matches!(text.as_str(), "\\ldots" | "..." | "?")))
    {
        return Ok(None);
    }
    // `x = y = z` without a formula on any side is prose.
    if members.iter().all(|member| matches!(member, Value::Text(_))) {
        return Ok(None);
    }
    if is_outside {
        // `x \\notin [1, 2]`
        let region = members.pop().as_ref().and_then(Region::of).filter(|_| signs.len() == 1);
        let Some(region) = region else { return Ok(None) };
        members.push(Value::Region(Region::Minus(Box::new(Region::Reals), Box::new(region))));
    }
    Ok(Some(Value::Relation(Relation { members, signs })))
}

/// The value and the modulus of `7 \\pmod{12}`, `7 (\\text{mod } 12)`, `7 \\bmod 12`.
fn modulus(tokens: &Tokens<'_>, range: Range<usize>) -> Option<(Range<usize>, Range<usize>)> {
    let is_mod = |kind: &TokenKind<'_>| {
        matches!(
            kind,
            TokenKind::Command("pmod" | "bmod" | "mod" | "pod") | TokenKind::Word("mod") | TokenKind::Label("mod")
        )
    };
    let at = range.clone().find(|at| is_mod(tokens.kind(*at)))?;
    let before = tokens.stripped(range.start..at);
    let is_open = !before.is_empty() && matches!(tokens.kind(before.end - 1), TokenKind::Open('('));
    let is_closed = matches!(tokens.kind(range.end - 1), TokenKind::Close(')'));
    let (value, end) = match (is_open, is_closed) {
        (true, true) => (before.start..before.end - 1, range.end - 1),
        (false, _) => (before, range.end),
        (true, false) => return None,
    };
    let value = tokens.trimmed(value);
    let modulus = tokens.trimmed(at + 1..end);
    (!value.is_empty() && !modulus.is_empty()).then_some((value, modulus))
}

/// Terms separated by colons.
pub(super) fn ratio(context: &mut Context<'_, '_, '_>, range: Range<usize>) -> Read {
    let tokens = context.tokens();
    let is_colon = |kind: &TokenKind<'_>| matches!(kind, TokenKind::Symbol(':'));
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
