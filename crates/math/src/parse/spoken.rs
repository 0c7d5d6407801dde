//! The answer within words: `\text{The answer is } 36`, `Total: 36`, `36 apples in all`, `36 \text{ (final answer)}`.
//!
//! A small grammar accounts for every word: phrases of the table (`words.txt`) before and after a formula, each in its
//! place, and remarks in parentheses. What remains must be a formula, with or without a unit. Any other word makes the
//! whole answer no formula.

use std::ops::Range;

use super::structure::Tokens;
use super::token::TokenKind;
use crate::unit::Unit;
use crate::words::{self, Known, MAX_PHRASE_WORDS, Role};

/// Most tokens of an answer in words.
const MAX_TOKENS: usize = 120;
/// Most words of a phrase such as `of the apples in the basket`.
const MAX_NOUN_WORDS: usize = 8;

/// A second formula that a remark offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Offer {
    /// Another notation: `0.75 (or 3/4)`.
    Other(Range<usize>),
    /// Its approximation: `3\\sqrt{2} (\\approx 4.24)`.
    Rounded(Range<usize>),
    /// What it is not: `12 (not 15)`.
    Denied(Range<usize>),
}

/// The formula of an answer in words, and what a remark offers beside it. `None` without words, or with others than
/// those that are known to be harmless.
pub(super) fn formula(tokens: &Tokens<'_>, known: &Known) -> Option<(Range<usize>, Option<Offer>)> {
    let all = tokens.trimmed(tokens.all());
    if all.len() > MAX_TOKENS {
        return None;
    }
    let mut range = all.clone();
    let mut offer = None;
    loop {
        let before = range.clone();
        range = without_marks(tokens, range);
        let remark = without_remark(tokens, range.clone()).or_else(|| without_denial(tokens, range.clone()));
        if let Some((rest, offered)) = remark {
            range = rest;
            offer = offer.or(offered);
        }
        range = without_quantifier(tokens, without_tail(tokens, range, known));
        range = without_lead(tokens, range, known);
        if range == before {
            break;
        }
    }
    (!range.is_empty() && range != all).then_some((range, offer))
}

/// Whether a text is wholly one of the phrases that announce an answer or name its value: `The area is`, `answer`.
pub(super) fn is_lead(text: &str, known: &Known) -> bool {
    let lower = text.to_lowercase();
    let words: Vec<&str> =
        lower.split(|c: char| c.is_whitespace() || matches!(c, ',' | ':')).filter(|word| !word.is_empty()).collect();
    lead_of(&words, known, true) == Some(words.len())
}

fn text_of<'a>(kind: &TokenKind<'a>) -> Option<&'a str> {
    match kind {
        TokenKind::Word(word) | TokenKind::Label(word) => Some(word),
        _ => None,
    }
}

fn is_space(kind: &TokenKind<'_>) -> bool {
    matches!(kind, TokenKind::Space | TokenKind::Command("\\"))
}

/// The range without the words that announce it.
fn without_lead(tokens: &Tokens<'_>, range: Range<usize>, known: &Known) -> Range<usize> {
    // The words at the start, with the index after each.
    let mut found: Vec<(String, usize)> = Vec::new();
    for at in range.clone() {
        match tokens.kind(at) {
            TokenKind::Space | TokenKind::Symbol(',' | ':' | '.' | '=' | '*') if !found.is_empty() => {
                if matches!(tokens.kind(at), TokenKind::Symbol(':' | '=')) {
                    found.push((":".to_owned(), at + 1));
                }
            }
            kind if is_space(kind) => {}
            kind => match text_of(kind) {
                Some(word) => found.push((word.to_lowercase(), at + 1)),
                None => break,
            },
        }
        if found.len() > 2 * MAX_PHRASE_WORDS + MAX_NOUN_WORDS {
            break;
        }
    }
    let words: Vec<&str> = found.iter().map(|(word, _)| word.as_str()).collect();
    let Some(length) = lead_of(&words, known, false).filter(|length| *length > 0) else { return range };
    let Some((_, at)) = found.get(length - 1) else { return range };
    let rest = without_marks(tokens, *at..range.end);
    if rest.is_empty() { range } else { rest }
}

/// The longest phrase of a kind at the start of some words: its length.
fn phrase(words: &[&str], role: Role) -> Option<usize> {
    (1..=words.len().min(MAX_PHRASE_WORDS))
        .rev()
        .find(|length| words.get(..*length).is_some_and(|words| words::is(role, &words.join(" "))))
}

/// How many of these words announce what follows them: `so the total number of apples is`. `None` if they begin with
/// anything else. `:` stands for a colon or an equals sign. A name alone announces a value on the left of a sign.
fn lead_of(words: &[&str], known: &Known, before_sign: bool) -> Option<usize> {
    let rest = |at: usize| words.get(at..).unwrap_or_default();
    let colon = |at: usize| usize::from(rest(at).first() == Some(&":"));
    let mut at = 0;
    let mut announced = false;
    while let Some(length) = phrase(rest(at), Role::Connective) {
        at += length + colon(at + length);
        announced = true;
    }
    let start = at;
    if matches!(rest(at).first(), Some(&("the" | "our" | "my" | "its"))) {
        at += 1;
    }
    // `the final answer`, but `Total: 36` is a name.
    while let Some(length) = phrase(rest(at), Role::Adjective)
        && (phrase(rest(at), Role::Name).is_none() || phrase(rest(at + length), Role::Name).is_some())
    {
        at += length;
    }
    if let Some(length) = phrase(rest(at), Role::Name) {
        at += length;
        at += noun_phrase(rest(at), known);
        let verb = phrase(rest(at), Role::Verb);
        at += verb.unwrap_or(0);
        let colons = colon(at);
        at += colons;
        let is_answer = rest(start).iter().take(at - start).any(|word| matches!(*word, "answer" | "ans" | "total"));
        if verb.is_some() || colons > 0 || is_answer || (before_sign && at == words.len()) {
            while let Some(length) = phrase(rest(at), Role::Lead) {
                at += length + colon(at + length);
            }
            return Some(at);
        }
    }
    at = start;
    while let Some(length) = phrase(rest(at), Role::Lead) {
        at += length + colon(at + length);
        announced = true;
    }
    announced.then_some(at)
}

/// The length of `of the apples in the basket` at the start of some words; 0 if one of the words is not known.
fn noun_phrase(words: &[&str], known: &Known) -> usize {
    // `36 per cent`
    if !matches!(words.first(), Some(&("of" | "in" | "for" | "per"))) || words.get(1) == Some(&"cent") {
        return 0;
    }
    let mut end = 0;
    for (at, word) in words.iter().enumerate().take(MAX_NOUN_WORDS) {
        let is_noun = is_noun(word, known) || (words::is(Role::Name, word) && !matches!(*word, "answer" | "ans"));
        if is_noun {
            end = at + 1;
        } else if !words::is(Role::Function, word) {
            break;
        }
    }
    end
}

fn is_noun(word: &str, known: &Known) -> bool {
    known.is_noun(word) || (word.len() > 1 && !words::is_changing(word) && Unit::known(word).is_some())
}

/// The range without the phrases after an answer.
fn without_tail(tokens: &Tokens<'_>, range: Range<usize>, known: &Known) -> Range<usize> {
    // The words at the end, the last one first, with the index of each.
    let mut found: Vec<(String, usize)> = Vec::new();
    for at in range.clone().rev() {
        match tokens.kind(at) {
            TokenKind::Space | TokenKind::Symbol(',' | '.') => {}
            kind => match text_of(kind) {
                Some(word) => found.push((word.to_lowercase(), at)),
                None => break,
            },
        }
        if found.len() > MAX_PHRASE_WORDS + MAX_NOUN_WORDS {
            break;
        }
    }
    found.reverse();
    let words: Vec<&str> = found.iter().map(|(word, _)| word.as_str()).collect();
    let mut end = words.len();
    while let Some(length) = tail_length(words.get(..end).unwrap_or_default(), known) {
        end -= length;
    }
    let Some((_, at)) = found.get(end) else { return range };
    let rest = without_marks(tokens, range.start..*at);
    if rest.is_empty() { range } else { rest }
}

/// The range without `for all x \\in \\mathbb{R}` at its end.
fn without_quantifier(tokens: &Tokens<'_>, range: Range<usize>) -> Range<usize> {
    let word = |at: usize| text_of(tokens.kind(at)).map(str::to_lowercase);
    let is_for = |at: &usize| word(*at).is_some_and(|word| word == "for");
    let Some(start) = range.clone().rev().find(is_for) else { return range };
    let rest = (start + 1..range.end).filter(|at| !is_space(tokens.kind(*at)));
    let rest: Vec<&TokenKind<'_>> = rest.map(|at| tokens.kind(at)).collect();
    let is_all = |kind: &TokenKind<'_>| matches!(text_of(kind), Some("all" | "every" | "any" | "each"));
    let is_letter = |kind: &TokenKind<'_>| text_of(kind).is_some_and(|word| word.len() == 1);
    let is_real = match rest.as_slice() {
        [all, letter, TokenKind::Command("in"), TokenKind::Command("mathbb"), set @ ..]
            if is_all(all) && is_letter(letter) =>
        {
            let mut set = set.iter().filter(|kind| !matches!(kind, TokenKind::GroupOpen | TokenKind::GroupClose));
            set.next().is_some_and(|kind| text_of(kind) == Some("R")) && set.next().is_none()
        }
        _ => false,
    };
    let formula = tokens.trimmed(range.start..start);
    if is_real && !formula.is_empty() { formula } else { range }
}

/// The length of a phrase that ends these words: of the table, or `of the apples`.
fn tail_length(words: &[&str], known: &Known) -> Option<usize> {
    let of = |length: usize| words.get(words.len() - length..).unwrap_or_default();
    for length in (1..=words.len().min(MAX_PHRASE_WORDS)).rev() {
        let mut phrase = of(length).to_vec();
        // `for all t`
        if let Some(last) = phrase.last_mut()
            && length > 1
            && last.len() == 1
        {
            *last = "x";
        }
        if words::is(Role::Tail, &phrase.join(" ")) {
            return Some(length);
        }
    }
    (2..=words.len().min(MAX_NOUN_WORDS)).find(|length| {
        let phrase = of(*length);
        noun_phrase(phrase, known) == *length
    })
}

/// The range without punctuation, quotes and emphasis at its ends.
fn without_marks(tokens: &Tokens<'_>, range: Range<usize>) -> Range<usize> {
    let mut range = tokens.trimmed(range);
    let all = range.clone();
    let is_mark = |kind: &TokenKind<'_>| {
        matches!(kind, TokenKind::Symbol(',' | ';' | ':' | '"' | '*' | '`' | '\'') | TokenKind::Command("\\"))
    };
    // The full stop of an abbreviation: `Rs. 36`.
    let is_stop = |at: usize| {
        matches!(tokens.kind(at), TokenKind::Symbol('.')) && matches!(tokens.kind(at + 1), TokenKind::Space)
    };
    while range.len() > 1 && (is_mark(tokens.kind(range.start)) || is_stop(range.start)) {
        range = tokens.trimmed(range.start + 1..range.end);
    }
    // A prime after a letter belongs to it. One alone is a prime or the sign of minutes.
    let is_quoted = all.start < all.end && matches!(tokens.kind(all.start), TokenKind::Symbol('\''));
    let is_end_mark = |at: usize| {
        let is_prime = matches!(tokens.kind(at), TokenKind::Symbol('\''))
            && (!is_quoted || matches!(tokens.kind(at - 1), TokenKind::Word(_)));
        (is_mark(tokens.kind(at)) && !is_prime) || matches!(tokens.kind(at), TokenKind::Symbol('.'))
    };
    while range.len() > 1 && is_end_mark(range.end - 1) {
        range = tokens.trimmed(range.start..range.end - 1);
    }
    range
}

/// The range without a final remark in parentheses, and what it offers: `(final answer)`, `(\text{cm})`, `(or 3/4)`,
/// `(since x > 0)`, `(not 15)`.
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
    let rest = tokens.stripped(range.start..open);
    // An argument or a factor follows without a space.
    if rest.is_empty() || inner.is_empty() || rest.end == open {
        return None;
    }
    let mut words = Vec::new();
    let mut begin = inner.start;
    for at in inner.clone() {
        match (tokens.kind(at), text_of(tokens.kind(at))) {
            (TokenKind::Space, _) => {}
            (TokenKind::Symbol('.'), _) if !words.is_empty() => {}
            // A letter is a name of the formula.
            (TokenKind::Word(word), _) if word.chars().nth(1).is_none() => break,
            (_, Some(word)) => words.push(word.to_lowercase()),
            _ => break,
        }
        begin = at + 1;
    }
    let formula = tokens.stripped(begin..inner.end);
    let words = words.join(" ");
    let has_words = || formula.clone().any(|at| text_of(tokens.kind(at)).is_some_and(|word| word.len() > 1));
    if formula.is_empty() {
        return (words::is(Role::Remark, &words) || is_unit(tokens, inner)).then_some((rest, None));
    }
    if is_unit(tokens, inner.clone()) {
        return Some((rest, None));
    }
    if has_words() || words == "to" {
        // `(to 2 decimal places)`
        let all: Vec<_> = inner.clone().filter_map(|at| text_of(tokens.kind(at))).map(str::to_lowercase).collect();
        let is_rest = |kind: &TokenKind<'_>| {
            matches!(kind, TokenKind::Space | TokenKind::Symbol('.'))
                || text_of(kind).is_some()
                || matches!(kind, TokenKind::Numeral(n) if n.is_digits())
        };
        let is_places = words::is(Role::Remark, &all.join(" ")) && inner.clone().all(|at| is_rest(tokens.kind(at)));
        return is_places.then_some((rest, None));
    }
    let is_rounded = matches!(tokens.kind(inner.start), TokenKind::Command("approx"));
    match words.as_str() {
        "or" => Some((rest, Some(Offer::Other(formula)))),
        "" if is_rounded => Some((rest, Some(Offer::Rounded(tokens.stripped(inner.start + 1..inner.end))))),
        "about" | "approximately" | "approx" => Some((rest, Some(Offer::Rounded(formula)))),
        "not" => Some((rest, Some(Offer::Denied(formula)))),
        // `(since x > 0)`: a condition, and no value.
        "since" | "because" | "as" | "for" | "where" | "with" if has_order(tokens, formula.clone()) => {
            Some((rest, None))
        }
        _ => None,
    }
}

/// The range without `, not 73` at its end, and what it denies.
fn without_denial(tokens: &Tokens<'_>, range: Range<usize>) -> Option<(Range<usize>, Option<Offer>)> {
    let comma = tokens.find(range.clone(), |kind| matches!(kind, TokenKind::Symbol(',')))?;
    let rest = tokens.stripped(range.start..comma);
    let after = tokens.stripped(comma + 1..range.end);
    let denied = tokens.stripped(after.start + 1..after.end);
    let is_denial = !rest.is_empty()
        && text_of(tokens.kind(after.start)).is_some_and(|word| word.eq_ignore_ascii_case("not"))
        && !denied.is_empty()
        && !denied.clone().any(|at| text_of(tokens.kind(at)).is_some());
    is_denial.then_some((rest, Some(Offer::Denied(denied))))
}

/// Whether a formula is an inequality or a membership.
fn has_order(tokens: &Tokens<'_>, formula: Range<usize>) -> bool {
    let is_sign = |kind: &TokenKind<'_>| {
        matches!(kind, TokenKind::Symbol('<' | '>') | TokenKind::Command("le" | "ge" | "in" | "ne"))
    };
    tokens.find(formula, is_sign).is_some()
}

/// Whether a remark is a unit: `(\\text{cm}^2)`.
fn is_unit(tokens: &Tokens<'_>, range: Range<usize>) -> bool {
    let is_part = |kind: &TokenKind<'_>| match kind {
        TokenKind::Label(word) => Unit::known(word).is_some(),
        TokenKind::Numeral(numeral) => numeral.is_digits() && numeral.integer.len() == 1,
        kind => matches!(
            kind,
            TokenKind::Space | TokenKind::Symbol('^' | '/' | '.') | TokenKind::GroupOpen | TokenKind::GroupClose
        ),
    };
    range.clone().all(|at| is_part(tokens.kind(at)))
        && range.clone().any(|at| matches!(tokens.kind(at), TokenKind::Label(_)))
}

#[cfg(test)]
mod tests {
    use crate::Fuel;
    use crate::parse::{Side, reading};
    use crate::words::Known;

    fn read_knowing(problem: &str, text: &str) -> Option<String> {
        let mut known = Known::default();
        known.add(problem);
        reading(text, Side::Answer, &known, &mut Fuel::new(20_000)).into_iter().next().map(|value| value.to_string())
    }

    fn read(text: &str) -> Option<String> {
        read_knowing("", text)
    }

    #[test]
    fn phrases_of_the_table_go() {
        for text in [
            "36 altogether",
            "\\text{The answer is } 36",
            "\\text{Answer: }36",
            "Total: 36",
            "36 \\text{ is the answer}",
            "36 \\text{ (final answer)}",
            "36 \\qquad \\text{(since }x>0)",
            "**36 altogether**",
            "Number of ways: 36",
            "The number of apples is 36.",
            "\\text{a total of } 36",
            "\\text{which comes out to } 36",
            "36 \\text{ (cm)}",
            "36 (\\text{cm}^2)",
            "一共有36",
            "共36",
        ] {
            assert_eq!(read(text).as_deref(), Some("36"), "{text}");
        }
        assert_eq!(read("3\\sqrt{2} \\text{ (about 4.24)}").as_deref(), Some("3*sqrt(2) ~ 106/25"));
        assert_eq!(read("There are 36 apples altogether").as_deref(), Some("36 apple"));
    }

    #[test]
    fn nouns_of_the_problem_go_after_a_preposition() {
        assert_eq!(read("36 apples in the burrow"), None);
        assert_eq!(read_knowing("Wombats dig a burrow.", "36 apples in the burrow").as_deref(), Some("36 apple"));
        assert_eq!(
            read_knowing("Wombats dig a burrow.", "The number of wombats in the burrow is 36").as_deref(),
            Some("36")
        );
    }

    #[test]
    fn any_other_word_makes_it_no_formula() {
        for text in [
            "not 36",
            "36 or more",
            "at least 36",
            "36 thirds",
            "\\text{less than } 36",
            "36 (wrong)",
            "36 \\text{ (not 36)}",
            "half of 36",
            "two 36",
            "36万",
            "不是36",
            "36 if true",
            "36 plus something",
            "divisors of 36",
            "the sum of the digits of 36",
            "nearly 36",
            "up to 36",
            "the square of 36",
            "36 maximum",
            "\\text{Distractor: }36",
            "\\text{An upper limit is }36",
            "36 (actually 7)",
            "36 (million)",
            "36 (mod 40)",
            "36 (or 37)",
            "36 is a lower bound",
            "July 36",
            "menos 36",
        ] {
            assert_ne!(read(text).as_deref(), Some("36"), "{text}");
        }
    }
}
