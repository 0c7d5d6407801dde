//! The last balanced `\boxed{}` or `\fbox{}`, with the boxes adjacent to it.

mod adjacent;
mod hidden;

use std::ops::Range;

use memchr::{memmem, memrchr3_iter};

use super::{Allowed, Extracted, NoAnswer, before, beside, number};
use crate::slicing::SafeSlice;
use adjacent::{adjacent_before, adjacent_before_name, is_alternative};

/// Commands that draw a box.
const COMMANDS: [&str; 4] = ["\\boxed", "\\fbox", "\\framebox", "\\bbox"];

/// The tokens between which GLM puts its answer.
const TOKENS: (&str, &str) = ("<|begin_of_box|>", "<|end_of_box|>");

/// Adjacent boxes that are joined into one list.
pub(super) const MAX_ADJACENT: usize = 256;

/// Braces that may be open at once during the search. Beyond this the outermost half is dropped to bound memory; no
/// real answer is nested that deeply.
const MAX_OPEN: usize = 1 << 16;

/// A box in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Span {
    /// Start of its command.
    start: usize,
    /// Range of the content, without braces.
    inner: Range<usize>,
}

impl Span {
    /// End of the box, with the closing brace or token if it has one.
    fn end(&self, text: &str) -> usize {
        let rest = text.suffix_from(self.inner.end);
        let opener = text.slice(self.start..self.inner.start);
        let closer = match () {
            () if opener.ends_with('{') => "}",
            () if opener == TOKENS.0 => TOKENS.1,
            () => "",
        };
        self.inner.end + if rest.starts_with(closer) { closer.len() } else { 0 }
    }
}

/// The content of the last box, or of the adjacent boxes that end with it. `None` if there is no box.
pub(super) fn last(text: &str) -> Result<Option<Extracted<'_>>, NoAnswer> {
    Ok(found(text)?.map(|(content, _)| content))
}

/// As [`last`], where the words before the box do not deny it, it is no part of a larger formula, and its digits are in
/// no other base than is allowed.
pub(super) fn asserted<'t>(text: &'t str, allowed: &Allowed<'_>) -> Result<Option<Extracted<'t>>, NoAnswer> {
    let Some((content, whole)) = found(text)? else { return Ok(None) };
    let is_other = hidden::is_unseen(text, &whole)
        || matches!(content, Extracted::Several { .. }) && adjacent::names_descend(text, whole.clone())
        || beside::is_part(text, whole.clone(), allowed.in_percent)
        || before::is_other_box(text, whole, &content, allowed);
    if is_other { Err(NoAnswer::NotUnderstood) } else { Ok(Some(content)) }
}

/// The content of the last box or of the adjacent boxes that end with it, and the range from the first of them to the end
/// of the last.
fn found(text: &str) -> Result<Option<(Extracted<'_>, Range<usize>)>, NoAnswer> {
    let Some(span) = last_span(text) else { return Ok(None) };
    let content = |span: &Span| text.slice(span.inner.clone());
    let neighbour_before = |start| adjacent_before(text, start).or_else(|| adjacent_before_name(text, start));
    let mut start = span.start;
    let mut spans = Vec::new();
    let mut alternatives = false;
    while let Some(neighbour) = neighbour_before(start) {
        if spans.is_empty() {
            spans.push(span.clone());
        }
        if spans.len() == MAX_ADJACENT {
            return Err(NoAnswer::TooManyBoxes);
        }
        alternatives |= is_alternative(text.slice(neighbour.end(text)..start));
        start = neighbour.start;
        spans.push(neighbour);
    }
    let check = |content: &str| if content.trim().is_empty() { Err(NoAnswer::EmptyBox) } else { Ok(()) };
    if spans.is_empty() {
        // A single box, as in nearly all texts.
        let content = content(&span);
        check(content)?;
        return Ok(Some((Extracted::One(content), start..span.end(text))));
    }
    let whole = start..span.end(text);
    let contents: Vec<&str> = spans.iter().rev().map(content).collect();
    // Two equal boxes are one answer stated twice.
    if let [first, others @ ..] = contents.as_slice()
        && others.iter().all(|content| content.trim() == first.trim())
    {
        check(first)?;
        return Ok(Some((Extracted::One(first), whole)));
    }
    Ok(Some((Extracted::Several { answers: contents, alternatives }, whole)))
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
    let (command, token) = match (last_command(text), last_token(text)) {
        (Some(command), Some(token)) => (command, token),
        (command, token) => return command.or(token),
    };
    let (first, second) = if command.start < token.start { (command, token) } else { (token, command) };
    Some(if second.start < first.inner.end { first } else { second })
}

/// The last box between tokens.
fn last_token(text: &str) -> Option<Span> {
    let end = memmem::rfind(text.as_bytes(), TOKENS.1.as_bytes())?;
    let start = memmem::rfind(text.prefix_to(end).as_bytes(), TOKENS.0.as_bytes())?;
    Some(Span { start, inner: start + TOKENS.0.len()..end })
}

/// The last closed box of a command.
fn last_command(text: &str) -> Option<Span> {
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

/// Start of the box command before the brace at `at`. `None` if it is not a box command.
fn command_before(text: &str, at: usize) -> Option<usize> {
    // Nearly every brace belongs to something else, which the preceding byte shows.
    let neighbour = *text.prefix_to(at).as_bytes().last()?;
    if neighbour == b']' {
        return before_options(text.prefix_to(at));
    }
    if neighbour.is_ascii_graphic() && !matches!(neighbour, b'd' | b'x') {
        return None;
    }
    let before = text.prefix_to(at).trim_end();
    COMMANDS.iter().find_map(|command| before.strip_suffix(command)).map(str::len)
}

/// Start of `\bbox[5px,border:2px solid black]` at the end of a text.
fn before_options(text: &str) -> Option<usize> {
    const MAX_OPTIONS: usize = 120;
    let near = text.suffix_from(text.ceil_char_boundary(text.len().saturating_sub(MAX_OPTIONS)));
    let (before, _) = near.rsplit_once('[')?;
    Some(text.len() - near.len() + before.strip_suffix("\\bbox")?.len())
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
            Ok(Some(Extracted::Several { answers, .. })) => answers,
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
