//! What is on both sides of a box: braces of a command, brackets, and marks that strike it out.

use super::left::{HARMLESS, ends_with_factor, is_listed, owner};
use super::right::is_power;
use crate::slicing::SafeSlice;

/// Commands that leave their argument as it is.
const TRANSPARENT: &str = "text textbf textit textrm textsf texttt textup textnormal emph mbox hbox mathrm mathbf mathit \
    mathsf mathtt boldsymbol bm pmb boxed fbox framebox color textcolor colorbox fcolorbox underline uline ensuremath \
    displaystyle textstyle large Large LARGE huge Huge small normalsize bf rm it centering begin center section \
    subsection paragraph footnote operatorname answer overset underset underbrace overbrace displaylines left";
/// Tags that strike out what they enclose.
const STRUCK: [(&str, &str); 4] = [("~~", "~~"), ("<s>", "</s>"), ("<del>", "</del>"), ("<strike>", "</strike>")];

/// Whether braces around the box make it the argument of a command, an exponent or an index: `\frac{\boxed{3}}{4}`,
/// `\sqrt{\boxed{4}}`, `x^{\boxed{2}}`, `\cancel{\boxed{4}}`.
pub(super) fn is_argument(before: &str, after: &str) -> bool {
    // Braces that are open before the box, from the inside out, and those that close after it.
    let mut closing = unpaired(after.char_indices(), '{', '}', after).len();
    let open = unpaired(before.char_indices().rev(), '}', '{', before);
    for at in open {
        if closing == 0 {
            return false;
        }
        closing -= 1;
        let rest = before.prefix_to(at).trim_end();
        let is_raised = rest.ends_with(['^', '_']);
        // `\\log_{2}{`
        let base = rest.strip_suffix('}').and_then(|rest| rest.rsplit_once("_{")).map(|(command, _)| command);
        let is_taken = owner(base.unwrap_or_else(|| before.prefix_to(at)))
            .is_some_and(|name| !is_listed(TRANSPARENT, name) && !is_listed(HARMLESS, name));
        if is_raised || is_taken {
            return true;
        }
    }
    false
}

/// Positions of closing braces without an opening one before them, in the order of the characters.
fn unpaired(characters: impl Iterator<Item = (usize, char)>, open: char, close: char, text: &str) -> Vec<usize> {
    let mut depth = 0_usize;
    let mut found = Vec::new();
    for (at, character) in characters {
        let is_brace = character == open || character == close;
        if !is_brace || text.prefix_to(at).ends_with('\\') {
            continue;
        }
        match character == open {
            true => depth += 1,
            false if depth > 0 => depth -= 1,
            false => found.push(at),
        }
    }
    found
}

/// `~~\boxed{36}~~`, `<s>\boxed{36}</s>`
pub(super) fn is_struck_out(before: &str, after: &str) -> bool {
    if before.matches("~~").count() % 2 == 1 && after.contains("~~") {
        return true;
    }
    let marks = |c: char| c.is_whitespace() || matches!(c, '$' | '*');
    let (before, after) = (before.trim_end_matches(marks), after.trim_start_matches(marks));
    STRUCK.iter().any(|(open, close)| before.ends_with(open) && after.starts_with(close))
}

/// Tables of which a box is an entry.
const TABLES: [&str; 7] = ["matrix", "pmatrix", "bmatrix", "vmatrix", "Bmatrix", "smallmatrix", "cases"];

/// Whether a box is an item of a bracket, `[\boxed{4}, \infty)`, or an entry of a matrix or of cases. `near` is all before it.
pub(super) fn is_item(near: &str, before: &str, after: &str) -> bool {
    let is_open = |table: &&str| {
        let (begin, end) = (format!("\\begin{{{table}}}"), format!("\\end{{{table}}}"));
        near.rfind(&begin).is_some_and(|at| near.rfind(&end).is_none_or(|end| end < at))
    };
    if near.contains("\\begin{") && TABLES.iter().any(is_open) {
        return true;
    }
    let Some(formula) = super::left::formula(before) else { return false };
    let end = ["$", "\\)", "\\]"].iter().filter_map(|mark| after.find(mark)).min().unwrap_or(after.len());
    let after = after.prefix_to(end).replace("\\}", ")");
    if formula.trim_end().ends_with("\\left.") && after.trim_start().starts_with("\\right|") {
        return true;
    }
    let formula = formula.replace("\\{", "(");
    let bracket = |c: char| i32::from(matches!(c, '(' | '[')) - i32::from(matches!(c, ')' | ']'));
    let mut depth = 0;
    let mut has_separator = false;
    let opened = formula.char_indices().rev().find(|(_, c)| {
        depth += bracket(*c);
        has_separator |= depth == 0 && matches!(c, ',' | ';');
        depth > 0
    });
    // `P(X = `
    has_separator |= opened.is_some_and(|(at, _)| {
        formula.prefix_to(at).ends_with(|c: char| c.is_ascii_alphabetic()) && formula.suffix_from(at).contains('=')
    });
    depth = 0;
    let closed = after.chars().any(|c| {
        depth += bracket(c);
        has_separator |= depth == 0 && matches!(c, ',' | ';');
        depth < 0
    });
    opened.is_some() && closed && has_separator
}

/// Whether brackets around the box make it a part: `2(\boxed{4})`, `\sin(\boxed{4})`, `(\boxed{4})^2`, `|\boxed{4}|`.
pub(super) fn is_bracketed_part(before: &str, after: &str, in_formula: bool) -> bool {
    const PAIRS: [(&str, &str); 6] =
        [("\\left(", "\\right)"), ("(", ")"), ("\\left[", "\\right]"), ("[", "]"), ("\\left|", "\\right|"), ("|", "|")];
    let before = before.trim_end();
    let after = after.trim_start();
    let found =
        PAIRS.iter().find_map(|(open, close)| Some((*open, before.strip_suffix(open)?, after.strip_prefix(close)?)));
    let Some((open, before, after)) = found else { return false };
    // `\\(` and `\\[` are delimiters of a formula.
    if before.ends_with('\\') {
        return false;
    }
    if open.ends_with('|') {
        return in_formula;
    }
    let is_divided = after.strip_prefix('/').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    ends_with_factor(before) || is_power(after) || is_divided || (in_formula && after.starts_with('!'))
}
