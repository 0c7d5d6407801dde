//! External text in messages and logs: on one line, of bounded length, and without terminal control sequences.

use std::borrow::Cow;

/// Longest message of a failure, in characters.
pub const MAX_MESSAGE_CHARS: usize = 2000;

/// Text of at most the given number of characters, with control characters, Unicode line ends and direction marks escaped as in Rust
/// literals. Longer text is cut and ends in `…`.
pub fn shown(text: &str, max_chars: usize) -> Cow<'_, str> {
    let cut = text.char_indices().nth(max_chars).map(|(end, _)| end);
    if cut.is_none() && !text.contains(acts) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::new();
    for (count, character) in text.char_indices().map(|(_, character)| character).enumerate() {
        if count == max_chars {
            shown.push('…');
            break;
        }
        if !acts(character) {
            shown.push(character);
        } else if character.is_control() {
            shown.extend(character.escape_debug());
        } else {
            shown.extend(character.escape_unicode());
        }
    }
    Cow::Owned(shown)
}

/// Whether a terminal or a line reader would interpret a character instead of showing it.
fn acts(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{2028}' | '\u{2029}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_of_any_script_stays_as_it_is() {
        for text in ["", "run-7", "größer, 答え, \u{1f600}", "a \\n b"] {
            assert!(matches!(shown(text, 100), Cow::Borrowed(same) if same == text));
        }
    }

    #[test]
    fn nothing_that_a_terminal_acts_on_is_left() {
        assert_eq!(
            shown("a\nINFO b\r\t\x1b[31m\x07\u{9b}0m\0\x7f", 100),
            r"a\nINFO b\r\t\u{1b}[31m\u{7}\u{9b}0m\0\u{7f}"
        );
        assert_eq!(shown("a\u{2028}b\u{202e}c", 100), r"a\u{2028}b\u{202e}c");
    }

    #[test]
    fn long_text_is_cut_between_characters() {
        assert_eq!(shown(&"ä".repeat(1_000_000), 3), "äää…");
        assert_eq!(shown("äää", 3), "äää");
    }
}
