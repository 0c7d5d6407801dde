//! A base that is named beside a box, whose digits are then no decimal number: `Base 7: \boxed{15}`, `\boxed{15}_7`,
//! `\boxed{15} in base 7`.

use std::ops::Range;
use std::sync::LazyLock;

use memchr::memmem;

use super::spelled;
use crate::parse::base_named;
use crate::slicing::SafeSlice;
use crate::words::{self, Known, Role};

/// Most bytes on each side that are read.
const MAX_BYTES: usize = 200;
/// Bases with a name of their own.
const NAMES: [(&str, u32); 13] = [
    ("binary", 2),
    ("ternary", 3),
    ("quaternary", 4),
    ("quinary", 5),
    ("senary", 6),
    ("septenary", 7),
    ("octal", 8),
    ("nonary", 9),
    ("decimal", 10),
    ("duodecimal", 12),
    ("hexadecimal", 16),
    ("hex", 16),
    ("vigesimal", 20),
];
/// Prefixes of digits.
const PREFIXES: [(&str, u32); 3] = [("0x", 16), ("0o", 8), ("0b", 2)];
/// Words of a sentence that sets the base of all that follows: `We work in base 7`.
const SETTING: [&str; 11] = [
    "work",
    "working",
    "works",
    "compute",
    "computing",
    "calculate",
    "calculating",
    "operate",
    "arithmetic",
    "throughout",
    "everything",
];
/// Most bytes of a text in which its base is looked for.
const MAX_TEXT: usize = 16 << 10;
/// Nouns behind a base: `the base 7 representation`.
const FORMS: [&str; 7] = ["representation", "expansion", "notation", "form", "numeral", "system", "equivalent"];
/// What may stand before a base: `written in base 7`.
const BEFORE: [&str; 5] = ["in", "to", "into", "as", "using"];
/// Words between a box and its base: `which is a base 7 number`.
const BETWEEN: [&str; 12] =
    ["text", "mathrm", "textbf", "quad", "written", "expressed", "digits", "which", "is", "a", "the", "all"];
/// All that a sentence may say beside the base and its number, with the words of the table around an announcement.
const NEUTRAL: &str = "from it this that which we i get have obtain find becomes become gives give as into number value sum \
    total product difference quotient remainder written write express expressed convert converted converting text mathrm \
    have gets";

/// The base that the words beside a box name; `sentence` leads to it. `None` where none is named, and where the box holds no
/// digits.
pub(super) fn named(text: &str, whole: Range<usize>, sentence: &str, content: &str) -> Option<u32> {
    let content = content.trim();
    if content.is_empty() || !content.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return None;
    }
    let after = text.suffix_from(whole.end);
    let after = after.prefix_to(after.floor_char_boundary(after.len().min(MAX_BYTES)));
    let is_digits = |base: &u32| content.chars().all(|digit| digit.is_digit(*base));
    let found = subscript(after)
        .or_else(|| behind(after))
        .or_else(|| prefix(text.prefix_to(whole.start)))
        .or_else(|| announced(sentence, content))
        .or_else(|| set(text, &whole));
    found.filter(is_digits)
}

/// `0x`, also before a delimiter.
fn prefix(before: &str) -> Option<u32> {
    let before = before.trim_end_matches(['$', '}', ' ']);
    let sign = before.suffix_from(before.ceil_char_boundary(before.len().saturating_sub(2)));
    let is_number = before.prefix_to(before.len() - sign.len()).ends_with(|c: char| c.is_alphanumeric() || c == '.');
    let named = PREFIXES.iter().find(|(prefix, _)| sign.eq_ignore_ascii_case(prefix));
    named.filter(|_| !is_number).map(|(_, base)| *base)
}

/// Searches for the words of a base, made once.
static WORDS: LazyLock<[memmem::Finder<'static>; 2]> =
    LazyLock::new(|| [memmem::Finder::new("base"), memmem::Finder::new("radix")]);

/// The base that a sentence elsewhere sets for the whole text: `We work in base 7.` A later mention of base ten ends it.
fn set(text: &str, whole: &Range<usize>) -> Option<u32> {
    let begin = text.ceil_char_boundary(whole.start.saturating_sub(MAX_TEXT));
    let before = text.slice(begin..whole.start);
    let after = text.suffix_from(whole.end);
    let after = after.prefix_to(after.floor_char_boundary(after.len().min(MAX_BYTES)));
    [after, before].into_iter().find_map(|text| {
        let mut found = None;
        for at in WORDS.iter().flat_map(|word| word.find_iter(text.as_bytes())) {
            let ends = ['\n', '.', '!', '?', ';'];
            let start = text.prefix_to(at).rfind(ends).map_or(0, |end| end + 1);
            let end = text.suffix_from(at).find(ends).map_or(text.len(), |end| at + end);
            let words = words_of(text.slice(start..end).get(..MAX_BYTES).unwrap_or(text.slice(start..end)));
            let named = words.iter().enumerate().find_map(|(at, _)| Some((at, base_at(words.get(at..)?)?.0)));
            match named {
                Some((_, 10)) => found = None,
                Some((at, base)) if sets(&words, at) => found = Some(base),
                _ => {}
            }
        }
        found.filter(|_| memmem::rfind(text.as_bytes(), b"decimal").is_none())
    })
}

/// Whether a sentence with a base at a place sets it for more than a number.
fn sets(words: &[String], at: usize) -> bool {
    let before = at.checked_sub(1).and_then(|at| words.get(at)).map(String::as_str);
    let has = |word: &str| words.iter().any(|other| other == word);
    let is_used = matches!(before, Some("use" | "using")) && (has("throughout") || has("us") || has("we"));
    is_used
        || before == Some("has") && has("system")
        || before == Some("in")
            && (words.iter().any(|word| SETTING.contains(&word.as_str()))
                || has("all")
                || has("digits") && has("are")
                || has("answers"))
}

/// Whether a problem or a gold answer speaks of bases.
pub(super) fn is_known(known: &Known) -> bool {
    known.is_text("base") || NAMES.iter().any(|(name, _)| known.is_text(name))
}

/// `_7`, `$_{7}`, `_{\text{seven}}`, `₇`
fn subscript(after: &str) -> Option<u32> {
    let after = after.trim_start_matches(['$', ' ', ')']);
    let small: String = after.chars().map_while(|c| char::from_digit((c as u32).checked_sub(0x2080)?, 10)).collect();
    if !small.is_empty() {
        return base_named(&small);
    }
    let after = after.strip_prefix("\\mathrm{").or_else(|| after.strip_prefix("\\text{")).unwrap_or(after);
    let index = after.strip_prefix('_')?.trim_start_matches(['{', ' ', '(']);
    let index = index.strip_prefix("\\text").unwrap_or(index).trim_start_matches('{');
    let end = index.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(index.len());
    base_named(index.prefix_to(end))
}

/// The words of a text in lower case, with the digits.
fn words_of(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect()
}

/// The base at the start of some words, and how many these are: `base 7`, `binary`.
fn base_at(words: &[String]) -> Option<(u32, usize)> {
    match words {
        [base, name, ..] if base == "base" || base == "radix" => Some((base_named(name)?, 2)),
        [name, ..] => NAMES.iter().find(|(known, _)| known == name).map(|(_, base)| (*base, 1)),
        [] => None,
    }
}

fn may_name(text: &str) -> bool {
    let mut words = text.split(|c: char| !c.is_alphanumeric());
    let names = || ["base", "radix"].into_iter().chain(NAMES.iter().map(|(name, _)| *name));
    words.any(|word| names().any(|name| word.eq_ignore_ascii_case(name)))
}

/// `\boxed{15} in base 7`, `\boxed{15} (base 7)`, `\boxed{15}, written in base 7.`
fn behind(after: &str) -> Option<u32> {
    if !may_name(after) {
        return None;
    }
    let mut bare = after.trim_start_matches(['$', '}', '*', ')', ' ']);
    while let Some(rest) = ["\\;", "\\,", "\\ ", "\\)", "\\]"].iter().find_map(|blank| bare.strip_prefix(blank)) {
        bare = rest.trim_start();
    }
    // After a mark nothing else may be said: `, in base 7 it is 21`.
    let is_apart = bare.starts_with([',', '.', ';']);
    let bare = bare.trim_start_matches([',', '.', ';', ' ', '(']);
    let words = words_of(bare.split(['\n', ',', ';', '.', '(', ')']).next()?);
    let is_between = |word: &String| BETWEEN.contains(&word.as_str()) || BEFORE.contains(&word.as_str());
    let start = words.iter().position(|word| !is_between(word))?;
    let rest = words.get(start..)?;
    let (base, count) = base_at(rest)?;
    let is_form = |word: &String| FORMS.contains(&word.as_str()) || word == "number" || word == "digits";
    let mut said = rest.get(count..)?.iter().take_while(|word| *word != "instead" && !words::is(Role::Reason, word));
    (!is_apart || said.all(is_form)).then_some(base)
}

/// `In base 7, it is`, where the sentence before a box says nothing else.
fn announced(sentence: &str, content: &str) -> Option<u32> {
    if !may_name(sentence) {
        return None;
    }
    let words = words_of(&spelled::in_digits(sentence));
    let mut rest = words.as_slice();
    let (mut found, mut before, mut is_first, mut number) = (None, "", true, None);
    while let Some((word, others)) = rest.split_first() {
        if let Some((base, count)) = base_at(rest) {
            rest = rest.get(count..).unwrap_or_default();
            let is_form = rest.first().is_some_and(|word| FORMS.contains(&word.as_str()));
            let is_last = rest.is_empty() && sentence.ends_with(')');
            let is_told = is_form || is_first || is_last || BEFORE.contains(&before) && !is_read(number, base, content);
            // `from base 7` is the base of another number.
            if before != "from" {
                found = is_told.then_some(base);
            }
            (before, number) = ("", None);
            continue;
        }
        if !is_neutral(word) {
            return None;
        }
        is_first &= words::is(Role::Connective, word);
        if !BEFORE.contains(&word.as_str()) {
            number = word.starts_with(|c: char| c.is_ascii_digit()).then_some(word.as_str());
        }
        (before, rest) = (word.as_str(), others);
    }
    found
}

/// Whether a number in a base has a value: `21 in base 7 is 15` says of 21 what it is, and `12 in base 7 is 15` is in base 7.
fn is_read(number: Option<&str>, base: u32, value: &str) -> bool {
    // `42 in base 10 is 52`
    number
        .and_then(|digits| u64::from_str_radix(digits, base).ok())
        .is_some_and(|read| base == 10 || value.parse() == Ok(read))
}

fn is_neutral(word: &str) -> bool {
    const ROLES: [Role; 6] =
        [Role::Connective, Role::Filler, Role::Copula, Role::Claim, Role::Adjective, Role::Function];
    word.chars().nth(1).is_none()
        || word.bytes().all(|byte| byte.is_ascii_digit())
        || FORMS.contains(&word)
        || base_named(word).is_some()
        || BEFORE.contains(&word)
        || NEUTRAL.split_whitespace().any(|neutral| neutral == word)
        || words::is_any(&ROLES, word)
}

#[cfg(test)]
mod tests;
