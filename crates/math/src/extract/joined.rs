//! Words before a box that ask for it, and another formula or box that is joined to it: `Could it be`, `$37$ plus $`,
//! `Case 1: \boxed{37}. Case 2:`.

use super::sentence::words_of;
use crate::slicing::SafeSlice;

/// Whether the sentence before a box asks for it, or says that it may be the answer: `Could the answer be`, `Maybe`, `such as`.
pub(super) fn is_asked(sentence: &str) -> bool {
    const FIRST: &str = "could might may can should maybe perhaps possibly probably is are write";
    const LAST: &str = "be maybe perhaps possibly probably like as";
    let is_in = |list: &str, word: &str| list.split_whitespace().any(|hint| hint.eq_ignore_ascii_case(word));
    let mut ends = sentence.split_whitespace();
    let (first, last) = (ends.next().unwrap_or_default(), ends.next_back().unwrap_or_default());
    if !is_in(FIRST, first.trim_matches(',')) && !is_in(LAST, last) {
        return false;
    }
    let words = words_of(sentence);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let is_modal = |word: &str| matches!(word, "could" | "might" | "may" | "can" | "should");
    match words.as_slice() {
        [modal, .., "be"] if is_modal(modal) => true,
        [.., "it" | "answer" | "this" | "that", modal, "be"] if matches!(*modal, "could" | "might" | "may") => true,
        ["e.g" | "e.g."] | ["write", .., "as"] => true,
        ["maybe" | "perhaps" | "possibly" | "probably", ..] => true,
        [is, "it" | "the" | "this" | "that", ..] if *is == "is" || *is == "are" => true,
        words => {
            matches!(words, [.., "such", "as"] | [.., "like"] | [.., "maybe" | "perhaps" | "possibly" | "probably"])
        }
    }
}

/// Whether another box stands right before, with nothing but a mark or a label of a list between: `Case 1: \\boxed{37}. Case 2:`.
pub(super) fn is_enumerated(before: &str, answer: &str) -> bool {
    const LABELS: &str =
        "case cases option part solution first second or else will do maybe alternatively vs versus then and to";
    let near = before.suffix_from(before.ceil_char_boundary(before.len().saturating_sub(MAX_BETWEEN)));
    let Some((_, other)) = near.rsplit_once("\\boxed{") else { return false };
    let mut depth = 1_usize;
    let end = other.find(|c: char| {
        depth = depth + usize::from(c == '{') - usize::from(c == '}');
        depth == 0
    });
    let Some(end) = end else { return false };
    let between = other.suffix_from(end + 1);
    let mut words = between.split(|c: char| !c.is_alphabetic()).filter(|word| word.chars().nth(1).is_some());
    let is_label = |word: &str| LABELS.split_whitespace().any(|label| word.eq_ignore_ascii_case(label));
    let is_mark = |c: char| !c.is_whitespace() && !c.is_alphanumeric() && !"$\\[](),.;*{}".contains(c);
    let has_letter = between.contains(char::is_alphanumeric) && between.contains(['(', ')', ':']);
    let has_label = between.contains(is_mark) || has_letter || words.clone().next().is_some();
    // What touches both boxes is noise: `\\boxed{190}-0\\boxed{100}`.
    has_label
        && between.contains(char::is_whitespace)
        && other.prefix_to(end).trim() != answer.trim()
        && !between.contains('=')
        && words.all(is_label)
}

/// Longest text with another box before a box that is read.
const MAX_BETWEEN: usize = 120;

/// Whether a sign or a word joins a formula before a box to it: `$37$ plus $`, `$37$ - $`.
pub(super) fn is_joined(before: &str) -> bool {
    const SIGNS: [&str; 14] =
        ["+", "-", "–", "—", "\u{2212}", "×", "*", "/", "·", "\\cdot", "\\times", "\\div", "±", "\\pm"];
    const WORDS: [&str; 13] =
        ["plus", "minus", "times", "over", "divided by", "choose", "less", "mod", "modulo", "through", "of", "to", "x"];
    let opened = before.trim_end_matches([' ', '$', '{']);
    let opened = opened.strip_suffix("\\(").unwrap_or(opened).trim_end();
    let sign = SIGNS.iter().find_map(|sign| opened.strip_suffix(sign));
    let word = || WORDS.iter().find_map(|word| opened.strip_suffix(word)?.strip_suffix(' '));
    let Some(rest) = sign.or_else(word).map(str::trim_end) else { return false };
    // The whole of a line: `$37$ to`, but not `We simplify $72/2$ to`.
    let line = rest.rsplit_once('\n').map_or(rest, |(_, line)| line);
    let is_formula = (rest.ends_with('$') || rest.ends_with("\\)")) && !rest.ends_with("$$");
    let is_alone = line.starts_with(['$', '\\']) && line.matches('$').count() <= 2;
    is_formula && (is_alone || sign.is_none() && !opened.ends_with("of") && !opened.ends_with("to"))
}
