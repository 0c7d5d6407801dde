//! Formulas at either end of a text, between their delimiters.

use crate::slicing::SafeSlice;

/// Delimiters, longest first, and whether the formula may span lines.
const DELIMITERS: [(&str, &str, bool); 4] =
    [("$$", "$$", true), ("\\[", "\\]", true), ("\\(", "\\)", true), ("$", "$", false)];

/// A formula between delimiters, and what follows it.
pub(super) struct Formula<'a> {
    /// The text between the delimiters.
    pub(super) inner: &'a str,
    /// The text after them.
    pub(super) rest: &'a str,
}

/// The formula at the start of the text. `None` if there is none, or if it is not closed.
pub(super) fn formula_at_start(text: &str) -> Option<Formula<'_>> {
    let opened = |delimiter: &'static (&str, &str, bool)| Some((delimiter, text.strip_prefix(delimiter.0)?));
    let ((_, closer, lines), body) = DELIMITERS.iter().find_map(opened)?;
    let scope = if *lines { body } else { body.lines().next().unwrap_or_default() };
    let end = scope.find(closer)?;
    // `$10,200 + $255`: the dollars are money.
    if *closer == "$" && body.prefix_to(end).trim_end().ends_with(['+', '-', '=', '*', '/']) {
        return None;
    }
    Some(Formula { inner: body.prefix_to(end), rest: body.suffix_from(end + closer.len()) })
}

/// How a text ends.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TextEnd<'a> {
    /// The text ends with a complete formula.
    Formula(&'a str),
    /// The text ends with a closing delimiter that has no opening one, such as one on a line of its own.
    Broken,
    /// The text ends with anything else.
    Other,
}

/// The formula at the end of the text, ignoring punctuation.
pub(super) fn text_end(text: &str) -> TextEnd<'_> {
    let ended = |(opener, closer, _): &(&'static str, &str, bool)| Some((*opener, text.strip_suffix(closer)?));
    let Some((opener, body)) = DELIMITERS.iter().find_map(ended) else { return TextEnd::Other };
    let Some((_, formula)) = body.rsplit_once(opener) else { return TextEnd::Other };
    // Within a line, a formula does not cross the line.
    let is_inline = matches!(opener, "$" | "\\(");
    if is_inline && formula.contains('\n') { TextEnd::Broken } else { TextEnd::Formula(formula) }
}

/// The formula between single dollars or `\\(` and `\\)` around a position of a line.
pub(super) fn formula_around(text: &str, at: usize) -> Option<&str> {
    let before = text.prefix_to(at);
    let before = before.rsplit_once('\n').map_or(before, |(_, line)| line);
    let after = text.suffix_from(at);
    let after = after.split_once('\n').map_or(after, |(line, _)| line);
    let line = text.slice(at - before.len()..at + after.len());
    for (opener, closer) in [("$", "$"), ("\\(", "\\)")] {
        let start = match before.rfind(opener) {
            // After an even number of dollars every formula is closed.
            Some(start) if opener == "$" && before.matches('$').count() % 2 == 1 => start + 1,
            Some(start) if opener != "$" && before.rfind(closer).is_none_or(|end| end < start) => start + 2,
            _ => continue,
        };
        if let Some(end) = after.find(closer) {
            return Some(line.slice(start..before.len() + end));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_formula_is_found_at_either_end() {
        let inner = |text| formula_at_start(text).map(|formula| formula.inner);
        assert_eq!(inner("$13$ apples"), Some("13"));
        assert_eq!(inner("\\[\n9\n\\] done"), Some("\n9\n"));
        assert_eq!(inner("$5 and\n$6"), None);
        assert_eq!(text_end("it is $$ 9 $$"), TextEnd::Formula(" 9 "));
        assert_eq!(text_end("it is \\(x\\)"), TextEnd::Formula("x"));
        assert_eq!(text_end("it is $ \n 9 \n $"), TextEnd::Broken);
        assert_eq!(text_end("it is 9"), TextEnd::Other);
        assert_eq!(formula_around("so $x \\ge 5$ it is", 9), Some("x \\ge 5"));
        assert_eq!(formula_around("so $x$ is 5 $", 10), None);
    }
}
