//! The lines of a file: one that is no text, or too long to be held, is a fault of that line alone.

use std::fmt::Display;
use std::io::{self, BufRead, Read};

use evenkeel_proto::shown::one_line;

/// Longest line where nothing else is set, in bytes: several times the longest row of a published data set.
pub(super) const MAX_LINE_BYTES: usize = 256 << 20;
/// Longest message about a line, in characters.
const MAX_MESSAGE: usize = 500;

/// Lines that are not blank, with their numbers.
pub struct Lines<R> {
    reader: R,
    number: usize,
    bytes: u64,
    max_bytes: usize,
    is_open: bool,
}

/// A line that is not blank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Number of the line in the file, from 1 on.
    pub number: usize,
    /// Text of the line, or why there is none.
    pub text: Result<String, LineError>,
}

/// Why a line has no text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// The line is too long to be held in memory.
    #[error("longer than {max_bytes} bytes, allowed: at most {max_bytes}")]
    TooLong {
        /// The longest that is.
        max_bytes: usize,
    },
    /// The line is in another encoding, or in none.
    #[error("byte {byte} is not UTF-8, allowed: a JSON object in UTF-8")]
    NotUtf8 {
        /// The first byte that is wrong, from 1 on.
        byte: usize,
    },
}

impl<R: BufRead> Lines<R> {
    /// Lines of at most 256 MiB.
    pub fn new(reader: R) -> Self {
        Self::up_to(MAX_LINE_BYTES, reader)
    }

    /// Lines of at most `max_bytes`; longer ones are skipped over and have no text.
    pub fn up_to(max_bytes: usize, reader: R) -> Self {
        Self { reader, number: 0, bytes: 0, max_bytes, is_open: false }
    }

    /// Bytes that were read so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether the last line had no line break: with it the file ends.
    pub fn last_is_open(&self) -> bool {
        self.is_open
    }

    /// The next line; `None` at the end.
    ///
    /// # Errors
    /// The file cannot be read any further.
    pub fn next_line(&mut self) -> io::Result<Option<Line>> {
        loop {
            let mut bytes = Vec::new();
            let limit = (self.max_bytes as u64).saturating_add(1);
            let read = (&mut self.reader).take(limit).read_until(b'\n', &mut bytes)?;
            if read == 0 {
                return Ok(None);
            }
            self.bytes += read as u64;
            self.number += 1;
            self.is_open = bytes.pop_if(|last| *last == b'\n').is_none();
            let text = if bytes.len() > self.max_bytes {
                drop(bytes);
                self.bytes += self.reader.skip_until(b'\n')? as u64;
                Err(LineError::TooLong { max_bytes: self.max_bytes })
            } else {
                String::from_utf8(bytes)
                    .map_err(|error| LineError::NotUtf8 { byte: error.utf8_error().valid_up_to() + 1 })
            };
            if text.as_ref().is_ok_and(|text| text.trim().is_empty()) {
                continue;
            }
            return Ok(Some(Line { number: self.number, text }));
        }
    }
}

/// A message about a line as a terminal may show it: on one line, and cut where it repeats much of a row.
pub fn printable(message: impl Display) -> String {
    one_line(&message.to_string(), MAX_MESSAGE).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8], max_bytes: usize) -> Vec<(usize, Result<String, String>)> {
        let mut lines = Lines::up_to(max_bytes, bytes);
        std::iter::from_fn(|| lines.next_line().unwrap())
            .map(|line| (line.number, line.text.map_err(|error| error.to_string())))
            .collect()
    }

    #[test]
    fn a_line_that_is_no_text_leaves_the_others_alone() {
        let lines = read(b"{}\n\n \xff\xfe\r\n\xe6\x89\n[1]\r\n \n\"\xc3\xa9\"", 100);
        let wrong = |at: usize| Err(format!("byte {at} is not UTF-8, allowed: a JSON object in UTF-8"));
        let right = |text: &str| Ok(text.to_owned());
        assert_eq!(lines, [(1, right("{}")), (3, wrong(2)), (4, wrong(1)), (5, right("[1]\r")), (7, right("\"é\""))]);
    }

    #[test]
    fn a_line_that_is_too_long_is_never_held() {
        let long = Err("longer than 4 bytes, allowed: at most 4".to_owned());
        assert_eq!(
            read(b"1234\n12345\n1\n123456789", 4),
            [(1, Ok("1234".into())), (2, long.clone()), (3, Ok("1".into())), (4, long),]
        );
        assert_eq!(read(b"1234", 4), [(1, Ok("1234".into()))]);
        assert_eq!(read(b"", 4), []);
    }

    #[test]
    fn messages_are_safe_to_show() {
        assert_eq!(printable("`a` is \u{1b}[2J\n√"), "`a` is \\u{1b}[2J\\n√");
        let long = printable("é".repeat(10_000));
        assert_eq!((long.chars().count(), long.ends_with('…')), (MAX_MESSAGE + 1, true));
    }
}
