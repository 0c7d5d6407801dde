//! Strings as Python sees them: its white space, its lines, and indices in characters.

/// Python's white space: Unicode's, and the four separators of ASCII.
pub(super) fn is_space(character: char) -> bool {
    character.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&character)
}

/// Which ends of a string.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Both,
    Left,
    Right,
}

/// `strip`, `lstrip` and `rstrip`: of `characters`, or of white space.
pub(super) fn strip_side<'a>(text: &'a str, side: Side, characters: Option<&str>) -> &'a str {
    let strips = |character: char| match characters {
        Some(characters) => characters.contains(character),
        None => is_space(character),
    };
    match side {
        Side::Both => text.trim_matches(strips),
        Side::Left => text.trim_start_matches(strips),
        Side::Right => text.trim_end_matches(strips),
    }
}

/// The text without white space around it.
pub(crate) fn strip(text: &str) -> &str {
    strip_side(text, Side::Both, None)
}

/// The text without trailing white space.
pub(crate) fn strip_end(text: &str) -> &str {
    strip_side(text, Side::Right, None)
}

/// `split` and `rsplit`, at a separator or at runs of white space, at most `limit` times where it is not negative.
pub(super) fn split<'a>(text: &'a str, separator: Option<&str>, limit: i64, from_right: bool) -> Vec<&'a str> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut parts: Vec<&str> = match (separator, from_right) {
        (Some(separator), false) => text.splitn(limit.saturating_add(1), separator).collect(),
        (Some(separator), true) => text.rsplitn(limit.saturating_add(1), separator).collect(),
        (None, _) => split_space(text, limit, from_right),
    };
    if from_right {
        parts.reverse();
    }
    parts
}

/// Words from one end, in the order in which they are met. What is left when the limit is reached keeps its white space
/// at the far end.
fn split_space(text: &str, limit: usize, from_right: bool) -> Vec<&str> {
    let near = if from_right { Side::Right } else { Side::Left };
    let mut parts = Vec::new();
    let mut rest = strip_side(text, near, None);
    while !rest.is_empty() {
        let space = if from_right { rest.rfind(is_space) } else { rest.find(is_space) };
        let Some(space) = space.filter(|_| parts.len() < limit) else {
            parts.push(rest);
            break;
        };
        let (before, after) = rest.split_at(space);
        let (word, left) = if from_right { (after.trim_start_matches(is_space), before) } else { (before, after) };
        parts.push(word);
        rest = strip_side(left, near, None);
    }
    parts
}

/// `splitlines`: at all line ends that Python knows.
pub(super) fn split_lines(text: &str, keep_ends: bool) -> Vec<&str> {
    let is_end = |character| {
        matches!(character, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}')
    };
    let mut lines = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(is_end) {
        let tail = &rest[at..];
        let width = if tail.starts_with("\r\n") { 2 } else { tail.chars().next().map_or(1, char::len_utf8) };
        lines.push(&rest[..if keep_ends { at + width } else { at }]);
        rest = &rest[at + width..];
    }
    if !rest.is_empty() {
        lines.push(rest);
    }
    lines
}

/// The part between two indices in characters, which count from the end where they are negative; with the index at
/// which it begins. None if the start is after the end.
pub(super) fn between(text: &str, start: Option<i64>, end: Option<i64>) -> Option<(&str, usize)> {
    let count = text.chars().count();
    let index = |index: i64| {
        let from_end = usize::try_from(index.unsigned_abs()).unwrap_or(usize::MAX);
        if index < 0 { count.saturating_sub(from_end) } else { from_end }
    };
    let start = start.map_or(0, index);
    let end = end.map_or(count, index).min(count);
    if start > end {
        return None;
    }
    let byte = |index: usize| text.char_indices().nth(index).map_or(text.len(), |(byte, _)| byte);
    Some((&text[byte(start)..byte(end)], start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_is_pythons() {
        assert_eq!(strip(" \u{1c}\u{1f}\u{a0}\u{3000}\u{85}x\u{200b}\n"), "x\u{200b}");
        assert_eq!(strip_side("xxaxx", Side::Left, Some("x")), "axx");
        assert_eq!(strip_side("", Side::Right, Some("")), "");
    }

    #[test]
    fn words_and_parts_are_split_as_in_python() {
        let none: [&str; 0] = [];
        assert_eq!(split("  a  b c ", None, -1, false), ["a", "b", "c"]);
        assert_eq!(split("  a  b c ", None, 1, false), ["a", "b c "]);
        assert_eq!(split("  a  b c ", None, 1, true), ["  a  b", "c"]);
        assert_eq!(split("  a ", None, 0, false), ["a "]);
        assert_eq!(split("  a ", None, 0, true), ["  a"]);
        assert_eq!(split(" \n ", None, -1, false), none);
        assert_eq!(split("a,b,,c", Some(","), -1, false), ["a", "b", "", "c"]);
        assert_eq!(split("a,b,c", Some(","), 1, false), ["a", "b,c"]);
        assert_eq!(split("a,b,c", Some(","), 1, true), ["a,b", "c"]);
        assert_eq!(split("", Some(","), -1, false), [""]);
    }

    #[test]
    fn lines_end_where_pythons_do() {
        assert_eq!(split_lines("a\r\nb\rc\u{2028}d\u{b}\n", false), ["a", "b", "c", "d", ""]);
        assert_eq!(split_lines("a\r\nb", true), ["a\r\n", "b"]);
    }

    #[test]
    fn indices_are_characters_and_may_be_negative() {
        assert_eq!(between("äbc", Some(1), None), Some(("bc", 1)));
        assert_eq!(between("äbc", Some(-2), Some(-1)), Some(("b", 1)));
        assert_eq!(between("äbc", Some(-9), Some(9)), Some(("äbc", 0)));
        assert_eq!(between("äbc", Some(3), Some(3)), Some(("", 3)));
        assert_eq!(between("äbc", Some(4), None), None);
    }
}
