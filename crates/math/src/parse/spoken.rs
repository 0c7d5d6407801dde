//! The answer within words: `36 apples left`, `\text{The answer is } 36`, `Total: 36`, `36 \text{ (since } x > 0)`.
//!
//! Words at both ends and remarks in parentheses are taken away, unless one of them negates, hedges, relates or
//! multiplies. Words before a formula must lead to it: a verb, or the name of a value, so that `divisors of 36` and
//! `nearly 36` are not 36. What is left must be a formula.

use std::ops::Range;

use super::structure::Tokens;
use super::token::TokenKind;
use super::words::{Role, is, is_character};
use crate::expr::Function;
use crate::unit::Unit;

/// Most tokens of an answer in words.
const MAX_TOKENS: usize = 120;
/// A second formula that a remark offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Offer {
    /// Another notation: `0.75 (or 3/4)`.
    Other(Range<usize>),
    /// Its approximation: `3\\sqrt{2} (\\approx 4.24)`.
    Rounded(Range<usize>),
}

/// The formula of an answer in words, and what a remark offers beside it. `None` without words.
pub(super) fn formula(tokens: &Tokens<'_>) -> Option<(Range<usize>, Option<Offer>)> {
    let all = tokens.trimmed(tokens.all());
    if all.len() > MAX_TOKENS {
        return None;
    }
    let mut range = all.clone();
    let mut other = None;
    loop {
        let before = range.clone();
        range = without_marks(tokens, range);
        if let Some((rest, offered)) = without_remark(tokens, range.clone()) {
            range = rest;
            other = other.or(offered);
        }
        while range.len() > 1 && is_word(tokens, range.end - 1) {
            if is_refused_after(tokens.kind(range.end - 1)) {
                return None;
            }
            range = without_marks(tokens, range.start..range.end - 1);
        }
        while range.len() > 1 && is_word(tokens, range.start) {
            if is_refused(tokens.kind(range.start)) {
                return None;
            }
            range = without_marks(tokens, range.start + 1..range.end);
        }
        if range == before {
            break;
        }
    }
    let is_conjunction = |at: usize| matches!(text_of(tokens.kind(at)), Some("and" | "or"));
    let is_formula =
        !range.is_empty() && range != all && !range.clone().any(|at| is_word(tokens, at) && !is_conjunction(at));
    // `A number` is no A.
    let is_article = range.len() == 1 && matches!(text_of(tokens.kind(range.start)), Some("a" | "A" | "I"));
    (is_formula && !is_article && leads(tokens, all.start..range.start)).then_some((range, other))
}

/// Whether what precedes a formula leads to it: no words, a colon, or words of which the last one is a verb or the name
/// of a value.
fn leads(tokens: &Tokens<'_>, before: Range<usize>) -> bool {
    let is_mark = |kind: &TokenKind<'_>| {
        matches!(
            kind,
            TokenKind::Space | TokenKind::Symbol('"' | '*' | '`' | '\'' | ',' | '.' | '#') | TokenKind::Command("\\")
        )
    };
    let mut words = Vec::with_capacity(4);
    let mut is_after_colon = false;
    for at in before.rev().filter(|at| !is_mark(tokens.kind(*at))) {
        match tokens.kind(at) {
            TokenKind::Symbol(':') if words.is_empty() => is_after_colon = true,
            kind => words.extend(text_of(kind).map(str::to_lowercase)),
        }
        if words.len() == 3 {
            break;
        }
    }
    let word = |index: usize| words.get(index).map(String::as_str);
    match word(0) {
        None => true,
        // `Total: 36`, but not `A: B`.
        Some(word) if is_after_colon => word.chars().nth(1).is_some(),
        Some("of") => word(1).is_some_and(|word| is(Role::LeadOf, word)),
        Some("to") => word(1).is_some_and(|word| is(Role::LeadTo, word)),
        Some(word) => {
            is(Role::Lead, word)
                || (word.ends_with(|c| is_character(Role::LeadCharacter, c))
                    && !word.contains(|c| is_character(Role::DenyingCharacter, c)))
        }
    }
}

/// The range without punctuation, quotes and emphasis at its ends.
fn without_marks(tokens: &Tokens<'_>, range: Range<usize>) -> Range<usize> {
    let mut range = tokens.trimmed(range);
    let all = range.clone();
    let is_mark = |kind: &TokenKind<'_>| {
        matches!(kind, TokenKind::Symbol(',' | ';' | ':' | '"' | '*' | '`' | '\'') | TokenKind::Command("ldots"))
    };
    // The full stop of an abbreviation: `Rs. 36`.
    let is_stop = |at: usize| {
        matches!(tokens.kind(at), TokenKind::Symbol('.')) && matches!(tokens.kind(at + 1), TokenKind::Space)
    };
    while range.len() > 1 && (is_mark(tokens.kind(range.start)) || is_stop(range.start)) {
        range = tokens.trimmed(range.start + 1..range.end);
    }
    // A prime after a letter belongs to it.
    let is_end_mark = |at: usize| {
        is_mark(tokens.kind(at))
            && !(matches!(tokens.kind(at), TokenKind::Symbol('\''))
                && matches!(tokens.kind(at - 1), TokenKind::Word(_)))
            || matches!(tokens.kind(at), TokenKind::Symbol('.'))
    };
    // One alone is a prime or the sign of minutes.
    let is_quoted = matches!(tokens.kind(all.start), TokenKind::Symbol('\''));
    let is_end_mark = |at: usize| is_end_mark(at) && (is_quoted || !matches!(tokens.kind(at), TokenKind::Symbol('\'')));
    while range.len() > 1 && is_end_mark(range.end - 1) {
        range = tokens.trimmed(range.start..range.end - 1);
    }
    range
}

/// The range without a final `(...)` of words, and what it offers instead after "or".
fn without_remark(tokens: &Tokens<'_>, range: Range<usize>) -> Option<(Range<usize>, Option<Offer>)> {
    if range.len() < 4 || !matches!(tokens.kind(range.end - 1), TokenKind::Close(')')) {
        return None;
    }
    // The bracket of `\\text{(since } x > 0)` has no partner within its group.
    let partner = |at: usize| tokens.partner(at, range.end);
    let open = range.clone().find(|at| {
        matches!(tokens.kind(*at), TokenKind::Open('(')) && partner(*at).is_none_or(|close| close == range.end - 1)
    })?;
    let inner = tokens.stripped(open + 1..range.end - 1);
    let words = || inner.clone().filter_map(|at| text_of(tokens.kind(at)));
    // `3\\sqrt{2} (\\approx 4.24)`
    let is_rounded = matches!(tokens.kind(inner.start), TokenKind::Command("approx"));
    if !is_rounded && !is_unit(tokens, inner.clone()) && !inner.clone().any(|at| is_word(tokens, at)) {
        return None;
    }
    let rest = tokens.stripped(range.start..open);
    if rest.is_empty() {
        return None;
    }
    if matches!(tokens.kind(inner.start), TokenKind::Word("or") | TokenKind::Label("or")) {
        return Some((rest, Some(Offer::Other(tokens.stripped(inner.start + 1..inner.end)))));
    }
    if is_rounded {
        return Some((rest, Some(Offer::Rounded(tokens.stripped(inner.start + 1..inner.end)))));
    }
    if words().any(|word| is(Role::Denial, word)) || inner.clone().any(|at| is_refused_after(tokens.kind(at))) {
        return None;
    }
    Some((rest, None))
}

/// Whether a remark is a unit: `(cm)`, `(\\text{cm}^2)`.
fn is_unit(tokens: &Tokens<'_>, range: Range<usize>) -> bool {
    let is_part = |kind: &TokenKind<'_>| match kind {
        TokenKind::Word(word) | TokenKind::Label(word) => Unit::known(word).is_some(),
        TokenKind::Numeral(numeral) => numeral.is_digits() && numeral.integer.len() == 1,
        kind => matches!(
            kind,
            TokenKind::Space | TokenKind::Symbol('^' | '/' | '.') | TokenKind::GroupOpen | TokenKind::GroupClose
        ),
    };
    let is_name =
        |kind: &TokenKind<'_>| text_of(kind).is_some_and(|word| word.len() > 1 || matches!(kind, TokenKind::Label(_)));
    range.clone().all(|at| is_part(tokens.kind(at))) && range.clone().any(|at| is_name(tokens.kind(at)))
}

fn text_of<'a>(kind: &TokenKind<'a>) -> Option<&'a str> {
    match kind {
        TokenKind::Word(word) | TokenKind::Label(word) => Some(word),
        _ => None,
    }
}

/// Whether a token is a word of a sentence and not part of a formula.
fn is_word(tokens: &Tokens<'_>, at: usize) -> bool {
    let is_listed = |word: &str| is(Role::Short, word);
    // A unit belongs to its amount.
    let follows_number = || {
        let before = (0..at).rev().find(|at| !matches!(tokens.kind(*at), TokenKind::Space));
        before.is_some_and(|at| matches!(tokens.kind(at), TokenKind::Numeral(_)))
    };
    if let Some(word) = text_of(tokens.kind(at))
        && Unit::known(word).is_some()
        && (word != "in" || follows_number())
    {
        return false;
    }
    match tokens.kind(at) {
        TokenKind::Label(label) => {
            let is_long = label.chars().nth(1).is_some() && Function::named(label).is_none();
            is_long || !label.is_ascii() || matches!(*label, "a" | "A" | "I")
        }
        TokenKind::Word(word) if !word.is_ascii() => true,
        TokenKind::Word(word) => {
            let letters = word.len();
            // Longer words may begin like a function: `since`, `minutes`.
            let is_function = letters < 6 && !is_listed(word) && Function::at_start(word).is_some();
            (letters > 3 || is_listed(word))
                && !is_function
                && !super::scalar::is_letter(word)
                && !word.bytes().all(|byte| byte.is_ascii_uppercase())
        }
        _ => false,
    }
}

/// Whether a word changes what stands next to it.
fn is_refused(kind: &TokenKind<'_>) -> bool {
    let Some(word) = text_of(kind) else { return false };
    let lower = word.to_lowercase();
    let harmless = is(Role::Harmless, &lower);
    let is_number = is(Role::Number, &lower) || super::number::magnitude(&lower).is_some();
    // `36 square units`
    let is_number = is_number && lower != "square";
    (!harmless && Unit::is_refused(word)) || is_number || word.contains(|c| is_character(Role::FactorCharacter, c))
}

/// Whether a word changes the formula that it follows.
fn is_refused_after(kind: &TokenKind<'_>) -> bool {
    is_refused(kind) || text_of(kind).is_some_and(Unit::is_uncounted)
}

#[cfg(test)]
mod tests {
    use crate::Fuel;
    use crate::parse::{Side, reading};

    fn read(text: &str) -> Option<String> {
        reading(text, Side::Answer, &mut Fuel::new(20_000)).into_iter().next().map(|value| value.to_string())
    }

    #[test]
    fn words_around_a_formula_go() {
        for text in [
            "36 apples in all",
            "\\text{The answer is } 36",
            "\\text{Answer: }36",
            "Total: 36",
            "There are 36 apples left.",
            "36 \\text{ is the answer}",
            "36 \\text{ (final answer)}",
            "36 \\qquad \\text{(since }x>0)",
            "\"36\"",
            "**36**",
            "Number of ways: 36",
            "about 36",
            "36 (approx.)",
            "Rs. 36",
            "The number of apples is 36.",
            "\\text{a total of } 36",
            "\\text{which comes out to } 36",
            "36 (cm)",
            "36 (\\text{cm}^2)",
            "36个",
            "36 平方厘米",
            "一共有36人",
            "共36人",
        ] {
            assert_eq!(read(text).as_deref(), Some("36"), "{text}");
        }
        assert_eq!(read("3\\sqrt{2} \\text{ (about 4.24)}").as_deref(), Some("3*sqrt(2)"));
    }

    #[test]
    fn words_that_change_it_stay() {
        for text in [
            "not 36",
            "36 or more",
            "at least 36",
            "36 thirds",
            "\\text{less than } 36",
            "36 (wrong)",
            "36 \\text{ (not 37)}",
            "half of 36",
            "two 36",
            "36万",
            "不是36",
            "minus 36",
            "36 if true",
            "36 plus something",
            "divisors of 36",
            "the sum of the digits of 36",
            "nearly 36",
            "up to 36",
            "the square of 36",
            "36 octal",
            "36 point five",
            "36 twentieths",
            "36 zillion",
            "36 maximum",
            "minimum 36",
            "36 (million)",
            "36 (mod 40)",
            "36 (in base 13)",
            "36 (in thousands)",
            "36 (or 37)",
            "36 is a lower bound",
            "July 36",
            "36分之一",
            "大于36",
            "至少36",
            "负36",
            "36 Millionen",
            "menos 36",
            "менее 36",
        ] {
            assert_ne!(read(text).as_deref(), Some("36"), "{text}");
        }
    }
}
