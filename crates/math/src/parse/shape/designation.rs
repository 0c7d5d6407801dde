//! Names made of numbers: dates, formations, triangles by their angles, scores, ranges. They are no differences or
//! quotients.

use std::ops::Range;

use crate::parse::structure::Tokens;
use crate::parse::token::TokenKind;

/// Longest number of a name.
const MAX_DIGITS: usize = 4;

/// Whether it is a name: three or more whole numbers that dashes join without spaces (`4-4-2`,
/// `30^\circ-60^\circ-90^\circ`), two numbers that a dash joins (`3-1`, `10-20\%`, `\$5-\$6`), numbers with a leading zero
/// (`05-06`), or a date with slashes (`5/6/2010`).
pub(super) fn read(tokens: &Tokens<'_>, range: Range<usize>) -> bool {
    let range = unbracketed(tokens, range);
    if is_range(tokens, range.clone(), Blanks::Subtract) {
        return true;
    }
    let Some((numbers, sign)) = joined(tokens, range) else { return false };
    let has_zero = numbers.iter().any(|number| number.len() > 1 && number.starts_with('0'));
    match numbers.as_slice() {
        [day, month, year] if sign == '/' => has_zero || day.len() < 3 && month.len() < 3 && year.len() == MAX_DIGITS,
        [_, _, _, ..] => has_zero || sign == '-',
        _ => has_zero,
    }
}

/// Whether it is a range as the amount of a unit, also with spaces around its dash: `10 - 20 \text{ cm}`.
pub(in crate::parse) fn is_range_of_unit(tokens: &Tokens<'_>, amount: Range<usize>) -> bool {
    is_range(tokens, amount, Blanks::Join)
}

/// What a dash between two numbers is that has a space on both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Blanks {
    /// A sign: `3 - 1`.
    Subtract,
    Join,
}

/// Whether a dash joins two numbers or amounts of money: `3-1`, `1.5-2.5`, `1/2-1`, `\$10-20`, `10\%-20\%`.
fn is_range(tokens: &Tokens<'_>, range: Range<usize>, blanks: Blanks) -> bool {
    let Some(dash) = tokens.find(range.clone(), |kind| *kind == TokenKind::Symbol('-')) else { return false };
    let (before, after) = (range.start..dash, dash + 1..range.end);
    let is_money = |range: &Range<usize>| {
        range.clone().any(|at| matches!(tokens.kind(at), TokenKind::Currency(_) | TokenKind::Percent))
    };
    // Between words of a `\text{}` there is more than one.
    let spaces = |range: Range<usize>| range.filter(|at| *tokens.kind(*at) == TokenKind::Space).count();
    let is_spaced = spaces(before.clone()) == 1 && spaces(after.clone()) == 1;
    is_amount(tokens, before.clone())
        && is_amount(tokens, after.clone())
        && (blanks == Blanks::Join || !is_spaced || is_money(&before) != is_money(&after))
}

/// Whether it is a number without a sign, with a currency or percent sign or without, or a quotient of two.
fn is_amount(tokens: &Tokens<'_>, range: Range<usize>) -> bool {
    let mut kinds = range.map(|at| tokens.kind(at)).filter(|kind| {
        !matches!(kind, TokenKind::Space | TokenKind::GroupOpen | TokenKind::GroupClose | TokenKind::Percent)
    });
    let is_numeral = |kind: Option<&TokenKind<'_>>| matches!(kind, Some(TokenKind::Numeral(_)));
    let first = match kinds.next() {
        Some(TokenKind::Currency(_)) => kinds.next(),
        first => first,
    };
    is_numeral(first)
        && match kinds.next() {
            None => true,
            Some(TokenKind::Symbol('/')) => is_numeral(kinds.next()) && kinds.next().is_none(),
            Some(_) => false,
        }
}

fn unbracketed(tokens: &Tokens<'_>, range: Range<usize>) -> Range<usize> {
    let mut range = tokens.trimmed(range);
    while range.len() > 2
        && matches!(tokens.kind(range.start), TokenKind::Open('(' | '['))
        && tokens.partner(range.start, range.end) == Some(range.end - 1)
    {
        range = tokens.trimmed(range.start + 1..range.end - 1);
    }
    range
}

/// At least two numbers and the sign between them.
fn joined<'t>(tokens: &'t Tokens<'_>, range: Range<usize>) -> Option<(Vec<&'t str>, char)> {
    let mut numbers: Vec<&str> = Vec::new();
    let mut sign = None;
    let mut after_sign = true;
    for at in range {
        match tokens.kind(at) {
            TokenKind::Numeral(numeral) if after_sign && numeral.is_digits() && numeral.integer.len() <= MAX_DIGITS => {
                numbers.push(&numeral.integer);
                after_sign = false;
            }
            TokenKind::Symbol(found @ ('-' | '/')) if !after_sign && sign.is_none_or(|sign| sign == *found) => {
                sign = Some(*found);
                after_sign = true;
            }
            // Degrees.
            TokenKind::Symbol('^') | TokenKind::Command("circ" | "degree") if !after_sign => {}
            TokenKind::GroupOpen | TokenKind::GroupClose if !after_sign => {}
            _ => return None,
        }
    }
    sign.filter(|_| !after_sign && numbers.len() > 1).map(|sign| (numbers, sign))
}
