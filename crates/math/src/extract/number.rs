//! Numbers that follow a command without braces.

use crate::digits;
use crate::parse::fraction;
use crate::slicing::SafeSlice;

/// Length of the number at the start of a text: signs, then digits with points, separators and slashes. `None` without
/// a digit.
pub(super) fn length(text: &str) -> Option<usize> {
    let unsigned = text.trim_start_matches(is_sign);
    let end = unsigned.find(|c| !is_digit(c) && !is_within(c)).unwrap_or(unsigned.len());
    let digits = unsigned.prefix_to(end).trim_end_matches(is_within);
    digits.starts_with(is_digit).then(|| text.len() - unsigned.len() + digits.len())
}

fn is_sign(character: char) -> bool {
    matches!(character, '-' | '+' | '\u{2212}' | '\u{2013}' | '\u{fe63}' | '\u{ff0d}' | '\u{ff0b}')
}

/// Digits of any script, so that unsupported ones are reported and not dropped.
fn is_digit(character: char) -> bool {
    character.is_ascii_digit()
        || digits::to_ascii(character).is_some()
        || digits::is_other_script(character)
        || fraction(character).is_some()
}

/// Characters allowed between digits.
fn is_within(character: char) -> bool {
    matches!(character, '.' | ',' | '/' | '\u{2044}' | '\u{ff0c}' | '\u{ff0e}' | '\u{ff0f}' | '\u{66b}' | '\u{66c}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_ends_with_its_last_digit() {
        let number = |text: &'static str| length(text).map(|length| text.prefix_to(length));
        assert_eq!(number("52. And"), Some("52"));
        assert_eq!(number("-1,000.5, so"), Some("-1,000.5"));
        assert_eq!(number("−５．５。"), Some("−５．５"));
        assert_eq!(number("2½ apples"), Some("2½"));
        assert_eq!(number("٣٫٥ متر"), Some("٣٫٥"));
        assert_eq!(number("- and"), None);
        assert_eq!(number("é5"), None);
        assert_eq!(number(""), None);
    }
}
