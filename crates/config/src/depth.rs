//! How deep keys may be: settings come over the network too, and each level of a key is a frame of the stack when it is
//! read.

use crate::ConfigError;

/// Parts of a key, separated by dots, at most: twice those of the deepest setting.
pub(crate) const MAX_PARTS: usize = 16;
const ALLOWED: &str = "a key of at most 16 parts";

/// Refuses a key with too many parts.
pub(crate) fn check_parts(origin: &str, parts: usize) -> Result<(), ConfigError> {
    if parts > MAX_PARTS { Err(ConfigError::Malformed { origin: shortened(origin), allowed: ALLOWED }) } else { Ok(()) }
}

/// Refuses TOML with a key of too many parts, without reading it: its tables would be as deep.
pub(crate) fn check_toml(origin: &str, text: &str) -> Result<(), ConfigError> {
    check_parts(origin, longest_key(text))
}

/// The parts of the longest key, taken from the dots between two places where a key begins. Dots in texts and comments
/// do not count.
fn longest_key(text: &str) -> usize {
    let mut longest = 1;
    let mut parts = 1;
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '"' | '\'' => text_length(rest),
            '#' => rest.find('\n').unwrap_or(rest.len()),
            _ => first.len_utf8(),
        };
        match first {
            '.' => parts += 1,
            '=' | ',' | '\n' | '{' | '}' | '[' | ']' => parts = 1,
            _ => {}
        }
        longest = longest.max(parts);
        rest = &rest[length..];
    }
    longest
}

/// The length of the quoted text that begins here, with its quotes; all of the rest if it does not end.
fn text_length(text: &str) -> usize {
    let quote = &text[..1];
    let long = quote.repeat(3);
    let close = if text.starts_with(&long) { long.as_str() } else { quote };
    let mut at = close.len();
    while at < text.len() {
        let rest = &text[at..];
        if rest.starts_with(close) {
            return at + close.len();
        }
        let escaped = usize::from(quote == "\"" && rest.starts_with('\\'));
        at += rest.chars().take(1 + escaped).map(char::len_utf8).sum::<usize>();
    }
    text.len()
}

/// What a message shows of an origin, which may be as long as the key.
fn shortened(origin: &str) -> String {
    const SHOWN: usize = 80;
    match origin.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{}…", &origin[..at]),
        None => origin.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_keys_are_counted_wherever_keys_are() {
        for (text, parts) in [
            ("a = 1.5", 2),
            ("a.b.c = 1", 3),
            ("[a.b.\"c.d\".e]\nx = 1", 4),
            ("a = { b.c.d = 1, e = 2 }", 3),
            ("# a.b.c.d\na = \"x.y.z \\\" .q\" # t.u.v", 1),
            ("a = \"\"\"\n.x.y.z\"\n\"\"\"\nb.c=1", 2),
            ("'a'.'b' . c = 'd.e.f'", 3),
        ] {
            assert_eq!(longest_key(text), parts, "{text}");
        }
    }
}
