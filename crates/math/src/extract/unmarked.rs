//! The last number or formula of a text without a marker, for comparison with graders that accept it.

use super::span::{TextEnd, formula_around, text_end};
use crate::slicing::SafeSlice;

/// Longest number that is considered.
const MAX_NUMBER_BYTES: usize = 256;

/// The formula at the end of the text, or else the last number. `None` if there is neither.
pub(super) fn last(text: &str) -> Option<&str> {
    let text = text.trim_end_matches(|c: char| c.is_whitespace() || matches!(c, '.' | '*' | '!'));
    match text_end(text) {
        TextEnd::Formula(formula) => return Some(formula),
        TextEnd::Broken => return None,
        TextEnd::Other => {}
    }
    // A text without spaces is not a sentence; with an operator it is a formula.
    if text.len() <= MAX_NUMBER_BYTES && !text.contains(char::is_whitespace) && text.contains(['=', '<', '>', '(']) {
        return Some(text);
    }
    let last = text.rfind(|c: char| c.is_ascii_digit())?;
    let end = last + 1;
    if let Some(formula) = formula_around(text, last) {
        return Some(formula);
    }
    let start = number_start(text, end);
    // The number may be part of an undelimited formula; then the whole line is taken.
    if text.prefix_to(start).ends_with(['{', '}', '\\', '^', '_']) || text.suffix_from(end).starts_with('}') {
        return text.lines().next_back().map(str::trim);
    }
    // "UK2A" is a name, not a number.
    if text.prefix_to(start).ends_with(|before: char| before.is_alphanumeric()) {
        return None;
    }
    Some(text.slice(start..end + percent_length(text.suffix_from(end))))
}

/// Start of the number that ends at `end`: digits with points, separators, a slash, and the integer part of a mixed number.
fn number_start(text: &str, end: usize) -> usize {
    let bytes = text.as_bytes();
    let floor = end.saturating_sub(MAX_NUMBER_BYTES);
    let mut start = end;
    let mut slash = false;
    while start > floor {
        let Some((last, before)) = bytes.get(..start).and_then(|bytes| bytes.split_last()) else { break };
        let digit_before = before.last().is_some_and(u8::is_ascii_digit);
        match last {
            b'0'..=b'9' => {}
            b'.' if digit_before || !text.prefix_to(before.len()).ends_with(char::is_alphanumeric) => {}
            b',' if digit_before => {}
            b'/' if digit_before && !slash => slash = true,
            b' ' if digit_before && slash => slash = false,
            _ => break,
        }
        start -= 1;
    }
    let sign =
        ["-", "\u{2212}", "+"].iter().find(|sign| text.prefix_to(start).ends_with(*sign)).map_or(0, |sign| sign.len());
    // After another operand it is an operator.
    let operand =
        text.prefix_to(start - sign).trim_end().ends_with(|c: char| c.is_alphanumeric() || matches!(c, ')' | '}'));
    let start = if sign > 0 && !operand { start - sign } else { start };
    if text.prefix_to(start).ends_with('$') { start - 1 } else { start }
}

/// Length of the percent sign, or of the word for it, after a number.
fn percent_length(rest: &str) -> usize {
    let word = rest.trim_start_matches(' ');
    let signs = ["\\%", "%", "percent", "pct"];
    signs.iter().find(|sign| word.starts_with(*sign)).map_or(0, |sign| rest.len() - word.len() + sign.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_number_or_formula_is_taken() {
        assert_eq!(last("the number is not 10 which is 1,000.99€"), Some("1,000.99"));
        assert_eq!(last("The answer is 4 4/9."), Some("4 4/9"));
        assert_eq!(last("28 percent"), Some("28 percent"));
        assert_eq!(last("Answer \\[ \n 9 \n \\]"), Some(" \n 9 \n "));
        assert_eq!(last("so x = -5"), Some("-5"));
        assert_eq!(last("so 7 - 5"), Some("5"));
        assert_eq!(last("It is\n-\\frac{10}{9}"), Some("-\\frac{10}{9}"));
        assert_eq!(last("AZYUK2A"), None);
        assert_eq!(last("no number"), None);
    }
}
