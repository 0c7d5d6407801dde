//! The last number or formula of a text without a marker, for comparison with graders that accept it.

use super::span::{TextEnd, formula_around, text_end};
use crate::slicing::SafeSlice;

/// Longest number that is considered.
const MAX_NUMBER_BYTES: usize = 256;

/// The formula at the end of the text, or else the last number. `None` if there is neither.
pub(super) fn last(text: &str) -> Option<&str> {
    let end = |c: char| c.is_whitespace() || matches!(c, '*' | '!');
    let text = text.trim_end_matches(end);
    // `0.5...` is a decimal that goes on.
    if text.trim_end_matches('.').len() + 2 <= text.len() && has_decimal_at_end(text.trim_end_matches('.')) {
        return None;
    }
    let text = text.trim_end_matches(|c: char| end(c) || c == '.');
    match text_end(text) {
        TextEnd::Formula(formula) => return Some(formula),
        TextEnd::Broken => return None,
        TextEnd::Other => {}
    }
    // A text without spaces is not a sentence; with an operator it is a formula.
    if text.len() <= MAX_NUMBER_BYTES
        && text.is_ascii()
        && !text.contains(char::is_whitespace)
        && text.contains(['=', '<', '>', '('])
    {
        return Some(text);
    }
    let last = text.rfind(|c: char| c.is_ascii_digit())?;
    let end = last + 1;
    if let Some(formula) = formula_around(text, last) {
        return Some(formula);
    }
    if let Some(expression) = expression(text, last) {
        return Some(expression);
    }
    let start = number_start(text, end);
    // The number may be part of an undelimited formula; then the whole line is taken.
    if text.prefix_to(start).ends_with(['{', '}', '\\', '^', '_']) || text.suffix_from(end).starts_with('}') {
        return text.lines().next_back().map(str::trim);
    }
    // "UK2A" is a name, not a number.
    if text.prefix_to(start).ends_with(|before: char| before.is_ascii_alphanumeric()) {
        return None;
    }
    Some(text.slice(start..end + percent_length(text.suffix_from(end))))
}

/// Whether an equation at the end of a text sets a name, and answers nothing: `with n = 4`.
pub(super) fn is_condition(answer: &str, text: &str) -> bool {
    let at = (answer.as_ptr() as usize).wrapping_sub(text.as_ptr() as usize);
    let before = text.prefix_to(at.min(text.len())).trim_end_matches([' ', '$', '(', '\\']);
    // `n = ` before the number.
    let named = before.strip_suffix('=').map(str::trim_end);
    let is_equation = named.is_some() || answer.contains('=');
    let before = named.map_or(before, |name| name.trim_end_matches(|c: char| c.is_alphanumeric() || c == '_'));
    let before = before.trim_end_matches([' ', '$', '(', '\\']);
    let word = before.suffix_from(before.trim_end_matches(char::is_alphabetic).len());
    let sets = ["with", "where", "when", "if", "let", "given", "assume", "suppose", "set", "setting", "taking"];
    is_equation && sets.iter().any(|set| word.eq_ignore_ascii_case(set))
}

/// Whether the last word of a text has a decimal point.
fn has_decimal_at_end(text: &str) -> bool {
    let word = text.rsplit(char::is_whitespace).next().unwrap_or_default();
    word.ends_with(|c: char| c.is_ascii_digit()) && word.contains('.')
}

/// Start of the number that ends at `end`: digits with points, separators, a slash, and the integer part of a mixed
/// number.
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
            // `1 000`
            b' ' if digit_before && is_group(bytes, start, end) => {}
            _ => break,
        }
        start -= 1;
    }
    let sign = ["-", "\u{2212}", "\u{2013}", "+"]
        .iter()
        .find(|sign| text.prefix_to(start).ends_with(*sign))
        .map_or(0, |sign| sign.len());
    // `is - 3`
    let gap = start - text.prefix_to(start).trim_end_matches(' ').len();
    let spaced =
        ["-", "\u{2212}", "\u{2013}"].iter().find(|sign| gap > 0 && text.prefix_to(start - gap).ends_with(*sign));
    let sign = if sign == 0 { spaced.map_or(0, |sign| sign.len() + gap) } else { sign };
    let start = if sign > 0 && !ends_with_operand(text.prefix_to(start - sign)) { start - sign } else { start };
    if text.prefix_to(start).ends_with('$') { start - 1 } else { start }
}

/// Whether a sign after this text is an operator: after a digit, a bracket, or a variable, but not after a word.
fn ends_with_operand(text: &str) -> bool {
    let text = text.trim_end();
    let letters = text.len() - text.trim_end_matches(char::is_alphabetic).len();
    let last = text.chars().next_back();
    last.is_some_and(|c| {
        c.is_numeric() || matches!(c, ')' | '}' | ']') || (c.is_alphabetic() && letters == c.len_utf8())
    })
}

/// Longest expression that is taken as a whole.
const MAX_EXPRESSION_BYTES: usize = 120;

/// The expression around the last digit, where it is more than a number: `2√3`, `9π`, `2:5`, `1e5`, `f(x) = x + 1`.
/// `None` for a number, and where the right side of an equation is one.
fn expression(text: &str, digit: usize) -> Option<&str> {
    const OPERATORS: [&str; 10] = ["+", "-", "\u{2212}", "*", "/", "×", "·", "=", "^", "÷"];
    let is_math = |word: &str| {
        let letters = word.chars().filter(|c| c.is_alphabetic()).count();
        !word.is_empty()
            && (OPERATORS.contains(&word)
                || letters <= 1 && letters < word.chars().count()
                || word.chars().count() == 1
                || word.contains('(') && letters <= 3)
            && !matches!(word, "a" | "A" | "I")
    };
    let line_start = text.prefix_to(digit).rfind('\n').map_or(0, |at| at + 1);
    let floor = text.ceil_char_boundary(line_start.max(digit.saturating_sub(MAX_EXPRESSION_BYTES)));
    let end = digit + text.suffix_from(digit).find(char::is_whitespace).unwrap_or(text.len() - digit);
    let end = end - (text.prefix_to(end).len() - text.prefix_to(end).trim_end_matches([',', '.', ';', '!', '?']).len());
    let mut start = end;
    let mut words = 0;
    let mut wants_operand = true;
    // From the right: an operand, an operator, an operand, and so on.
    while start > floor {
        let before = text.slice(floor..start).trim_end();
        let begin = floor + before.rfind(char::is_whitespace).map_or(0, |at| at + 1);
        let begin = text.ceil_char_boundary(begin);
        let word = text.slice(begin..floor + before.len());
        if !is_math(word) || OPERATORS.contains(&word) == wants_operand {
            break;
        }
        (start, wants_operand) = (begin, !wants_operand);
        words += 1;
    }
    let found = text.slice(start..end);
    if words == 0 {
        return None;
    }
    let right = found.rsplit_once('=').map_or(found, |(_, right)| right).trim();
    let plain =
        |c: char| c.is_ascii_digit() || matches!(c, '.' | ',' | '%' | '$' | '-' | '\u{2212}' | '/' | '+' | '€' | '£');
    let is_number =
        right.chars().all(plain) && !found.contains(['(', '_']) || words > 1 && wants_operand && !found.contains('=');
    let special = right.contains(['√', 'π', ':', '∛']) || is_scientific(right);
    (special || (words > 2 && !is_number)).then_some(if special && words == 1 { right } else { found })
}

/// Whether a word is a number with an exponent, such as `1e5`.
fn is_scientific(word: &str) -> bool {
    let Some((digits, exponent)) = word.split_once(['e', 'E']) else { return false };
    let is_numeric = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'-' | b'+'))
    };
    is_numeric(digits) && is_numeric(exponent)
}

/// Whether a space before `start` separates thousands: three digits follow, and up to three precede.
fn is_group(bytes: &[u8], start: usize, end: usize) -> bool {
    let digits = |bytes: &[u8]| bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let after = bytes.get(start..end).map_or(0, digits);
    let before = bytes.get(..start.saturating_sub(1)).unwrap_or_default();
    let leading = before.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    after == 3
        && (1..=3).contains(&leading)
        && !before.get(before.len() - leading..).is_some_and(|group| group.starts_with(b"0") && leading < 3)
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
        assert_eq!(last("so x = -5"), Some("-5"));
        assert_eq!(last("So the result is -3."), Some("-3"));
        assert_eq!(last("So the result is −3."), Some("−3"));
        assert_eq!(last("It is equal to - 3."), Some("- 3"));
        assert_eq!(last("So it is -1/2."), Some("-1/2"));
        assert_eq!(last("The side is 2√3."), Some("2√3"));
        assert_eq!(last("Area is 9π."), Some("9π"));
        assert_eq!(last("the ratio 2:5."), Some("2:5"));
        assert_eq!(last("so 1e5."), Some("1e5"));
        assert_eq!(last("so 1 000."), Some("1 000"));
        assert_eq!(last("so f(x) = x + 1."), Some("f(x) = x + 1"));
        assert_eq!(last("6 × 7 = 42"), Some("42"));
        assert_eq!(last("It is\n-\\frac{10}{9}"), Some("-\\frac{10}{9}"));
        assert_eq!(last("所以总共有99颗弹珠。"), Some("99"));
        assert_eq!(last("12000升=300分钟。因此，水将在300分钟内被放完。"), Some("300"));
        assert_eq!(last("AZYUK2A"), None);
        assert_eq!(last("no number"), None);
    }
}
