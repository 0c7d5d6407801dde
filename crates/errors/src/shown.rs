//! External text in messages and logs: on one line, of bounded length, without terminal control sequences and without the passwords of URLs.

use std::borrow::Cow;

/// Longest message of a failure, in characters.
pub const MAX_MESSAGE_CHARS: usize = 2000;

/// Text of at most the given number of characters, with control characters, Unicode line ends and direction marks escaped as in Rust
/// literals, and without the passwords of URLs. Longer text is cut and ends in `…`.
pub fn shown(text: &str, max_chars: usize) -> Cow<'_, str> {
    match without_credentials(text) {
        Cow::Borrowed(text) => on_one_line(text, max_chars),
        Cow::Owned(text) => Cow::Owned(on_one_line(&text, max_chars).into_owned()),
    }
}

/// Text with `***` in place of the name and password of every URL: `http://***@host` for `http://name:password@host`.
pub fn without_credentials(text: &str) -> Cow<'_, str> {
    const SCHEME_END: &str = "://";
    let mut shown = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(SCHEME_END) {
        let (before, after) = rest.split_at(at + SCHEME_END.len());
        let ends =
            |character: char| character.is_whitespace() || matches!(character, '/' | '?' | '#' | '"' | '`' | '<' | '>');
        let authority = &after[..after.find(ends).unwrap_or(after.len())];
        if let Some(end) = authority.rfind('@') {
            shown.push_str(before);
            shown.push_str("***");
            rest = &after[end..];
        } else {
            shown.push_str(before);
            rest = after;
        }
    }
    if rest.len() == text.len() {
        return Cow::Borrowed(text);
    }
    shown.push_str(rest);
    if shown == text { Cow::Borrowed(text) } else { Cow::Owned(shown) }
}

fn on_one_line(text: &str, max_chars: usize) -> Cow<'_, str> {
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
    fn passwords_of_urls_are_hidden_and_nothing_else() {
        for (text, expected) in [
            ("http://a:s3cret@host:1/path", "http://***@host:1/path"),
            ("to `https://token@host` and dns://x:y@z", "to `https://***@host` and dns://***@z"),
            ("wandb://user:p@ss:w@rd@host?x=@", "wandb://***@host?x=@"),
            ("http://host/a@b, http://host, a@b", "http://host/a@b, http://host, a@b"),
            ("://", "://"),
        ] {
            assert_eq!(without_credentials(text), expected);
            assert_eq!(shown(text, 100), expected);
        }
        assert_eq!(shown("http://a:s3cret@host", 12), "http://***@h…", "before it is cut");
    }

    #[test]
    fn long_text_is_cut_between_characters() {
        assert_eq!(shown(&"ä".repeat(1_000_000), 3), "äää…");
        assert_eq!(shown("äää", 3), "äää");
    }
}
