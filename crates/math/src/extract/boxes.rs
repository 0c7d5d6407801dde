//! The last balanced `\boxed{}` or `\fbox{}`, with the boxes adjacent to it.

use std::ops::Range;

use memchr::{memmem, memrchr2_iter, memrchr3_iter};

use super::{Extracted, NoAnswer, number};
use crate::slicing::SafeSlice;

/// Commands that draw a box.
const COMMANDS: [&str; 3] = ["\\boxed", "\\fbox", "\\framebox"];
/// Adjacent boxes that are joined into one list.
pub(super) const MAX_ADJACENT: usize = 256;
/// Longest text before "and" between adjacent boxes: `\\text{ for part (a) and }`.
const MAX_CONJUNCTION_BYTES: usize = 40;
/// Longest name before a box: `y_2 = \\boxed{...}`.
const MAX_NAME_BYTES: usize = 24;
/// Braces that may be open at once during the search. Beyond this the outermost half is dropped to bound memory; no
/// real answer is nested that deeply.
const MAX_OPEN: usize = 1 << 16;

/// A box in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Span {
    /// Start of its command.
    start: usize,
    /// Its content.
    inner: Range<usize>,
}

/// The content of the last box, or of the adjacent boxes that end with it. `None` if there is no box.
pub(super) fn last(text: &str) -> Result<Option<Extracted<'_>>, NoAnswer> {
    let Some(span) = last_span(text) else { return Ok(None) };
    let content = |span: &Span| text.slice(span.inner.clone());
    let before = |start| adjacent_before(text, start).or_else(|| adjacent_before_name(text, start));
    let mut start = span.start;
    let mut spans = Vec::new();
    while let Some(neighbour) = before(start) {
        if spans.is_empty() {
            spans.push(span.clone());
        }
        if spans.len() == MAX_ADJACENT {
            return Err(NoAnswer::TooManyBoxes);
        }
        start = neighbour.start;
        spans.push(neighbour);
    }
    if spans.is_empty() {
        // A single box, as in nearly all texts.
        let content = content(&span);
        return if content.trim().is_empty() { Err(NoAnswer::EmptyBox) } else { Ok(Some(Extracted::One(content))) };
    }
    let contents: Vec<&str> = spans.iter().rev().map(content).collect();
    // The same box twice is one answer stated twice.
    if let [first, others @ ..] = contents.as_slice()
        && others.iter().all(|content| content.trim() == first.trim())
    {
        return if first.trim().is_empty() { Err(NoAnswer::EmptyBox) } else { Ok(Some(Extracted::One(first))) };
    }
    Ok(Some(Extracted::Several(contents)))
}

/// The content of the last box of one line. `None` if it has none.
pub(super) fn last_in(line: &str) -> Option<&str> {
    last_span(line).map(|span| line.slice(span.inner))
}

/// The content of an unclosed box at the start of a text.
pub(super) fn unclosed(text: &str) -> Option<&str> {
    let text = text.trim_start().trim_start_matches('\\');
    COMMANDS
        .iter()
        .find_map(|command| text.strip_prefix(command.trim_start_matches('\\'))?.trim_start().strip_prefix('{'))
}

/// The last closed box; of nested boxes the outermost.
fn last_span(text: &str) -> Option<Span> {
    let bytes = text.as_bytes();
    // Rejects most texts without an answer at once.
    let first = COMMANDS.iter().filter_map(|command| memmem::find(bytes, command.as_bytes())).min()?;
    // Closing braces whose partners have not been reached yet, outermost first.
    let mut open: Vec<usize> = Vec::new();
    let mut found: Option<Span> = None;
    // Braces around the box that was found: only these can belong to an enclosing box.
    let mut around = usize::MAX;
    for at in memrchr3_iter(b'{', b'}', b'\\', bytes) {
        let span = match bytes.get(at) {
            Some(b'\\') => bare_box(text, at),
            _ if is_escaped(text, at) => None,
            Some(b'}') => {
                if open.len() == MAX_OPEN {
                    open.drain(..MAX_OPEN / 2);
                    around = around.saturating_sub(MAX_OPEN / 2);
                }
                open.push(at);
                None
            }
            _ => {
                open.pop().and_then(|close| command_before(text, at).map(|start| Span { start, inner: at + 1..close }))
            }
        };
        if let Some(span) = span
            && open.len() < around
        {
            found = Some(span);
            around = open.len();
        }
        if at <= first || (found.is_some() && open.is_empty()) {
            break;
        }
    }
    found
}

/// The box that precedes `start`, with nothing but separators between.
fn adjacent_before(text: &str, start: usize) -> Option<Span> {
    let boxes = strip_separators(text.prefix_to(start));
    let close = boxes.strip_suffix('}')?.len();
    if is_escaped(text, close) {
        return None;
    }
    let mut depth = 0_usize;
    for at in memrchr2_iter(b'{', b'}', boxes.as_bytes()) {
        if is_escaped(text, at) {
            continue;
        }
        if text.suffix_from(at).starts_with('}') {
            depth += 1;
            continue;
        }
        depth = depth.checked_sub(1)?;
        if depth == 0 {
            return command_before(text, at).map(|start| Span { start, inner: at + 1..close });
        }
    }
    None
}

/// The adjacent box before a name: `\\boxed{1} and y = \\boxed{2}`.
fn adjacent_before_name(text: &str, start: usize) -> Option<Span> {
    let before = text.prefix_to(start).trim_end().strip_suffix('=')?.trim_end();
    let is_of_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '{' | '}');
    // Names longer than this are not looked for.
    let rest = before.trim_end_matches(is_of_name);
    let name = before.suffix_from(rest.len());
    if rest.is_empty() || name.len() >= MAX_NAME_BYTES {
        return None;
    }
    // A name is a letter with a subscript, separated from the preceding box.
    let is_name = name.chars().next().is_some_and(char::is_alphabetic) && name.chars().nth(1).is_none_or(|c| c == '_');
    if !is_name || strip_separators(rest).len() == rest.trim_end().len() {
        return None;
    }
    adjacent_before(text, rest.len())
}

/// The text without a separator between adjacent boxes at its end.
fn strip_separators(mut text: &str) -> &str {
    loop {
        let trimmed = text.trim_end();
        let stripped =
            [",", ";", "=", "\\neq", "\\ne", "$", "\\[", "\\]", "\\(", "\\)", "\\quad", "\\qquad", "\\,", "\\;"]
                .iter()
                .find_map(|mark| trimmed.strip_suffix(mark));
        match stripped.or_else(|| strip_conjunction(trimmed)).or_else(|| strip_text_conjunction(trimmed)) {
            Some(rest) => text = rest,
            None => return trimmed,
        }
    }
}

/// The text without a final "and" or "or".
fn strip_conjunction(text: &str) -> Option<&str> {
    let rest = text.strip_suffix("and").or_else(|| text.strip_suffix("or"))?;
    (!rest.ends_with(|before: char| before.is_alphanumeric() || before == '\\')).then_some(rest)
}

/// The text without a final `\text{ and }` or `\text{ or }`.
fn strip_text_conjunction(text: &str) -> Option<&str> {
    let inner = strip_conjunction(text.strip_suffix('}')?.trim_end())?;
    let inner = inner.trim_end().trim_end_matches(',').trim_end();
    let begin = inner.ceil_char_boundary(inner.len().saturating_sub(MAX_CONJUNCTION_BYTES));
    let at = begin + inner.suffix_from(begin).rfind('{')?;
    let is_plain = !inner.suffix_from(at).contains(['}', '\\', '$']);
    let commands = ["\\text", "\\textrm", "\\mathrm", "\\mbox"];
    commands.iter().find_map(|command| inner.prefix_to(at).strip_suffix(command)).filter(|_| is_plain)
}

/// Start of the box command before the brace at `at`. `None` if it is not a box command.
fn command_before(text: &str, at: usize) -> Option<usize> {
    // Nearly every brace belongs to something else, which the preceding byte shows.
    let neighbour = *text.prefix_to(at).as_bytes().last()?;
    if neighbour.is_ascii_graphic() && !matches!(neighbour, b'd' | b'x') {
        return None;
    }
    let before = text.prefix_to(at).trim_end();
    COMMANDS.iter().find_map(|command| before.strip_suffix(command)).map(str::len)
}

/// `\boxed 5`: TeX would take one digit, but the writer means the number.
fn bare_box(text: &str, at: usize) -> Option<Span> {
    let rest = text.suffix_from(at);
    let argument = COMMANDS.iter().find_map(|command| rest.strip_prefix(command))?;
    let number = argument.trim_start_matches(' ');
    let begin = text.len() - number.len();
    Some(Span { start: at, inner: begin..begin + number::length(number)? })
}

/// Whether the byte at `at` is escaped, like the brace of `\}`.
fn is_escaped(text: &str, at: usize) -> bool {
    text.prefix_to(at).bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Option<&str> {
        match last(text) {
            Ok(Some(Extracted::One(answer))) => Some(answer),
            Ok(None) => None,
            other => panic!("{text} holds {other:?}"),
        }
    }

    fn several(text: &str) -> Vec<&str> {
        match last(text) {
            Ok(Some(Extracted::Several(answers))) => answers,
            other => panic!("{text} holds {other:?}"),
        }
    }

    #[test]
    fn the_last_balanced_box_is_the_answer() {
        assert_eq!(one(r"\boxed{1}, no: \boxed{\frac{1}{2}}."), Some(r"\frac{1}{2}"));
        assert_eq!(one(r"\fbox{7}"), Some("7"));
        assert_eq!(one("\\boxed \n {7}"), Some("7"));
        assert_eq!(one(r"first \boxed{1} and then \boxed{2 was cut"), Some("1"));
        assert_eq!(one(r"\boxed{\{1, 2\}}"), Some(r"\{1, 2\}"));
        assert_eq!(one(r"\boxed{1\\}"), Some(r"1\\"));
        assert_eq!(one(r"\framebox{1}"), Some("1"));
        assert_eq!(one(r"\boxed{3}} and a stray brace"), Some("3"));
        assert_eq!(one(r"\frac{\boxed{3}}{4}"), Some("3"));
    }

    #[test]
    fn a_box_around_a_box_is_the_whole_answer() {
        assert_eq!(one(r"\boxed{a + \boxed{3}}"), Some(r"a + \boxed{3}"));
        assert_eq!(one(r"\boxed{1} x \boxed{{\boxed{3}}}}"), Some(r"{\boxed{3}}"));
    }

    #[test]
    fn a_number_needs_no_braces() {
        assert_eq!(one(r"so \boxed 52."), Some("52"));
        assert_eq!(one(r"so \boxed-5$"), Some("-5"));
        assert_eq!(one(r"Mark it with \boxed .\n So \boxed{5}"), Some("5"));
        assert_eq!(one(r"Put it into \boxed and stop"), None);
    }

    #[test]
    fn neighbours_are_one_list() {
        assert_eq!(several(r"\boxed{3}, \boxed{5}, \boxed{7}"), ["3", "5", "7"]);
        assert_eq!(several("$\\boxed{1}$ and\n\\[\\boxed{2}\\]"), ["1", "2"]);
        assert_eq!(several(r"\boxed{1} \text{ or } \boxed{2}"), ["1", "2"]);
        assert_eq!(one(r"\boxed{1} band \boxed{2}"), Some("2"));
        assert_eq!(one(r"\boxed{1} turned out wrong, so \boxed{2}"), Some("2"));
        assert_eq!(one("\\boxed{4}\n\n\\boxed{ 4 }"), Some("4"));
    }

    #[test]
    fn an_empty_box_is_no_answer() {
        assert_eq!(last(r"put it in \boxed{}"), Err(NoAnswer::EmptyBox));
        assert_eq!(last(&r"\boxed{1}\boxed{2}".repeat(1000)), Err(NoAnswer::TooManyBoxes));
    }

    #[test]
    fn deep_nesting_does_not_grow_without_bound() {
        let text = format!("\\boxed{{3}}{}", "}".repeat(3 * MAX_OPEN));
        assert_eq!(one(&text), Some("3"));
    }
}
