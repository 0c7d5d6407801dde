//! A JSON object on each line.

use std::fs::File;
use std::path::Path;

use serde::de::IgnoredAny;

use super::lines::MAX_LINE_BYTES;
use super::opened::{Text, seems, text_of};
use super::{Lines, ReadError, ReadLimits, RowReader};
use crate::row::RowLocation;
use crate::{Cancel, Cancelled, DataError, DataRow, Reason, RowError};

/// Values in a line, at most: a short one takes two bytes of it and a hundred of memory.
const MAX_VALUES: usize = 1 << 20;

/// Whether a line has more values than may be, by the commas and brackets outside of its texts.
pub(super) fn has_too_many_values(text: &str) -> bool {
    if text.len() <= MAX_VALUES {
        return false;
    }
    let mut values = 0;
    let mut in_text = false;
    let mut is_escaped = false;
    for byte in text.bytes() {
        match (in_text, byte) {
            _ if is_escaped => is_escaped = false,
            (true, b'\\') => is_escaped = true,
            (_, b'"') => in_text = !in_text,
            (false, b',' | b'[' | b'{') => values += 1,
            _ => {}
        }
    }
    values > MAX_VALUES
}

/// What is wrong with such a line.
pub(super) fn too_many_values() -> String {
    format!("has more than {MAX_VALUES} values, which take a hundred times the bytes of the line")
}

/// The rows of a file, up to where it cannot be read any further.
pub(super) struct JsonLines<'a> {
    path: &'a Path,
    limits: &'a ReadLimits,
    cancel: Cancel<'a>,
    lines: Lines<Text>,
    rows: usize,
}

impl<'a> JsonLines<'a> {
    /// # Errors
    /// A file that is no text.
    pub(super) fn open(
        path: &'a Path,
        file: File,
        limits: &'a ReadLimits,
        cancel: Cancel<'a>,
    ) -> Result<Self, DataError> {
        let text = text_of(file, limits.max_bytes).map_err(|error| DataError::file(path, error.to_string()))?;
        Ok(Self { path, limits, cancel, lines: Lines::up_to(limits.max_row_bytes.min(MAX_LINE_BYTES), text), rows: 0 })
    }

    /// Why the whole file cannot be meant where a line of it is not JSON; `None` where that line alone may be wrong.
    fn fault_of_file(&self, number: usize, text: &str) -> Option<DataError> {
        let error = serde_json::from_str::<IgnoredAny>(text).err()?;
        if self.rows == 1
            && let Some(seems) = seems(text)
        {
            return Some(self.refused(format!("seems to be {seems}")));
        }
        let is_cut = self.lines.last_is_open() && error.is_eof();
        is_cut.then(|| self.refused(format!("line {number}, its last, ends within a value: the file is cut off")))
    }

    fn refused(&self, message: String) -> DataError {
        DataError::file(self.path, message)
    }
}

impl RowReader for JsonLines<'_> {
    fn read(&mut self) -> Result<Option<DataRow>, ReadError> {
        Cancelled::check(self.cancel).map_err(DataError::from)?;
        let line = self.lines.next_line().map_err(|error| self.refused(format!("cannot be read: {error}")))?;
        let Some(line) = line else { return Ok(None) };
        let most_bytes = self.limits.max_bytes;
        let most_rows = self.limits.max_rows;
        if self.lines.bytes() > most_bytes {
            return Err(self.refused(format!("has more than {most_bytes} bytes (limits.max_data)")).into());
        }
        if self.rows >= most_rows {
            let message = format!("line {}: exceeds the limit of {most_rows} rows (limits.max_rows)", line.number);
            return Err(self.refused(message).into());
        }
        self.rows += 1;
        let unread = |error| ReadError::Row(RowLocation::Line(line.number), error);
        let text = line.text.map_err(|error| unread(RowError::new(Reason::InvalidRow, error.to_string())))?;
        if has_too_many_values(&text) {
            return Err(unread(RowError::new(Reason::InvalidRow, too_many_values())));
        }
        match DataRow::parse(line.number, text.as_str()) {
            Ok(row) => Ok(Some(row)),
            Err(error) => match self.fault_of_file(line.number, &text) {
                Some(fault) => Err(fault.into()),
                None => Err(unread(error)),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    const ROWS: &[u8] = b"{\"a\": 1}\n{\"a\": 2}\n";

    /// The values of `a`, or why the file is refused.
    fn read(bytes: &[u8], limits: &ReadLimits) -> Result<Vec<u64>, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rows.jsonl");
        std::fs::write(&path, bytes).unwrap();
        let (cancel, mut found) = (|| false, Vec::new());
        let rows = super::super::rows(&path, &super::super::Columns::All, limits, &cancel);
        for row in rows.map_err(|error| error.to_string())? {
            match row {
                Ok(row) => found.push(row.get("a").and_then(serde_json::Value::as_u64).unwrap_or_default()),
                Err(ReadError::Row(..)) => {}
                Err(ReadError::File(error)) => return Err(error.to_string()),
            }
        }
        Ok(found)
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn compressed_files_and_a_byte_order_mark_are_read_as_the_text_that_they_are() {
        let none = ReadLimits::default();
        let marked = [b"\xef\xbb\xbf", ROWS].concat();
        let zstd = zstd::encode_all(&marked[..], 3).unwrap();
        for bytes in [ROWS, &marked, &gzip(ROWS), &gzip(&marked), &[gzip(ROWS), gzip(b"")].concat(), &zstd] {
            assert_eq!(read(bytes, &none).unwrap(), [1, 2]);
        }
        let cut = gzip(&ROWS.repeat(1000));
        assert!(read(&cut[..cut.len() / 2], &none).unwrap_err().contains("cannot be read"));
        assert!(read(&zstd[..zstd.len() - 3], &none).is_err());
    }

    #[test]
    fn what_a_compressed_file_grows_to_is_bounded() {
        let limits = ReadLimits { max_bytes: 1 << 20, max_row_bytes: 1 << 16, ..ReadLimits::default() };
        let error = read(&gzip(&vec![b' '; 64 << 20]), &limits).unwrap_err();
        assert!(error.contains("has more than 1048576 bytes"), "{error}");
    }

    #[test]
    fn a_line_with_endless_values_is_left_out_and_one_with_a_long_text_is_not() {
        let many = format!("{{\"a\": 1, \"b\": [{}0]}}\n", "0,".repeat(MAX_VALUES));
        let long = format!("{{\"a\": 2, \"b\": \"{}\\\"\"}}\n", "0,[".repeat(MAX_VALUES));
        assert_eq!(read((many + &long).as_bytes(), &ReadLimits::default()).unwrap(), [2]);
    }

    #[test]
    fn a_cut_last_line_refuses_the_file_and_a_wrong_line_does_not() {
        let none = ReadLimits::default();
        let error = read(b"{\"a\": 1}\n{\"a\": 2}\n{\"a\": ", &none).unwrap_err();
        assert!(error.contains("line 3, its last, ends within a value: the file is cut off"), "{error}");
        assert_eq!(read(b"{\"a\": 1}\n{\"a\": \n{\"a\": 3}", &none).unwrap(), [1, 3]);
        assert_eq!(read(b"{\"a\": 1}\n{\"a\": NaN}\n{\"b\": NaN, \"a\": 3}", &none).unwrap(), [1, 0, 3]);
    }

    #[test]
    fn another_format_is_named() {
        for (bytes, words) in [
            (&b"{\n  \"a\": 1\n}\n"[..], "seems to be JSON on several lines"),
            (b"{\"a\": 1},\n{\"a\": 2}\n", "seems to be lines of a JSON array"),
            (b"{\"a\": 1}\r{\"a\": 2}\r", "lines end in CR alone"),
            (b"prompt,answer\n1+1=,2\n", "seems to be CSV"),
            (b"\xff\xfe{\0}\0\n\0", "seems to be UTF-16"),
        ] {
            let error = read(bytes, &ReadLimits::default()).unwrap_err();
            assert!(error.contains(words), "{words}: {error}");
        }
    }
}
