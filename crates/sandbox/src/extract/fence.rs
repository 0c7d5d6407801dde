//! Lines that open or close a block.

use super::tag::{self, Language};

/// Fewest marks of a fence.
const MIN_WIDTH: usize = 3;
/// Most digits of a number in a list.
const MAX_LIST_DIGITS: usize = 3;
/// A fence that closes a block of text may be indented by this many spaces more than the one that opens it, as in
/// `CommonMark`.
const MAX_INDENT: usize = 3;

/// What a line begins.
pub(super) enum Opening<'t> {
    /// A block that begins on the next line.
    Block(Fence, Language),
    /// A block that is this line.
    Line(Language, &'t str),
}

/// The fence that opened a block.
#[derive(Clone, Copy)]
pub(super) struct Fence {
    mark: u8,
    width: usize,
    /// Columns before it: a block in a list is indented.
    indent: usize,
    /// Whether it stands in a quotation: every line begins with `>`.
    quoted: bool,
}

impl Fence {
    /// What a line opens, if anything. A fence may follow a number or sign of a list, a `>` or the words of a sentence.
    pub(super) fn opening(line: &str) -> Option<Opening<'_>> {
        let (start, quoted) = prefix(line);
        let rest = &line[start..];
        let mark = *rest.as_bytes().first()?;
        let width = run(rest, mark);
        if !matches!(mark, b'`' | b'~') || width < MIN_WIDTH {
            return Self::within_line(line);
        }
        let info = rest[width..].trim();
        if mark == b'`' && info.contains('`') {
            return whole_line(info, width);
        }
        let indent = if quoted { 0 } else { start };
        Some(Opening::Block(Self { mark, width, indent, quoted }, tag::language(info)))
    }

    /// `Solution: ```python`: behind words, a fence needs the name of a language, or a colon or tag before it.
    fn within_line(line: &str) -> Option<Opening<'_>> {
        let at = line.find("```")?;
        let width = run(&line[at..], b'`');
        let info = line[at + width..].trim();
        let opens = tag::is_tag(info) || info.is_empty() && line[..at].trim_end().ends_with([':', '：', '>']);
        opens.then(|| Opening::Block(Self { mark: b'`', width, indent: 0, quoted: false }, tag::language(info)))
    }

    /// What follows the fence on a line that begins with one that is long enough to close the block.
    pub(super) fn closing<'t>(&self, line: &'t str) -> Option<&'t str> {
        let text = self.without_quote(line).trim_start_matches([' ', '\t']);
        let width = run(text, self.mark);
        (width >= self.width).then(|| text[width..].trim())
    }

    /// Whether a line is indented so far that it belongs to the text of the block.
    pub(super) fn is_indented(&self, line: &str) -> bool {
        let line = self.without_quote(line);
        line.len() - line.trim_start_matches([' ', '\t']).len() > self.indent + MAX_INDENT
    }

    /// The column of a fence that ends a line of text.
    pub(super) fn at_end_of(&self, line: &str) -> Option<usize> {
        let line = line.trim_end();
        let text = line.trim_end_matches('`');
        (self.mark == b'`' && line.len() - text.len() >= self.width).then_some(text.len())
    }

    /// Backticks that end the block wherever they stand outside strings.
    pub(super) fn width(&self) -> usize {
        if self.mark == b'`' { self.width } else { usize::MAX }
    }

    /// A line of the block without the quotation and indentation of its fence.
    pub(super) fn content<'t>(&self, line: &'t str) -> &'t str {
        let line = self.without_quote(line);
        let spaces = line.bytes().take(self.indent).take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        &line[spaces..]
    }

    fn without_quote<'t>(&self, line: &'t str) -> &'t str {
        if !self.quoted {
            return line;
        }
        let text = line.trim_start_matches([' ', '\t']);
        text.strip_prefix('>').map_or(line, |text| text.strip_prefix(' ').unwrap_or(text))
    }
}

/// ` ```python print(1)``` `. Without the name of a language, this is code within a sentence.
fn whole_line(info: &str, width: usize) -> Option<Opening<'_>> {
    let body = info.trim_end_matches('`');
    let (name, code) = body.split_once(char::is_whitespace)?;
    let language = tag::language(name);
    let is_program = language == Language::Python && tag::is_tag(name) && !code.trim().is_empty();
    (is_program && info.len() - body.len() >= width && !code.contains("```"))
        .then(|| Opening::Line(language, code.trim()))
}

/// Length of what may stand before a fence, and whether that includes the sign of a quotation.
fn prefix(line: &str) -> (usize, bool) {
    let bytes = line.as_bytes();
    let mut at = 0;
    let mut quoted = false;
    loop {
        at += bytes[at..].iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        let marker = match bytes.get(at) {
            Some(b'>') => {
                quoted = true;
                1
            }
            Some(b'-' | b'*' | b'+') => 1,
            Some(byte) if byte.is_ascii_digit() => {
                let digits = bytes[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
                match bytes.get(at + digits) {
                    Some(b'.' | b')') if digits <= MAX_LIST_DIGITS => digits + 1,
                    _ => return (at, quoted),
                }
            }
            _ => return (at, quoted),
        };
        let is_quote = bytes[at] == b'>';
        if !is_quote && !matches!(bytes.get(at + marker), Some(b' ' | b'\t')) {
            return (at, quoted);
        }
        at += marker;
    }
}

/// Number of marks at the beginning of a text.
fn run(text: &str, mark: u8) -> usize {
    text.bytes().take_while(|byte| *byte == mark).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opens(line: &str) -> Option<Language> {
        match Fence::opening(line)? {
            Opening::Block(_, language) => Some(language),
            Opening::Line(..) => None,
        }
    }

    #[test]
    fn a_fence_may_stand_behind_other_things() {
        for line in [
            "```python",
            "   ```python",
            "\t```python",
            "1. ```python",
            "- ```py",
            "> ```python",
            "> - ```python",
            "~~~python",
            "Solution: ```python",
            "**Code**```python",
            "<answer>```python\n",
            "````python",
            "Here you go ```python\n",
        ] {
            assert_eq!(opens(line), Some(Language::Python), "{line}");
        }
        for line in ["```", "Code: ```", "<answer>```", "~~~~"] {
            assert_eq!(opens(line), Some(Language::Unknown), "{line}");
        }
    }

    #[test]
    fn code_within_a_sentence_opens_nothing() {
        for line in [
            "``` print(1) ```",
            "Use ```x``` here.",
            "``",
            "",
            "text",
            "write ``` at the end",
            "Use ```python fences.",
            "``` a ``` b",
        ] {
            assert_eq!(opens(line), None, "{line}");
        }
        assert!(matches!(Fence::opening("```python print(1)```"), Some(Opening::Line(Language::Python, "print(1)"))));
    }
}
