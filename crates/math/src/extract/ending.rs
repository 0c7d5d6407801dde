//! What follows an answer, behind the markup that closes it and a unit or a noun: of `}$ cm is wrong` the verb.

use crate::slicing::SafeSlice;
use crate::unit::Unit;
use crate::words::{self, Role};

/// Most words of a unit behind an answer.
const MAX_UNIT_WORDS: usize = 2;
/// Commands that close a formula, are blanks, or hold words, and signs of an end.
const COMMANDS: [&str; 12] = [
    "\\)",
    "\\]",
    "\\,",
    "\\;",
    "\\ ",
    "\\text{",
    "\\mathrm{",
    "\\quad",
    "\\blacksquare",
    "\\square",
    "\\checkmark",
    "✓",
];
/// Words for all of an amount.
const TOTALS: [&str; 3] = ["in total", "in all", "(final answer)"];

/// A text without the markup that it begins with.
pub(super) fn without_markup(mut text: &str) -> &str {
    loop {
        let rest = text.trim_start_matches(['}', '$', ')', ']', '*', ' ']);
        let rest = without_base(rest).unwrap_or(rest);
        match COMMANDS.iter().find_map(|command| rest.strip_prefix(command)) {
            Some(after) => text = after,
            None => return rest,
        }
    }
}

/// A text without the base that it begins with: `_7`, `_{7}`, `in base 7`, `(base 7)`.
fn without_base(text: &str) -> Option<&str> {
    let base = ["_{", "_", "in base ", "(base "].iter().find_map(|mark| text.strip_prefix(mark))?;
    let rest = base.trim_start_matches(|c: char| c.is_ascii_digit());
    (rest.len() < base.len()).then(|| rest.trim_start_matches(['}', ')', ' ', '$', '*']))
}

/// As [`without_markup`], also without a unit or a noun of the table.
pub(super) fn without_unit(text: &str) -> &str {
    let mut rest = without_markup(text);
    for _ in 0..MAX_UNIT_WORDS {
        if let Some(after) = TOTALS.iter().find_map(|total| rest.strip_prefix(total)) {
            rest = without_markup(after);
            continue;
        }
        let end = rest.find(|c: char| !c.is_alphabetic()).unwrap_or(rest.len());
        let word = rest.prefix_to(end).to_lowercase();
        let is_unit = !words::is_any(&[Role::Closed, Role::Function], &word)
            && (words::is_counter(&word) || Unit::known(&word).is_some());
        if word.is_empty() || !is_unit {
            break;
        }
        rest = without_markup(rest.suffix_from(end));
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_is_passed_over() {
        for (text, rest) in [
            ("}$ cm is wrong", "is wrong"),
            ("} apples, says Bob", ", says Bob"),
            ("\\text{ cm}$ or 3", "or 3"),
            ("\\] → 37", "→ 37"),
            ("** = 19", "= 19"),
            ("} is wrong", "is wrong"),
            ("}_7$ is wrong", "is wrong"),
            ("} (base 7), says Bob", ", says Bob"),
            ("} coins in total is wrong", "is wrong"),
            ("\\quad\\blacksquare$ is wrong", "is wrong"),
        ] {
            assert_eq!(without_unit(text), rest, "{text}");
        }
    }
}
