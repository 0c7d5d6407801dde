//! The formulas of a task: between its delimiters, and in plain text the runs of words that look like mathematics.

use crate::slicing::SafeSlice;

/// Most formulas of one task.
const MAX_FORMULAS: usize = 2000;
/// Pairs of delimiters, longest first.
const DELIMITERS: [(&str, &str); 4] = [("$$", "$$"), ("\\[", "\\]"), ("\\(", "\\)"), ("$", "$")];

/// The formulas of a text, and the pieces of each between punctuation.
pub(super) fn formulas(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut plain = String::new();
    let mut rest = text;
    while !rest.is_empty() && found.len() < MAX_FORMULAS {
        let next = DELIMITERS.iter().filter_map(|(open, close)| Some((rest.find(open)?, open, close)));
        let Some((at, open, close)) = next.min_by_key(|(at, open, _)| (*at, usize::MAX - open.len())) else { break };
        plain.push_str(rest.prefix_to(at));
        plain.push('\n');
        let body = rest.suffix_from(at + open.len());
        let Some(end) = body.find(close) else {
            rest = body;
            continue;
        };
        add(body.prefix_to(end), &mut found);
        rest = body.suffix_from(end + close.len());
    }
    plain.push_str(rest);
    for line in plain.lines() {
        runs(line, &mut found);
    }
    found.truncate(MAX_FORMULAS);
    found
}

/// A formula without what only asks for its value, and the lines of an aligned one.
fn add(formula: &str, found: &mut Vec<String>) {
    let asks = |c: char| c.is_whitespace() || matches!(c, '.' | ',' | ';' | ':' | '?' | '=');
    let bare = formula.trim_end_matches(asks).trim_start_matches(asks);
    if bare.is_empty() {
        return;
    }
    found.push(bare.to_owned());
    if bare.contains("\\\\") || bare.contains('&') || bare.contains("\\text") || bare.contains("\\quad") {
        let inner = ["align*", "align", "aligned", "gather*", "gathered", "cases", "split"]
            .iter()
            .fold(bare.to_owned(), |text, name| {
                text.replace(&format!("\\begin{{{name}}}"), "").replace(&format!("\\end{{{name}}}"), "")
            });
        for line in inner.split("\\\\").flat_map(|line| line.split("\\quad")).flat_map(|line| line.split("\\text")) {
            // `\text{ and }x + 1`: what follows the words.
            let line = line.trim_start();
            let line = if line.starts_with('{') { line.split_once('}').map_or("", |(_, line)| line) } else { line };
            let line = line.replace('&', "");
            let line = line.trim_matches(asks);
            if !line.is_empty() && line != bare {
                found.push(line.to_owned());
            }
        }
    }
}

/// Adds the runs of mathematical words of a line.
fn runs(line: &str, found: &mut Vec<String>) {
    let mut run: Vec<&str> = Vec::new();
    for word in line.split_whitespace().chain(["end."]) {
        let bare = word.trim_end_matches([',', ';', '?', ':']);
        let bare = bare.strip_suffix('.').unwrap_or(bare);
        if is_mathematical(bare) {
            run.push(bare);
            if bare.len() == word.len() {
                continue;
            }
        }
        if run.iter().any(|word| word.chars().any(|c| !c.is_alphabetic())) {
            add(&run.join(" "), found);
        }
        run.clear();
    }
}

/// Whether a word is part of a formula: it has a digit, an operator or a command, or is a single letter.
fn is_mathematical(word: &str) -> bool {
    let is_sign = |c: char| c.is_ascii_digit() || "+-*/^=<>()[]{}\\!|%_×·÷−√∛π≤≥≠±²³".contains(c);
    let letters = word.chars().filter(|c| c.is_alphabetic()).count();
    let signs = word.chars().filter(|c| is_sign(*c)).count();
    !matches!(word, "a" | "A" | "I")
        && (letters == 1 && signs == 0 && word.len() == 1 || signs > 0 && !is_hyphenated(word))
}

/// Whether a word is text in spite of its signs, such as `two-digit` or `(see`.
fn is_hyphenated(word: &str) -> bool {
    let letters_only = word.trim_matches(['(', ')', '[', ']', '!']);
    letters_only.chars().count() > 2 && letters_only.chars().all(|c| c.is_alphabetic() || c == '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_are_found_with_and_without_delimiters() {
        assert_eq!(formulas("Compute $\\binom{31}{28}$."), ["\\binom{31}{28}"]);
        assert_eq!(formulas("What is \\(2+3\\)? And \\[ 4 \\cdot 5 = ? \\]"), ["2+3", "4 \\cdot 5"]);
        assert_eq!(formulas("Calculate 17*23 + 4, please."), ["17*23 + 4"]);
        assert_eq!(formulas("Find arcsin(-1/2)."), ["arcsin(-1/2)"]);
        assert_eq!(formulas("A two-digit number (see below) costs $5"), ["5"]);
        assert!(formulas("$$\\begin{align*} x &= 1+2 \\\\ y &= 3 \\end{align*}$$").contains(&"x = 1+2".to_owned()));
    }
}
