//! Comma-separated values, as spreadsheets and pandas write them (RFC 4180): a header, then a row on each line. Texts
//! in quotation marks may have commas and line breaks, and two quotation marks for one.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::lines::MAX_LINE_BYTES;
use super::opened::{Bytes, Text, text_of};
use super::{ReadError, ReadLimits, RowReader};
use crate::row::RowLocation;
use crate::{Cancel, Cancelled, DataError, DataRow, Reason, RowError};

/// Most columns of a file.
const MAX_COLUMNS: usize = 10_000;
/// What may stand between two values.
const SEPARATORS: [u8; 3] = [b',', b'\t', b';'];

/// The rows of a file. An empty value is absent; all others are texts.
pub(super) struct Csv<'a> {
    path: &'a Path,
    limits: &'a ReadLimits,
    cancel: Cancel<'a>,
    bytes: Bytes<Text>,
    separator: u8,
    header: Vec<String>,
    names: Arc<str>,
    line: usize,
    rows: usize,
}

/// A record, and the line on which it begins.
struct Record {
    line: usize,
    values: Result<Vec<Vec<u8>>, String>,
}

/// Whether a file is one of these, by its name: `rows.csv`, `rows.tsv`, also compressed.
pub(super) fn is_csv(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
    let name = [".gz", ".zst"].iter().find_map(|packed| name.strip_suffix(packed)).unwrap_or(&name);
    name.ends_with(".csv") || name.ends_with(".tsv")
}

impl<'a> Csv<'a> {
    /// # Errors
    /// A file that is no text, or has no header.
    pub(super) fn open(
        path: &'a Path,
        file: File,
        limits: &'a ReadLimits,
        cancel: Cancel<'a>,
    ) -> Result<Self, DataError> {
        let text = text_of(file, limits.max_bytes).map_err(|error| DataError::file(path, error.to_string()))?;
        let header = Vec::new();
        let names = Arc::from("");
        let mut csv =
            Self { path, limits, cancel, bytes: Bytes::of(text), separator: b',', header, names, line: 1, rows: 0 };
        csv.separator = csv.most_frequent_separator()?;
        let refused = |message: String| DataError::file(path, format!("header: {message}"));
        let Some(Record { values, .. }) = csv.record()? else {
            return Err(DataError::file(path, "is empty, allowed: a header with the names of columns, then rows"));
        };
        for name in values.map_err(refused)? {
            let name = String::from_utf8(name).map_err(|_| refused("not UTF-8".to_owned()))?.trim().to_owned();
            if csv.header.contains(&name) {
                return Err(refused(format!("has the column `{name}` twice, allowed: each once")));
            }
            csv.header.push(name);
        }
        csv.names = csv.header.join(", ").into();
        Ok(csv)
    }

    /// The separator that the first line has most of, outside of quotation marks.
    fn most_frequent_separator(&mut self) -> Result<u8, DataError> {
        let path = self.path;
        let unread = |error| DataError::file(path, format!("cannot be read: {error}"));
        let shown = self.bytes.peek().map_err(unread)?;
        let mut counts = [0_usize; SEPARATORS.len()];
        let mut in_text = false;
        for &byte in shown {
            match byte {
                b'"' => in_text = !in_text,
                b'\n' if !in_text => break,
                _ if in_text => {}
                _ => {
                    if let Some(index) = SEPARATORS.iter().position(|separator| *separator == byte) {
                        counts[index] += 1;
                    }
                }
            }
        }
        // The first of those that are equally frequent.
        let best = (0..SEPARATORS.len()).rev().max_by_key(|index| counts[*index]);
        Ok(best.map_or(b',', |index| SEPARATORS[index]))
    }

    fn refused(&self, message: impl Into<String>) -> DataError {
        DataError::file(self.path, message)
    }

    fn next(&mut self) -> Result<Option<u8>, DataError> {
        let byte = self.bytes.next().map_err(|error| self.refused(format!("cannot be read: {error}")))?;
        if self.bytes.read() > self.limits.max_bytes {
            return Err(self.refused(format!("has more than {} bytes (limits.max_data)", self.limits.max_bytes)));
        }
        self.line += usize::from(byte == Some(b'\n'));
        Ok(byte)
    }

    /// The next record that is not blank; `None` at the end.
    fn record(&mut self) -> Result<Option<Record>, DataError> {
        let most = self.limits.max_row_bytes.min(MAX_LINE_BYTES);
        loop {
            let line = self.line;
            let mut values = Vec::new();
            let mut value = Vec::new();
            let mut size = 0_usize;
            let mut in_text = false;
            let mut was_quote = false;
            let mut is_quoted = false;
            let mut is_long = false;
            let mut any = false;
            loop {
                let byte = self.next()?;
                match byte {
                    None if in_text && !was_quote => {
                        let message = format!("line {line}: a quotation mark that begins here has no end");
                        return Err(self.refused(message));
                    }
                    None if !any => return Ok(None),
                    None => break,
                    Some(_) => any = true,
                }
                let byte = byte.unwrap_or(b'\n');
                if in_text && !was_quote {
                    if byte == b'"' {
                        was_quote = true;
                        continue;
                    }
                } else if was_quote && byte == b'"' {
                    // Two of them are one.
                    was_quote = false;
                } else {
                    (in_text, was_quote) = (false, false);
                    match byte {
                        b'\n' => break,
                        b'"' if value.is_empty() && !is_quoted => {
                            (in_text, is_quoted) = (true, true);
                            continue;
                        }
                        _ if byte == self.separator => {
                            is_long |= values.len() >= MAX_COLUMNS;
                            if !is_long {
                                values.push(std::mem::take(&mut value));
                            }
                            is_quoted = false;
                            continue;
                        }
                        _ => {}
                    }
                }
                size += 1;
                is_long |= size > most;
                if is_long { value.clear() } else { value.push(byte) }
            }
            if !is_quoted && value.last() == Some(&b'\r') {
                value.pop();
            }
            if !is_long && !is_quoted && values.is_empty() && value.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            values.push(value);
            let values = if is_long {
                Err(format!("longer than {most} bytes or {MAX_COLUMNS} columns, allowed: up to both"))
            } else {
                Ok(values)
            };
            return Ok(Some(Record { line, values }));
        }
    }

    /// A record as a row.
    fn row(&self, place: RowLocation, values: Vec<Vec<u8>>) -> Result<DataRow, String> {
        let found = values.len();
        let columns = self.header.len();
        if found != columns {
            return Err(format!("has {found} values, allowed: {columns}, one for each column of the header"));
        }
        let mut row = Map::new();
        for (name, value) in self.header.iter().zip(values) {
            let text = String::from_utf8(value).map_err(|_| format!("`{name}` is not UTF-8"))?;
            row.insert(name.clone(), if text.is_empty() { Value::Null } else { text.into() });
        }
        Ok(DataRow::of_table(place, row, Arc::clone(&self.names)))
    }
}

impl RowReader for Csv<'_> {
    fn read(&mut self) -> Result<Option<DataRow>, ReadError> {
        Cancelled::check(self.cancel).map_err(DataError::from)?;
        let Some(Record { line, values }) = self.record()? else { return Ok(None) };
        let most_rows = self.limits.max_rows;
        if self.rows >= most_rows {
            let message = format!("line {line}: exceeds the limit of {most_rows} rows (limits.max_rows)");
            return Err(self.refused(message).into());
        }
        self.rows += 1;
        let place = RowLocation::Line(line);
        let row = values.and_then(|values| self.row(place, values));
        row.map(Some).map_err(|message| ReadError::Row(place, RowError::new(Reason::InvalidRow, message)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{answers, places, texts};
    use super::*;

    #[test]
    fn quoted_values_keep_their_commas_line_breaks_and_quotation_marks() {
        let text = "prompt,a\r\n\"1+1=\nand, so \"\"on\"\"\",2\r\n\r\nplain,3\n,4";
        let none = ReadLimits::default();
        let found = texts("rows.csv", text.as_bytes(), "prompt", &none).unwrap();
        assert_eq!(found, [Some("1+1=\nand, so \"on\"".to_owned()), Some("plain".to_owned()), None]);
        assert_eq!(texts("rows.csv", text.as_bytes(), "a", &none).unwrap().concat_texts(), "2,3,4");
        assert_eq!(places("rows.csv", text.as_bytes()), ["line 2", "line 5", "line 6"]);
    }

    /// Texts side by side.
    trait ConcatTexts {
        fn concat_texts(&self) -> String;
    }

    impl ConcatTexts for Vec<Option<String>> {
        fn concat_texts(&self) -> String {
            self.iter().flatten().cloned().collect::<Vec<_>>().join(",")
        }
    }

    #[test]
    fn tabs_and_semicolons_separate_as_well_and_a_byte_order_mark_is_none_of_a_name() {
        let none = ReadLimits::default();
        for (name, text) in
            [("rows.tsv", "p\ta\nx, y\t1\n"), ("rows.csv", "\u{feff}p;a\n\"x; y\";1\n"), ("r.csv", "a\n1\n")]
        {
            assert_eq!(texts(name, text.as_bytes(), "a", &none).unwrap(), [Some("1".to_owned())], "{text}");
        }
    }

    #[test]
    fn rows_with_other_columns_than_the_header_are_named_by_their_line_and_others_are_read() {
        let found = places("rows.csv", b"p,a\nx,1\ny\nz,2,3\nw,4\n");
        let words = "has 1 values, allowed: 2, one for each column of the header";
        assert_eq!(found[1], format!("line 3: {words}"));
        assert_eq!((found[0].as_str(), found[3].as_str()), ("line 2", "line 5"));
        let none = ReadLimits::default();
        for (text, words) in [
            ("", "is empty"),
            ("a,b,a\n1,2,3", "has the column `a` twice"),
            ("a,b\n1,\"2\n3,4", "line 2: a quotation mark that begins here has no end"),
        ] {
            let error = answers("rows.csv", text.as_bytes(), &none).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn what_a_row_may_take_is_bounded() {
        let limits = ReadLimits { max_row_bytes: 20, ..ReadLimits::default() };
        let text = format!("p,a\nx,1\n\"{}\",2\ny,3\n", "long\n".repeat(100));
        let found = texts("rows.csv", text.as_bytes(), "a", &limits).unwrap();
        assert_eq!(found.concat_texts(), "1,3");
        let limits = ReadLimits { max_bytes: 30, ..ReadLimits::default() };
        assert!(texts("rows.csv", text.as_bytes(), "a", &limits).is_err());
    }
}
