//! A JSON object on each line.

use std::fs::File;
use std::io::{BufReader, Read, Take};
use std::path::Path;

use super::{Limits, Lines};
use crate::{Cancel, DataError, Row};

/// The rows of a file, up to the first one that cannot be read.
pub(super) struct JsonLines<'a> {
    path: &'a Path,
    limits: &'a Limits,
    cancel: &'a Cancel,
    lines: Lines<BufReader<Take<File>>>,
    rows: usize,
    ended: bool,
}

impl<'a> JsonLines<'a> {
    pub(super) fn open(path: &'a Path, limits: &'a Limits, cancel: &'a Cancel) -> Result<Self, DataError> {
        let file =
            evenkeel_files::open(path, limits.max_bytes).map_err(|error| DataError::file(path, error.to_string()))?;
        // One more than may be: a file that grows while it is read is noticed.
        let reader = BufReader::new(file.take(limits.max_bytes.saturating_add(1)));
        let lines = Lines::up_to(limits.max_row_bytes, reader);
        Ok(Self { path, limits, cancel, lines, rows: 0, ended: false })
    }

    fn read(&mut self) -> Result<Option<Row>, DataError> {
        self.cancel.check()?;
        let line = self.lines.next_line().map_err(|error| self.refused(format!("cannot be read: {error}")))?;
        let Some(line) = line else { return Ok(None) };
        let (most_bytes, most_rows) = (self.limits.max_bytes, self.limits.max_rows);
        if self.lines.bytes() > most_bytes {
            return Err(self.refused(format!("has more than {most_bytes} bytes (limits.max_data)")));
        }
        if self.rows >= most_rows {
            let message = format!("is one more than {most_rows} problems (limits.max_problems)");
            return Err(self.refused(format!("line {}: {message}", line.number)));
        }
        self.rows += 1;
        let refused = |error: String| self.refused(format!("line {}: {error}", line.number));
        let text = line.text.map_err(|error| refused(error.to_string()))?;
        Row::parse(line.number, &text).map(Some).map_err(|error| refused(error.to_string()))
    }

    fn refused(&self, message: String) -> DataError {
        DataError::file(self.path, message)
    }
}

impl Iterator for JsonLines<'_> {
    type Item = Result<Row, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let row = self.read().transpose();
        self.ended = !matches!(row, Some(Ok(_)));
        row
    }
}
