//! A JSON object on each line.

use std::fs::File;
use std::io::{BufReader, Read, Take};
use std::path::Path;

use tokio_util::sync::CancellationToken;

use super::{Limits, Lines, ReadError, RowReader};
use crate::row::RowLocation;
use crate::{Cancelled, DataError, Reason, Row, RowError};

/// The rows of a file, up to where it cannot be read any further.
pub(super) struct JsonLines<'a> {
    path: &'a Path,
    limits: &'a Limits,
    cancel: &'a CancellationToken,
    lines: Lines<BufReader<Take<File>>>,
    rows: usize,
}

impl<'a> JsonLines<'a> {
    pub(super) fn new(path: &'a Path, file: File, limits: &'a Limits, cancel: &'a CancellationToken) -> Self {
        // One more than may be: a file that grows while it is read is noticed.
        let reader = BufReader::new(file.take(limits.max_bytes.saturating_add(1)));
        let lines = Lines::up_to(limits.max_row_bytes, reader);
        Self { path, limits, cancel, lines, rows: 0 }
    }

    fn refused(&self, message: String) -> DataError {
        DataError::file(self.path, message)
    }
}

impl RowReader for JsonLines<'_> {
    fn read(&mut self) -> Result<Option<Row>, ReadError> {
        Cancelled::check(self.cancel).map_err(DataError::from)?;
        let line = self.lines.next_line().map_err(|error| self.refused(format!("cannot be read: {error}")))?;
        let Some(line) = line else { return Ok(None) };
        let (most_bytes, most_rows) = (self.limits.max_bytes, self.limits.max_rows);
        if self.lines.bytes() > most_bytes {
            return Err(self.refused(format!("has more than {most_bytes} bytes (limits.max_data)")).into());
        }
        if self.rows >= most_rows {
            let message = format!("line {}: is one more than {most_rows} rows (limits.max_rows)", line.number);
            return Err(self.refused(message).into());
        }
        self.rows += 1;
        let unread = |error| ReadError::Row(RowLocation::Line(line.number), error);
        let text = line.text.map_err(|error| unread(RowError::new(Reason::InvalidRow, error.to_string())))?;
        Row::parse(line.number, text).map(Some).map_err(unread)
    }
}
