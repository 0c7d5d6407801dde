//! A base that is named beside a box, whose digits are then no decimal number: `Base 7: \boxed{15}`, `\boxed{15}_7`,
//! `\boxed{15} in base 7`.

use std::ops::Range;

use crate::parse::base_named;
use crate::slicing::SafeSlice;
use crate::words::{self, Known, Role};

/// Most bytes on each side that are read.
const MAX_BYTES: usize = 200;
/// Bases with a name of their own.
const NAMES: [(&str, u32); 6] =
    [("binary", 2), ("ternary", 3), ("octal", 8), ("decimal", 10), ("hexadecimal", 16), ("hex", 16)];
/// Nouns behind a base: `the base 7 representation`.
const FORMS: [&str; 7] = ["representation", "expansion", "notation", "form", "numeral", "system", "equivalent"];
/// What may stand before a base: `written in base 7`.
const BEFORE: [&str; 5] = ["in", "to", "into", "as", "using"];
/// All that a sentence may say beside the base and its number, with the words of the table around an announcement.
const NEUTRAL: &str = "from it this that which we i get have obtain find becomes become gives give as into number value sum \
    total product difference quotient remainder written write express expressed convert converted converting text mathrm";

/// The base that the words beside a box name. `None` where none is named, for ten, and where the box holds no digits.
pub(super) fn named(text: &str, whole: Range<usize>, content: &str) -> Option<u32> {
    let content = content.trim();
    if content.is_empty() || !content.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return None;
    }
    let after = text.suffix_from(whole.end);
    let after = after.prefix_to(after.floor_char_boundary(after.len().min(MAX_BYTES)));
    let before = text.prefix_to(whole.start);
    let before = before.suffix_from(before.ceil_char_boundary(before.len().saturating_sub(MAX_BYTES)));
    let is_digits = |base: &u32| content.chars().all(|digit| digit.is_digit(*base));
    let found = subscript(after).or_else(|| behind(after)).or_else(|| announced(before));
    found.filter(|base| *base != 10 && is_digits(base))
}

/// Whether a problem or a gold answer speaks of bases.
pub(super) fn is_known(known: &Known) -> bool {
    known.is_text("base") || NAMES.iter().any(|(name, _)| known.is_text(name))
}

/// `_7`, `$_{7}`, `_{\text{seven}}`
fn subscript(after: &str) -> Option<u32> {
    let index = after.trim_start_matches(['$', ' ']).strip_prefix('_')?.trim_start_matches(['{', ' ']);
    let index = index.strip_prefix("\\text{").unwrap_or(index);
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
        [base, name, ..] if base == "base" => Some((base_named(name)?, 2)),
        [name, ..] => NAMES.iter().find(|(known, _)| known == name).map(|(_, base)| (*base, 1)),
        [] => None,
    }
}

fn may_name(text: &str) -> bool {
    let mut words = text.split(|c: char| !c.is_alphanumeric());
    words.any(|word| word.eq_ignore_ascii_case("base") || NAMES.iter().any(|(name, _)| word.eq_ignore_ascii_case(name)))
}

/// `\boxed{15} in base 7`, `\boxed{15} (base 7)`
fn behind(after: &str) -> Option<u32> {
    if !may_name(after) {
        return None;
    }
    let words = words_of(after.split(['\n', ',', ';', '.']).next()?);
    let start = words.iter().position(|word| {
        !matches!(word.as_str(), "text" | "mathrm" | "written" | "expressed") && !BEFORE.contains(&word.as_str())
    })?;
    base_at(words.get(start..)?).map(|(base, _)| base)
}

/// `In base 7, it is`, where the sentence before a box says nothing else.
fn announced(before: &str) -> Option<u32> {
    if !may_name(before) {
        return None;
    }
    let ends = ["\n", ". ", "! ", "? ", "; "].iter().filter_map(|end| Some(before.rfind(end)? + end.len()));
    let words = words_of(before.suffix_from(ends.max().unwrap_or(0)));
    let mut rest = words.as_slice();
    let (mut found, mut before, mut is_first, mut is_of_number) = (None, "", true, false);
    while let Some((word, others)) = rest.split_first() {
        if let Some((base, count)) = base_at(rest) {
            rest = rest.get(count..).unwrap_or_default();
            let is_form = rest.first().is_some_and(|word| FORMS.contains(&word.as_str()));
            let is_told = is_form || is_first || BEFORE.contains(&before) && !is_of_number;
            // `from base 7` is the base of another number.
            if before != "from" {
                found = is_told.then_some(base);
            }
            (before, is_of_number) = ("", false);
            continue;
        }
        if !is_neutral(word) {
            return None;
        }
        is_first &= words::is(Role::Connective, word);
        // `15 in base 7 is` says of 15 what it is.
        if !BEFORE.contains(&word.as_str()) {
            is_of_number = word.starts_with(|c: char| c.is_ascii_digit());
        }
        (before, rest) = (word.as_str(), others);
    }
    found
}

fn is_neutral(word: &str) -> bool {
    const ROLES: [Role; 6] =
        [Role::Connective, Role::Filler, Role::Copula, Role::Claim, Role::Adjective, Role::Function];
    word.chars().nth(1).is_none()
        || word.bytes().all(|byte| byte.is_ascii_digit())
        || FORMS.contains(&word)
        || BEFORE.contains(&word)
        || NEUTRAL.split_whitespace().any(|neutral| neutral == word)
        || ROLES.iter().any(|role| words::is(*role, word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base(text: &str) -> Option<u32> {
        let start = text.find("\\boxed{").unwrap();
        let end = start + text.suffix_from(start).find('}').unwrap() + 1;
        named(text, start..end, text.slice(start + "\\boxed{".len()..end - 1))
    }

    #[test]
    fn a_base_beside_a_box_is_found() {
        for text in [
            "Base 7: \\boxed{15}",
            "In base 7, the answer is $\\boxed{15}$",
            "so in base-7 it is \\boxed{15}",
            "Therefore the base $7$ representation is \\boxed{15}",
            "Written in base seven: \\boxed{15}",
            "Using base 7, \\boxed{15}",
            "Converting from base 10 to base 7 gives \\boxed{15}",
            "The answer in base 7 is \\boxed{15}",
            "$\\boxed{15}_7$",
            "$\\boxed{15}_{7}$",
            "$\\boxed{15}_{\\text{seven}}$",
            "\\boxed{15} base 7",
            "$\\boxed{15}$ (in base 7)",
            "\\boxed{15} in base 7.",
        ] {
            assert_eq!(base(text), Some(7), "{text}");
        }
        assert_eq!(base("In binary: \\boxed{101}"), Some(2));
        assert_eq!(base("\\boxed{FF} in hexadecimal"), Some(16));
    }

    #[test]
    fn a_base_of_something_else_is_none_of_the_box() {
        for text in [
            "Base 10: \\boxed{15}",
            "Converting from base 7 to base 10 gives \\boxed{15}",
            "From base 7 we get \\boxed{15}",
            "The largest base 2 integer is \\boxed{255}",
            "In base 7, this number has \\boxed{3} digits",
            "The sum of its digits in base 7 is \\boxed{3}",
            "21 in base 7 is \\boxed{15}",
            "The triangle has base 7 and area \\boxed{14}",
            "Base 7, height 4, area \\boxed{14}",
            "The base is \\boxed{7}",
            "It is $120_7$ in base 7. So it is \\boxed{63}",
            "\\boxed{15}, in base 7 it is 21",
            "In base 7: \\boxed{15_7}",
            "\\boxed{9}_7",
        ] {
            assert_eq!(base(text), None, "{text}");
        }
    }
}
