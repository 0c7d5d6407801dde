//! Boxes beside each other, which form one list.

use std::ops::Range;

use memchr::{memmem, memrchr2_iter};

use super::{COMMANDS, Span, command_before, is_escaped};
use crate::extract::beside;
use crate::slicing::SafeSlice;

/// Longest text before "and" between adjacent boxes: `\\text{ for part (a) and }`.
const MAX_CONJUNCTION_BYTES: usize = 40;

/// Longest name before a box: `y_2 = \\boxed{...}`.
const MAX_NAME_BYTES: usize = 24;

/// Whether what separates two boxes makes them alternatives.
pub(super) fn is_alternative(separators: &str) -> bool {
    separators.split(|c: char| !c.is_alphabetic()).any(|word| matches!(word, "or" | "lor"))
}

/// The box that precedes `start`, with nothing but separators between.
pub(super) fn adjacent_before(text: &str, start: usize) -> Option<Span> {
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
pub(super) fn adjacent_before_name(text: &str, start: usize) -> Option<Span> {
    let before = text.prefix_to(start).trim_end_matches([' ', '$', '\n']).strip_suffix('=')?.trim_end();
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

/// Whether boxes beside each other give values of names that do not ascend: `n = \boxed{1}, m = \boxed{2}`. Which of
/// them comes first is not known.
pub(super) fn names_descend(text: &str, whole: Range<usize>) -> bool {
    let name = |at: usize| beside::name_before(text.prefix_to(at)).map(|(_, name)| name.trim_start_matches('\\'));
    let starts =
        COMMANDS.iter().flat_map(|command| memmem::find_iter(text.slice(whole.clone()).as_bytes(), command.as_bytes()));
    let mut starts: Vec<usize> = starts.collect();
    starts.sort_unstable();
    let names: Vec<&str> = starts.into_iter().filter_map(|at| name(whole.start + at)).collect();
    !names.is_sorted()
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
