//! A file that is one JSON array: its elements are the rows.

use std::fs::File;
use std::path::Path;

use super::jsonl::{has_too_many_values, too_many_values};
use super::lines::MAX_LINE_BYTES;
use super::opened::{Bytes, Text, text_of};
use super::{ReadError, ReadLimits, RowReader};
use crate::row::RowLocation;
use crate::{Cancel, Cancelled, DataError, DataRow, Reason, RowError};

/// The elements of an array, one after the other: the file is never in memory as a whole.
pub(super) struct JsonArray<'a> {
    path: &'a Path,
    limits: &'a ReadLimits,
    cancel: Cancel<'a>,
    bytes: Bytes<Text>,
    rows: usize,
    ended: bool,
}

/// What follows a value, or an end.
#[derive(Debug, PartialEq, Eq)]
enum Element {
    Text(Vec<u8>),
    TooLong,
    None,
}

impl<'a> JsonArray<'a> {
    /// Opens a file whose first character is `[`.
    ///
    /// # Errors
    /// A file that is no text.
    pub(super) fn open(
        path: &'a Path,
        file: File,
        limits: &'a ReadLimits,
        cancel: Cancel<'a>,
    ) -> Result<Self, DataError> {
        let text = text_of(file, limits.max_bytes).map_err(|error| DataError::file(path, error.to_string()))?;
        let mut array = Self { path, limits, cancel, bytes: Bytes::of(text), rows: 0, ended: false };
        let begin = array.next_mark()?;
        debug_assert_eq!(begin, Some(b'['));
        Ok(array)
    }

    fn refused(&self, message: impl Into<String>) -> DataError {
        DataError::file(self.path, message)
    }

    fn next(&mut self) -> Result<Option<u8>, DataError> {
        let byte = self.bytes.next().map_err(|error| self.refused(format!("cannot be read: {error}")))?;
        if self.bytes.read() > self.limits.max_bytes {
            return Err(self.refused(format!("has more than {} bytes (limits.max_data)", self.limits.max_bytes)));
        }
        Ok(byte)
    }

    /// The next byte that is no white space.
    fn next_mark(&mut self) -> Result<Option<u8>, DataError> {
        loop {
            match self.next()? {
                Some(byte) if byte.is_ascii_whitespace() => {}
                other => return Ok(other),
            }
        }
    }

    /// The text of the next element, up to the comma or the bracket after it.
    fn element(&mut self) -> Result<Element, DataError> {
        let most = self.limits.max_row_bytes.min(MAX_LINE_BYTES);
        let mut text = Vec::new();
        let mut depth = 0_u64;
        let mut in_text = false;
        let mut is_escaped = false;
        let mut is_long = false;
        let cut_off = format!("element {} does not end: the file is cut off", self.rows + 1);
        loop {
            let Some(byte) = self.next()? else { return Err(self.refused(cut_off)) };
            match (in_text, byte) {
                _ if is_escaped => is_escaped = false,
                (true, b'\\') => is_escaped = true,
                (_, b'"') => in_text = !in_text,
                (false, b'{' | b'[') => depth += 1,
                (false, b']') if depth == 0 => {
                    self.ended = true;
                    break;
                }
                (false, b'}' | b']') => depth = depth.saturating_sub(1),
                (false, b',') if depth == 0 => break,
                _ => {}
            }
            is_long |= text.len() >= most;
            if is_long { text.clear() } else { text.push(byte) }
        }
        let is_blank = text.iter().all(u8::is_ascii_whitespace);
        Ok(match (is_long, is_blank) {
            (true, _) => Element::TooLong,
            // Nothing before the last bracket: an empty array, or a comma after the last element.
            (false, true) if self.ended => Element::None,
            (false, _) => Element::Text(text),
        })
    }

    /// What follows the array is no row.
    fn end(&mut self) -> Result<(), DataError> {
        match self.next_mark()? {
            None => Ok(()),
            Some(_) => Err(self.refused("continues after the end of its JSON array, allowed: one array")),
        }
    }
}

impl RowReader for JsonArray<'_> {
    fn read(&mut self) -> Result<Option<DataRow>, ReadError> {
        Cancelled::check(self.cancel).map_err(DataError::from)?;
        if self.ended {
            self.end()?;
            return Ok(None);
        }
        let element = self.element()?;
        if element == Element::None {
            self.end()?;
            return Ok(None);
        }
        let most_rows = self.limits.max_rows;
        if self.rows >= most_rows {
            let message = format!("row {}: exceeds the limit of {most_rows} rows (limits.max_rows)", self.rows + 1);
            return Err(self.refused(message).into());
        }
        self.rows += 1;
        let place = RowLocation::Row(self.rows);
        let unread = |message: String| ReadError::Row(place, RowError::new(Reason::InvalidRow, message));
        let text = match element {
            Element::Text(bytes) => String::from_utf8(bytes).map_err(|_| unread("not UTF-8".to_owned()))?,
            Element::TooLong | Element::None => {
                let most = self.limits.max_row_bytes.min(MAX_LINE_BYTES);
                return Err(unread(format!("longer than {most} bytes, allowed: at most {most}")));
            }
        };
        if has_too_many_values(&text) {
            return Err(unread(too_many_values()));
        }
        DataRow::parse_at(place, text.trim()).map(Some).map_err(|error| ReadError::Row(place, error))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{answers, places};
    use super::*;

    #[test]
    fn the_elements_of_an_array_are_rows_however_they_are_laid_out() {
        let none = ReadLimits::default();
        for text in [
            "[{\"a\": 1}, {\"a\": 2}]",
            "\n [\n  {\n    \"a\": 1, \"b\": \"],{\\\"\"\n  },\n  {\"a\": 2, \"c\": [[{}]]}\n]\n",
            "[{\"a\":1},{\"a\":2},]",
        ] {
            assert_eq!(answers("rows.json", text.as_bytes(), &none).unwrap(), [1, 2], "{text}");
        }
        assert_eq!(
            places("rows.json", b"[{\"a\": 1}, 3, {\"a\": 2}]"),
            ["row 1", "row 2: the row is a number, allowed: a JSON object", "row 3"]
        );
        assert_eq!(answers("rows.json", b"[]", &none).unwrap(), [0; 0]);
    }

    #[test]
    fn an_array_that_is_cut_off_or_goes_on_refuses_the_file() {
        let none = ReadLimits::default();
        for (text, words) in [
            ("[{\"a\": 1}, {\"a\": ", "element 2 does not end: the file is cut off"),
            ("[", "element 1 does not end"),
            ("[{\"a\": 1}]\n[{\"a\": 2}]", "continues after the end of its JSON array"),
        ] {
            let error = answers("rows.json", text.as_bytes(), &none).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn what_an_element_may_take_is_bounded() {
        let limits = ReadLimits { max_row_bytes: 20, ..ReadLimits::default() };
        let text = format!("[{{\"a\": 1}}, {{\"b\": \"{}\"}}, {{\"a\": 2}}]", "x".repeat(100));
        assert_eq!(answers("rows.json", text.as_bytes(), &limits).unwrap(), [1, 2]);
        let limits = ReadLimits { max_bytes: 30, ..ReadLimits::default() };
        assert!(answers("rows.json", text.as_bytes(), &limits).is_err());
        let limits = ReadLimits { max_rows: 1, ..ReadLimits::default() };
        let error = answers("rows.json", b"[{\"a\": 1}, {\"a\": 2}]", &limits).unwrap_err();
        assert!(error.contains("row 2: exceeds the limit of 1 rows"), "{error}");
    }
}
