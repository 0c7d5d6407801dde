//! Another value beside a box, outside of it: `\boxed{2}, 3`, `x = 3 or x = \boxed{2}`, `(0, \boxed{2})`.

use crate::slicing::SafeSlice;

/// What may stand between two values of a list, beside separators.
const DELIMITERS: [&str; 12] = ["\\(", "\\)", "\\[", "\\]", "\\,", "\\;", "\\ ", "$", "*", "\\quad", "\\qquad", "~"];
/// Separators of values.
const SEPARATORS: [&str; 12] =
    [",", ";", "\\text{ and }", "\\text{ or }", "\\land", "\\lor", "as well as", "and also", "and", "or", "also", "&"];
/// Commands that a value begins with.
const VALUES: [&str; 6] = ["\\frac", "\\dfrac", "\\tfrac", "\\sqrt", "\\pi", "\\binom"];
/// Names of commands whose last argument may end a value.
const COMMANDS: [&str; 4] = ["frac", "dfrac", "tfrac", "sqrt"];
/// Signs that make a formula a statement, and no value.
const RELATIONS: [&str; 16] = [
    "=", "<", ">", "\\le", "\\ge", "\\ne", "\\in", "\\equiv", "\\approx", "\\sim", "\\mid", "≤", "≥", "≠", "≈",
    "\\pmod",
];

/// Whether a value stands beside a box, `whole`, as another item of its list.
pub(super) fn has_another(before: &str, whole: &str, after: &str, in_formula: bool) -> bool {
    let name = name_before(before).map(|(_, name)| name);
    follows(name, whole, after) || precedes(before, in_formula)
}

/// The text before `x =` at the end of a text, and the name.
pub(in crate::extract) fn name_before(text: &str) -> Option<(&str, &str)> {
    let rest = text.trim_end_matches([' ', '$']).strip_suffix('=')?.trim_end();
    let start =
        rest.trim_end_matches(|c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '\\' | '{' | '}' | '\''));
    let name = rest.suffix_from(start.len());
    (!name.is_empty()).then_some((start, name))
}

/// The name and the value of `x = 3` at the start of a text.
fn name_after(text: &str) -> Option<(&str, &str)> {
    let rest =
        text.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '\\' | '{' | '}' | '\''));
    let name = text.prefix_to(text.len() - rest.len());
    let value = rest.trim_start().strip_prefix('=')?;
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '\\').then(|| (name, value.trim_start()))
}

/// Whether a separator and another value follow: `, 3`, ` or $x = 3$`. A value of another name than the box's is none.
pub(super) fn follows(name: Option<&str>, whole: &str, after: &str) -> bool {
    let mut rest = after;
    let (mut separated, mut delimiters) = (false, 0);
    loop {
        rest = rest.trim_start();
        if let Some(next) = SEPARATORS.iter().find_map(|mark| strip_word(rest, mark)) {
            (rest, separated) = (next, true);
        } else if let Some(next) = DELIMITERS.iter().find_map(|mark| rest.strip_prefix(mark)) {
            delimiters += usize::from(rest.starts_with(['$', '\\']));
            rest = next;
        } else {
            break;
        }
    }
    // The end of one formula and the start of the next.
    let in_formula = after.prefix_to(after.len() - rest.len()).trim_end().ends_with(['$', '(', '[']);
    if !separated && (delimiters < 2 || !in_formula) {
        return false;
    }
    let value = match (name_after(rest), name) {
        (Some((other, value)), Some(name)) if other == name => value,
        (Some(_), _) => return false,
        (None, _) => rest,
    };
    is_value(value, in_formula || after.starts_with(['\\', ',']) && value.starts_with('\\'))
        && !whole.contains(value_of(value))
}

/// The text after a separator, which as a word ends there.
fn strip_word<'t>(text: &'t str, mark: &str) -> Option<&'t str> {
    let rest = text.strip_prefix(mark)?;
    let is_word = mark.ends_with(|c: char| c.is_ascii_alphabetic());
    (!is_word || !rest.starts_with(char::is_alphanumeric)).then_some(rest)
}

/// The value at the start of a text, as far as it is of one piece.
fn value_of(text: &str) -> &str {
    let end = text.find([' ', '$', ',', ';']).unwrap_or(text.len());
    text.prefix_to(end).trim_end_matches(['.', ')', '\\'])
}

/// Whether a text begins with a value that is no statement, and no number of something: `3`, `\frac13`, `-3`.
fn is_value(text: &str, in_formula: bool) -> bool {
    let unsigned = text.strip_prefix(['-', '\u{2212}']).map_or(text, str::trim_start);
    let is_number = unsigned.starts_with(|c: char| c.is_ascii_digit());
    if !is_number && !VALUES.iter().any(|value| unsigned.starts_with(value)) {
        return false;
    }
    if in_formula {
        let end = ["$", "\\)", "\\]"].iter().filter_map(|mark| unsigned.find(mark)).min().unwrap_or(unsigned.len());
        return !RELATIONS.iter().any(|sign| unsigned.prefix_to(end).contains(sign));
    }
    let rest = unsigned.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | '/'));
    let is_ended = unsigned.prefix_to(unsigned.len() - rest.len()).ends_with('.');
    let rest = rest.trim_start();
    is_ended
        || rest.is_empty()
        || rest.starts_with(['.', ',', ';', ')', '}', ']', '$', '?', '!', '\\'])
        || strip_word(rest, "and").is_some()
        || strip_word(rest, "or").is_some()
}

/// Whether a value and a separator precede: `3 or`, `x = 3 or x =`, `(0, ` in a formula.
pub(super) fn precedes(before: &str, in_formula: bool) -> bool {
    let (rest, name) = name_before(before).map_or((before, None), |(rest, name)| (rest, Some(name)));
    let mut rest = rest;
    let (mut separator, mut separators) = (None, 0);
    loop {
        rest = rest.trim_end();
        let found = SEPARATORS.iter().find_map(|mark| {
            let next = rest.strip_suffix(mark)?;
            let is_word = mark.ends_with(|c: char| c.is_ascii_alphabetic());
            (!is_word || !next.ends_with(char::is_alphanumeric)).then_some((next, *mark))
        });
        if let Some((next, mark)) = found {
            (rest, separator) = (next, separator.or(Some(mark)));
            separators += 1;
        } else if let Some(next) = DELIMITERS.iter().find_map(|mark| rest.strip_suffix(mark)) {
            rest = next;
        } else {
            break;
        }
    }
    let Some(separator) = separator else { return false };
    // `AB = \\frac54 = 1\\frac14, or 1.25` is one value twice.
    if separators > 1 && name.is_none() && rest.contains('=') {
        return false;
    }
    if separator == "also" {
        return false;
    }
    let is_comma = matches!(separator, "," | ";" | "&");
    let start = rest.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | '/' | '-'));
    let value = rest.suffix_from(start.len());
    let is_number =
        value.contains(|c: char| c.is_ascii_digit()) && !start.ends_with(|c: char| c.is_alphabetic() || c == '^');
    // `\frac{4}{11}`, `\frac4{11}`
    let last = rest.rfind('\\').map(|at| (rest.prefix_to(at), rest.suffix_from(at + 1)));
    let is_short = |command: &str| {
        let argument = COMMANDS.iter().find_map(|name| command.strip_prefix(name));
        argument.is_some_and(|argument| argument.starts_with(|c: char| c.is_ascii_digit()))
    };
    let is_command = last.is_some_and(|(_, command)| is_short(command))
        || super::left::owner(rest).is_some_and(|name| COMMANDS.contains(&name));
    if !(is_number || is_command && rest.ends_with('}')) || is_in_statement(start) {
        return false;
    }
    let start = match last {
        Some((before, _)) if is_command => before.trim_end().trim_end_matches('-'),
        _ => start,
    };
    let other = name_before(start).map(|(_, other)| other);
    match (other, name) {
        (Some(other), Some(name)) => other == name,
        // Between sentences a comma separates more than values, and `Adding 3 and` goes on with prose.
        (None, None) => {
            // `$3, `, but not `$3$, $`
            let is_within = || super::left::formula(before).is_some_and(|formula| !formula.trim().is_empty());
            let unsigned = start.trim_end().strip_suffix("\\pm").unwrap_or(start).trim_end();
            let opens = || ["$", "\\(", "\\["].iter().any(|mark| unsigned.ends_with(mark));
            (!is_comma || in_formula)
                && (separator.contains("or") || begins_list(start) || is_comma && opens() && is_within())
        }
        (Some(_), None) => separator.contains("or"),
        (None, Some(_)) => false,
    }
}

/// Whether a list of values may begin after a text: at the start of a line or a bracket, or after a copula.
fn begins_list(start: &str) -> bool {
    let start = start.trim_end();
    let mut rest = start.strip_suffix("\\pm").unwrap_or(start).trim_end();
    while let Some(next) = DELIMITERS.iter().find_map(|mark| rest.strip_suffix(mark)) {
        rest = next.trim_end();
    }
    let word = rest.suffix_from(rest.trim_end_matches(char::is_alphabetic).len());
    rest.is_empty()
        || rest.ends_with(['(', '{', '[', ':', '=', '.', ',', ';'])
        || matches!(word, "is" | "are" | "be" | "was" | "were")
}

/// Whether a sign or command before a value makes it a part of a statement: `x \le 7`.
fn is_in_statement(start: &str) -> bool {
    let start = start.trim_end();
    let letters = start.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let is_command = letters.ends_with('\\') && letters.len() < start.len();
    is_command && !start.ends_with("\\pm")
        || start.ends_with(['<', '>', '+', '-', '*', '/', '≤', '≥', '≠', '^', '_', '|', ':'])
}
