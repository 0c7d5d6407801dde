//! Where Python's strings begin and end, as far as that tells fences from text in a string. Backticks outside strings
//! and comments are never Python.

/// The string that is open at the end of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Strings {
    /// The quotation mark of a string in three quotation marks.
    open: Option<u8>,
}

impl Strings {
    /// Whether a line begins within a string.
    pub(super) fn is_open(self) -> bool {
        self.open.is_some()
    }

    /// Reads a line up to its end, or up to `width` backticks outside strings and comments, whose offset is returned.
    pub(super) fn line(&mut self, line: &str, width: usize) -> Option<usize> {
        let bytes = line.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            match (self.open, bytes[at]) {
                (_, b'\\') => at += 1,
                (Some(quote), byte) if byte == quote && is_triple(bytes, at, quote) => {
                    self.open = None;
                    at += 2;
                }
                (Some(_), _) => {}
                (None, b'#') => return None,
                (None, b'`') if bytes[at..].iter().take_while(|byte| **byte == b'`').count() >= width => {
                    return Some(at);
                }
                (None, quote @ (b'"' | b'\'')) if is_triple(bytes, at, quote) => {
                    self.open = Some(quote);
                    at += 2;
                }
                (None, quote @ (b'"' | b'\'')) => at = end_of_string(bytes, at + 1, quote),
                (None, _) => {}
            }
            at += 1;
        }
        None
    }
}

fn is_triple(bytes: &[u8], at: usize, quote: u8) -> bool {
    bytes.get(at..at + 3).is_some_and(|three| three.iter().all(|byte| *byte == quote))
}

/// The index of the quotation mark that ends a string on its line, or of the end of the line.
fn end_of_string(bytes: &[u8], mut at: usize, quote: u8) -> usize {
    while at < bytes.len() && bytes[at] != quote {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The offsets of backticks outside strings, and whether a string is open at the end.
    fn read(text: &str) -> (Vec<Option<usize>>, bool) {
        let mut strings = Strings::default();
        let found = text.lines().map(|line| strings.line(line, 3)).collect();
        (found, strings.is_open())
    }

    #[test]
    fn backticks_in_strings_and_comments_are_text() {
        for line in ["'```'", "\"it's ```\"", "x = '''```'''", "# ```", "'a\\'```'", "f\"{x}```\"", "`` ``"] {
            assert_eq!(read(line), (vec![None], false), "{line}");
        }
        assert_eq!(read("print(2*n)```"), (vec![Some(10)], false));
        assert_eq!(read("print('a')``` # b"), (vec![Some(10)], false));
    }

    #[test]
    fn a_string_in_three_quotation_marks_goes_on() {
        assert_eq!(read("'''\n```\n'''\n```"), (vec![None, None, None, Some(0)], false));
        assert_eq!(read("\"\"\"\n'''```"), (vec![None, None], true));
        assert_eq!(read("'''a\\'''\n```"), (vec![None, None], true));
        assert_eq!(read("it's\n```"), (vec![None, Some(0)], false), "an apostrophe ends with its line");
    }
}
