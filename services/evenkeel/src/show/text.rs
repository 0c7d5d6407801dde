//! Text that a model wrote, made safe for a terminal.

/// The text with everything escaped that moves the cursor, changes colours, or reorders or hides what follows; line breaks and tabs stay.
pub(crate) fn escaped(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' | '\t' => shown.push(character),
            character if character.is_control() || is_invisible(character) => shown.extend(character.escape_unicode()),
            character => shown.push(character),
        }
    }
    shown
}

/// Marks of direction, separators and tags that a terminal shows as nothing.
fn is_invisible(character: char) -> bool {
    matches!(
        character,
        '\u{200b}'..='\u{200f}'
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

    #[test]
    fn what_a_terminal_would_obey_is_shown_instead() {
        assert_eq!(escaped("a\u{1b}[2Jb\r\u{7}"), "a\\u{1b}[2Jb\\u{d}\\u{7}");
        assert_eq!(escaped("\u{9b}31m\u{202e}x"), "\\u{9b}31m\\u{202e}x");
        assert_eq!(escaped("√2 = \t1,4…\n所以"), "√2 = \t1,4…\n所以");
    }
}
