//! Words before a box that ask for it, and another formula or box that is joined to it: `Could it be`, `$37$ plus $`,
//! `Case 1: \boxed{37}. Case 2:`.

use super::beside;
use super::introduced::without_opening;
use super::restated::Answered;
use super::sentence::words_of;
use super::span::{TextEnd, text_end};
use crate::slicing::SafeSlice;
use crate::words::{self, Role};

/// Whether the sentence before a box asks for it, or says that it may be the answer: `Could the answer be`, `Maybe`, `such as`.
pub(super) fn is_asked(sentence: &str) -> bool {
    const FIRST: &str = "could might may can should maybe perhaps possibly probably is are write";
    const LAST: &str = "be maybe perhaps possibly probably like as this format e.g.";
    let is_in = |list: &str, word: &str| list.split_whitespace().any(|hint| hint.eq_ignore_ascii_case(word));
    let mut ends = sentence.split_whitespace();
    let (first, last) = (ends.next().unwrap_or_default(), ends.next_back().unwrap_or_default());
    if !is_in(FIRST, first.trim_matches(',')) && !is_in(LAST, last.trim_end_matches(':')) && first != "e.g." {
        return false;
    }
    let words = words_of(sentence);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let is_modal = |word: &str| matches!(word, "could" | "might" | "may" | "can" | "should");
    match words.as_slice() {
        [modal, .., "be"] if is_modal(modal) => true,
        [.., "it" | "answer" | "this" | "that", modal, "be"] if matches!(*modal, "could" | "might" | "may") => true,
        _ if sentence.ends_with("e.g.") => true,
        ["write", .., "as"] | [.., "format"] | [.., "like", "this"] | [.., "like", "this", ":"] => true,
        ["maybe" | "perhaps" | "possibly" | "probably", ..] => true,
        [is, "it" | "the" | "this" | "that", ..] if *is == "is" || *is == "are" => true,
        words => {
            matches!(words, [.., "such", "as"] | [.., "like"] | [.., "maybe" | "perhaps" | "possibly" | "probably"])
        }
    }
}

/// Whether another box stands before, with nothing but marks and a few words between that conclude nothing: `Case 1:
/// \\boxed{37}. Case 2:`, `; if even,`, `1. \\boxed{37}` and then `2. `.
pub(super) fn is_enumerated(before: &str, answer: &str) -> bool {
    const CONCLUDING: &str = "so thus therefore hence gives give get got is are equals makes finally step that which we it this means \
        wait no actually correction corrected rather instead oops sorry hmm thought thoughts mistake wrong recheck";
    let near = before.suffix_from(before.ceil_char_boundary(before.len().saturating_sub(MAX_BETWEEN)));
    let Some((_, other)) = near.rsplit_once("\\boxed{") else { return false };
    let mut depth = 1_usize;
    let end = other.find(|c: char| {
        depth = depth + usize::from(c == '{') - usize::from(c == '}');
        depth == 0
    });
    let Some(end) = end else { return false };
    let between = other.suffix_from(end + 1);
    let is_mark = |c: char| !c.is_whitespace() && !c.is_alphanumeric() && !"$\\[](),.;*{}".contains(c);
    let is_labelled = between.contains(char::is_alphanumeric) && between.contains(['(', ')', ':']);
    let item = between.trim_end_matches([' ', '$', '\\', '(', '[', '*']);
    let is_numbered =
        item.ends_with(['.', ')']) && item.trim_end_matches(['.', ')']).ends_with(|c: char| c.is_ascii_digit());
    let mut words = between.split(|c: char| !c.is_alphabetic()).filter(|word| word.chars().nth(1).is_some());
    let concludes = |word: &str| {
        let lower = word.to_lowercase();
        let is_title = words::is_any(&[Role::Name, Role::Connective], &lower);
        CONCLUDING.split_whitespace().any(|verb| verb == lower)
            || is_title && !matches!(&*lower, "solution" | "then" | "and" | "also")
    };
    // What touches both boxes is noise: `\\boxed{190}-0\\boxed{100}`.
    let is_marked = between.contains(is_mark) || is_labelled || is_numbered || words.clone().next().is_some();
    is_marked
        && between.contains(char::is_whitespace)
        && other.prefix_to(end).trim() != answer.trim()
        && !between.contains('=')
        && words.clone().count() <= MAX_LABEL_WORDS
        && !words.any(concludes)
}

/// Most words between boxes that are cases of one answer.
const MAX_LABEL_WORDS: usize = 4;
/// Longest text with another box before a box that is read.
const MAX_BETWEEN: usize = 120;

/// Whether another formula stands before a box as an item of its list: `$x-3$ or $`, `$x-3, `. One that is a name, a
/// statement or the same value is none.
pub(super) fn is_listed_after(before: &str, answer: &str) -> bool {
    const MARKS: [&str; 5] = [" or", ",", ";", " and", "\\text{ or }"];
    let opened = without_opening(before);
    let inside = opened.len() == before.trim_end_matches(|c: char| c.is_whitespace() || "*{".contains(c)).len();
    let Some((mark, rest)) = MARKS.iter().find_map(|mark| Some((*mark, opened.strip_suffix(mark)?))) else {
        return false;
    };
    let rest = rest.trim_end().trim_end_matches(',');
    let (lead, formula) = match text_end(rest) {
        TextEnd::Formula(formula) if !inside => (rest.prefix_to(rest.len() - formula.len()), formula),
        _ if inside => {
            let line = rest.rsplit_once('\n').map_or(rest, |(_, line)| line);
            let Some(formula) = beside::formula_before(line) else { return false };
            (line.prefix_to(line.len() - formula.len()), formula)
        }
        _ => return false,
    };
    let lead = lead.trim_end_matches(|c: char| c.is_whitespace() || "$\\([*".contains(c));
    let is_first =
        lead.is_empty() || lead.ends_with(['\n', ':', '.']) || lead.ends_with(" is") || lead.ends_with(" are");
    (mark.ends_with("or") || is_first)
        && formula.contains(|c: char| "+-^*/\\".contains(c))
        && Answered::new("", answer).is_another_formula(formula)
}

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
