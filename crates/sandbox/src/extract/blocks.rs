//! The fenced blocks of a text, also where fences are not as `CommonMark` wants them: behind text, at the end of a line
//! of code, with words after the closing one, or never closed.

use super::fence::{Fence, Opening};
use super::strings::Strings;
use super::tag::{self, Language};

/// A block of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CodeBlock {
    pub language: Language,
    pub text: String,
    /// Whether a fence closes it, and not the end of the text.
    pub closed: bool,
    /// False if its opening fence closed another block: text may follow instead of a program.
    pub certain: bool,
}

/// The blocks of a text, in order. Takes time in proportion to its length.
pub(super) fn blocks(text: &str) -> Vec<CodeBlock> {
    let mut reader =
        BlockReader { lines: text.split_inclusive('\n').collect(), blocks: Vec::new(), has_sound_strings: true };
    let mut at = 0;
    while at < reader.lines.len() {
        at = match Fence::opening(reader.lines[at]) {
            None => at + 1,
            Some(Opening::Block(fence, language)) => reader.read(fence, language, at + 1),
            Some(Opening::Line(language, code)) => {
                reader.blocks.push(CodeBlock { language, text: code.to_owned(), closed: true, certain: true });
                at + 1
            }
        };
    }
    reader.blocks
}

struct BlockReader<'t> {
    lines: Vec<&'t str>,
    blocks: Vec<CodeBlock>,
    /// Whether every string so far was closed. If one is not, no later one is looked for, so that no text is read again
    /// and again.
    has_sound_strings: bool,
}

/// Where a block ends.
enum End {
    /// The block ends at a line with a fence.
    Fence(usize),
    /// At a fence with the name of a language, which opens a block as well.
    Reopened(usize, Language),
    /// At a fence in a line, after that many bytes.
    InLine(usize, usize),
    /// The block ends with the text.
    Text,
}

impl BlockReader<'_> {
    /// Reads a block whose content begins at a line. Returns the line after it.
    fn read(&mut self, fence: Fence, mut language: Language, mut start: usize) -> usize {
        let mut certain = true;
        loop {
            let end = self.end(&fence, &language, start);
            let (last, partial) = match end {
                End::Fence(line) | End::Reopened(line, _) => (line, ""),
                End::InLine(line, column) => (line, &self.lines[line][..column]),
                End::Text => (self.lines.len(), ""),
            };
            let lines = self.lines[start..last].iter().copied().chain(std::iter::once(partial));
            let text = lines.map(|line| fence.content(line)).collect();
            let closed = !matches!(end, End::Text);
            self.blocks.push(CodeBlock { language, text, closed, certain });
            let End::Reopened(line, next) = end else { return last + 1 };
            (language, start, certain) = (next, line + 1, false);
        }
    }

    fn end(&mut self, fence: &Fence, language: &Language, start: usize) -> End {
        let may_be_python = matches!(language, Language::Python | Language::Unknown);
        if may_be_python && self.has_sound_strings {
            if let Some(end) = self.end_of_python(fence, start) {
                return end;
            }
            self.has_sound_strings = false;
        }
        self.end_of_text(fence, start)
    }

    /// The end of a block that may be Python. `None` if a string is open at the end of the text.
    fn end_of_python(&self, fence: &Fence, start: usize) -> Option<End> {
        let mut strings = Strings::default();
        let mut at = start;
        while let Some(line) = self.lines.get(at) {
            let closing = fence.closing(line);
            if let Some(rest) = closing
                && !strings.is_open()
            {
                return Some(end_at(at, rest));
            }
            if let Some(rest) = closing
                && !fence.is_indented(line)
                && !ends_string(strings, line)
            {
                // A string with a block in it has both of its fences.
                let Some(second) = self.second_fence(fence, strings, at) else { return Some(end_at(at, rest)) };
                at = second;
            } else if let Some(column) = strings.line(line, fence.width()) {
                return Some(End::InLine(at, column));
            }
            at += 1;
        }
        (!strings.is_open()).then_some(End::Text)
    }

    /// The line with the fence that closes a block in an open string. `None` if the string ends before, or if the next
    /// fence opens a block: the string was never closed.
    fn second_fence(&self, fence: &Fence, mut strings: Strings, first: usize) -> Option<usize> {
        for (at, line) in self.lines.iter().enumerate().skip(first + 1) {
            match fence.closing(line) {
                Some("") => return Some(at),
                Some(_) => return None,
                None => drop(strings.line(line, usize::MAX)),
            }
            if !strings.is_open() {
                return None;
            }
        }
        None
    }

    /// The end of a block of text.
    fn end_of_text(&self, fence: &Fence, start: usize) -> End {
        for (at, line) in self.lines.iter().enumerate().skip(start) {
            if let Some(rest) = fence.closing(line)
                && !fence.is_indented(line)
            {
                return end_at(at, rest);
            }
            if let Some(column) = fence.at_end_of(line).filter(|column| !line[..*column].trim().is_empty()) {
                return End::InLine(at, column);
            }
        }
        End::Text
    }
}

/// Whether the open string ends on a line.
fn ends_string(mut strings: Strings, line: &str) -> bool {
    strings.line(line, usize::MAX);
    !strings.is_open()
}

fn end_at(line: usize, rest: &str) -> End {
    if tag::is_tag(rest) { End::Reopened(line, tag::language(rest)) } else { End::Fence(line) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The texts of the blocks.
    fn texts(text: &str) -> Vec<String> {
        blocks(text).into_iter().map(|block| block.text).collect()
    }

    #[test]
    fn a_block_ends_at_its_fence_whatever_follows_it() {
        for closing in ["```", "``` ", "```\r", "````", "``` This is it.", "  ```", "    ```", "```  \t"] {
            assert_eq!(texts(&format!("```python\na\n{closing}\nb")), ["a\n"], "{closing:?}");
        }
        for (text, expected) in [
            ("```python\na```", "a"),
            ("```python\nprint('x')``` Done.", "print('x')"),
            ("```python\na", "a"),
            ("~~~python\na\n```\n~~~\n", "a\n```\n"),
            ("```cpp\nit's\n```", "it's\n"),
            ("```text\nit is```", "it is"),
        ] {
            assert_eq!(texts(text), [expected], "{text:?}");
        }
    }

    #[test]
    fn a_closing_fence_with_a_language_opens_another_block() {
        let found = blocks("```python\na\n```python\n");
        assert_eq!((found[0].text.as_str(), found[0].closed, found[0].certain), ("a\n", true, true));
        assert_eq!((found[1].text.as_str(), found[1].closed, found[1].certain), ("", false, false));
        assert_eq!(texts("```python\na\nBetter:\n```python\nb\n```"), ["a\nBetter:\n", "b\n"]);
    }

    #[test]
    fn fences_in_strings_are_text() {
        for program in [
            "'''\n```\nf(3)\n```\n'''\nx\n",
            "def f():\n    '''\n    ```\n    f(3)\n    ```\n    '''\n",
            "\"\"\"\n```python\nf(3)\n```\n\"\"\"\n",
            "s = '''\n  x = '```'\n'''\n",
            "print('```')\n",
            "'''a\n```'''\nx\n",
        ] {
            assert_eq!(texts(&format!("```python\n{program}```\n")), [program], "{program}");
        }
    }

    #[test]
    fn a_string_that_is_never_closed_does_not_take_the_next_block() {
        assert_eq!(texts("```python\n'''a\n```\nBetter:\n```python\n'''b'''\n```"), ["'''a\n", "'''b'''\n"]);
        assert_eq!(texts("```python\n'''a\n```\ntext"), ["'''a\n"]);
    }

    #[test]
    fn a_block_in_a_list_or_quotation_loses_what_is_before_its_lines() {
        for text in [
            "1. so:\n   ```py\n   if x:\n       y\n   ```\n",
            "1. ```py\n   if x:\n       y\n   ```\n",
            "- ```py\n  if x:\n      y\n  ```\n",
            "> ```py\n> if x:\n>     y\n> ```\n",
            "\t```py\n\tif x:\n\t    y\n\t```\n",
        ] {
            assert_eq!(texts(text), ["if x:\n    y\n"], "{text}");
        }
        assert_eq!(texts("Code: ```py\nif x:\n    y\n```"), ["if x:\n    y\n"], "words do not indent");
    }

    #[test]
    fn reading_takes_time_in_proportion_to_the_length() {
        for piece in
            ["```python\n'''\n```\n", "```python\n", "```\n'''", "````\n```\n", "```python\n'''\n```\n'''\n```\n"]
        {
            let text = piece.repeat((1 << 20) / piece.len());
            let began = std::time::Instant::now();
            assert!(!blocks(&text).is_empty());
            assert!(began.elapsed().as_secs() < 5, "{piece:?}: {:?}", began.elapsed());
        }
    }
}
