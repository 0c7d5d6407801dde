//! External text in messages and logs: on one line, of bounded length, without terminal control sequences and without
//! the passwords of URLs.

use std::borrow::Cow;
use std::error::Error;

/// Longest message of a failure, in characters.
pub const MAX_MESSAGE_CHARS: usize = 2000;

/// Text of at most the given number of characters on one line, without the passwords of URLs. What a terminal or a
/// reader of lines would act on is escaped as in Rust literals. Longer text is cut and ends in `…`.
pub fn one_line(text: &str, max_chars: usize) -> Cow<'_, str> {
    match without_credentials(text) {
        Cow::Borrowed(text) => escaped(text, max_chars, acts),
        Cow::Owned(text) => Cow::Owned(escaped(&text, max_chars, acts).into_owned()),
    }
}

/// Text of any length with its line breaks and tabs. Everything else that a terminal would act on is escaped as in Rust
/// literals.
pub fn multi_line(text: &str) -> Cow<'_, str> {
    escaped(text, usize::MAX, |character| acts(character) && !matches!(character, '\n' | '\t'))
}

/// A message of at most so many characters on its first line, as [`one_line`], and the lines of a traceback behind it,
/// as [`multi_line`].
pub fn with_traceback(text: &str, max_chars: usize, max_traceback_chars: usize) -> String {
    let (line, traceback) = text.split_once('\n').unwrap_or((text, ""));
    let line = one_line(line, max_chars);
    if traceback.is_empty() {
        return line.into_owned();
    }
    let cut: String = traceback.chars().take(max_traceback_chars).collect();
    format!("{line}\n{}", without_credentials(&multi_line(&cut)))
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

/// An error with its causes, without the passwords of URLs. A cause that an error repeats in its own words stands once.
pub fn with_causes(error: &(dyn Error + 'static)) -> String {
    let causes = std::iter::successors(error.source(), |&cause| cause.source()).map(ToString::to_string);
    let text = causes.fold(
        error.to_string(),
        |text, cause| {
            if text.ends_with(&cause) { text } else { format!("{text}: {cause}") }
        },
    );
    without_credentials(&text).into_owned()
}

fn escaped(text: &str, max_chars: usize, acts: impl Fn(char) -> bool) -> Cow<'_, str> {
    let cut = text.char_indices().nth(max_chars).map(|(end, _)| end);
    if cut.is_none() && !text.contains(&acts) {
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

/// Whether a terminal or a reader of lines would interpret a character instead of showing it: control characters, line
/// ends, marks of direction, and what takes no room and so hides in a text.
fn acts(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{ad}'
                | '\u{61c}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{words}")]
    struct Failure {
        words: &'static str,
        source: std::io::Error,
    }

    #[test]
    fn a_cause_that_an_error_has_in_its_own_words_is_not_repeated() {
        for (words, said) in
            [("show: run: no such file", "show: run: no such file"), ("show", "show: no such file of http://***@host")]
        {
            let cause = if words == "show" { "no such file of http://me:secret@host" } else { "no such file" };
            assert_eq!(with_causes(&Failure { words, source: std::io::Error::other(cause) }), said);
        }
    }

    #[test]
    fn plain_text_of_any_script_stays_as_it_is() {
        let scripts = [
            "",
            "run-7",
            "a \\n b",
            "größer",
            "答え 所以",
            "한국어",
            "ответ",
            "απάντηση",
            "תשובה",
            "جواب",
            "उत्तर",
            "คำตอบ",
            "პასუხი",
            "පිළිතුර",
            "√2 = 1,4…",
            "e\u{301}",
            "\u{1f600}\u{1f3fd}",
            "☃\u{fe0f}",
        ];
        for text in scripts {
            assert!(matches!(one_line(text, 100), Cow::Borrowed(same) if same == text), "{text}");
            assert!(matches!(multi_line(text), Cow::Borrowed(same) if same == text), "{text}");
        }
    }

    #[test]
    fn nothing_that_a_terminal_acts_on_is_left() {
        assert_eq!(
            one_line("a\nINFO b\r\t\x1b[31m\x07\u{9b}0m\0\x7f", 100),
            r"a\nINFO b\r\t\u{1b}[31m\u{7}\u{9b}0m\0\u{7f}"
        );
        assert_eq!(one_line("a\u{2028}b\u{202e}c", 100), r"a\u{2028}b\u{202e}c");
        assert_eq!(multi_line("a\u{1b}[2Jb\r\n\tc\u{9b}31m"), "a\\u{1b}[2Jb\\r\n\tc\\u{9b}31m");
    }

    #[test]
    fn a_traceback_keeps_its_lines_and_both_parts_are_bounded() {
        assert_eq!(with_traceback("KeyError: 'a\u{7}'", 100, 100), r"KeyError: 'a\u{7}'");
        let traceback = "Traceback:\n  File \"r.py\"\u{1b}[31m";
        let text = format!("{}\n{traceback}", "x".repeat(20));
        let shown = with_traceback(&text, 10, 100);
        assert_eq!(shown, format!("{}…\nTraceback:\n  File \"r.py\"\\u{{1b}}[31m", "x".repeat(10)));
        assert_eq!(with_traceback(&text, 10, 12).lines().count(), 3);
    }

    #[test]
    fn no_character_reorders_or_hides_text() {
        let marks = "\u{ad}\u{61c}\u{180e}\u{200b}\u{200e}\u{200f}\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}\u{2060}\u{2066}\u{2067}\
                     \u{2068}\u{2069}\u{206f}\u{feff}\u{fff9}\u{e0001}\u{e0041}\u{85}";
        for mark in marks.chars() {
            let text = format!("a{mark}b");
            let expected = format!("a{}b", mark.escape_unicode());
            assert_eq!(
                (one_line(&text, 100).into_owned(), multi_line(&text).into_owned()),
                (expected.clone(), expected)
            );
        }
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
            assert_eq!(one_line(text, 100), expected);
        }
        assert_eq!(one_line("http://a:s3cret@host", 12), "http://***@h…", "before it is cut");
    }

    #[test]
    fn long_text_is_cut_between_characters() {
        assert_eq!(one_line(&"ä".repeat(1_000_000), 3), "äää…");
        assert_eq!(one_line("äää", 3), "äää");
    }
}
