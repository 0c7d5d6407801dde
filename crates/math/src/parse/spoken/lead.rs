//! Words before an answer: `\text{The answer is }`, `So the total number of apples is`.

use std::ops::Range;

use super::{MAX_NOUN_WORDS, is_space, text_of, without_marks};
use crate::parse::structure::Tokens;
use crate::parse::token::TokenKind;
use crate::unit::Unit;
use crate::words::{self, Known, MAX_PHRASE_WORDS, Role};

/// The range without the words that announce it.
pub(super) fn without_lead(tokens: &Tokens<'_>, range: Range<usize>, known: &Known) -> Range<usize> {
    // The words at the start, with the index after each.
    let mut found: Vec<(String, usize)> = Vec::new();
    for at in range.clone() {
        match tokens.kind(at) {
            TokenKind::Space | TokenKind::Symbol(',' | ':' | '.' | '=' | '*') if !found.is_empty() => {
                match (tokens.kind(at), found.last_mut()) {
                    (TokenKind::Symbol(':' | '='), _) => found.push((":".to_owned(), at + 1)),
                    // `No. 36`, but not `no, 36`.
                    (TokenKind::Symbol('.'), Some((word, end))) if word == "no" => {
                        (*word, *end) = ("no.".to_owned(), at + 1);
                    }
                    _ => {}
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
pub(super) fn lead_of(words: &[&str], known: &Known, before_sign: bool) -> Option<usize> {
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
pub(super) fn noun_phrase(words: &[&str], known: &Known) -> usize {
    // `36 per cent`
    if !matches!(words.first(), Some(&("of" | "in" | "for" | "per"))) || words.get(1) == Some(&"cent") {
        return 0;
    }
    let mut end = 0;
    let mut is_rate = false;
    for (at, word) in words.iter().enumerate().take(MAX_NOUN_WORDS) {
        is_rate |= matches!(*word, "per" | "each" | "every");
        let is_noun = is_noun(word, known) || (words::is(Role::Name, word) && !matches!(*word, "answer" | "ans"));
        if is_noun {
            // What something is counted for makes it another value: the text must have it.
            if is_rate && !known.is_text(word) {
                return 0;
            }
            is_rate = false;
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
