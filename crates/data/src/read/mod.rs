//! Files of rows. A format is one reader that gives [`DataRow`]s; everything after it is the same for all of them.

mod array;
mod columns;
mod csv;
mod files;
mod jsonl;
mod lines;
mod opened;
mod parquet;
mod record;

use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;

use crate::row::RowLocation;
use crate::{Cancel, DataError, DataRow, RowError};

pub use columns::Columns;
pub use files::expand;
pub use lines::{Line, LineError, Lines, printable};

/// What reading a file may cost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadLimits {
    /// Largest file, in bytes.
    pub max_bytes: u64,
    /// Longest row, in bytes.
    pub max_row_bytes: usize,
    /// Most rows of a file.
    pub max_rows: usize,
    /// Most problems of a data set, duplicates not counted.
    pub max_problems: usize,
}

impl Default for ReadLimits {
    fn default() -> Self {
        Self { max_bytes: u64::MAX, max_row_bytes: usize::MAX, max_rows: usize::MAX, max_problems: usize::MAX }
    }
}

/// Why there is no row where one was expected.
#[derive(Debug)]
pub enum ReadError {
    /// This row alone cannot be read; others follow.
    Row(RowLocation, RowError),
    /// The file cannot be read any further.
    File(DataError),
}

impl From<DataError> for ReadError {
    fn from(error: DataError) -> Self {
        Self::File(error)
    }
}

/// The rows of a file, up to where it cannot be read any further.
pub struct Rows<'a> {
    reader: Box<dyn RowReader + 'a>,
    ended: bool,
}

trait RowReader {
    /// The next row; `None` at the end.
    fn read(&mut self) -> Result<Option<DataRow>, ReadError>;
}

impl<'a> Rows<'a> {
    fn of(reader: impl RowReader + 'a) -> Self {
        Self { reader: Box::new(reader), ended: false }
    }
}

impl Iterator for Rows<'_> {
    type Item = Result<DataRow, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let row = self.reader.read().transpose();
        self.ended = matches!(row, None | Some(Err(ReadError::File(_))));
        row
    }
}

/// The first bytes of a parquet file, and of one whose footer is encrypted.
const PARQUET: [&[u8; 4]; 2] = [b"PAR1", b"PARE"];

/// The rows of a data file, one after the other, so that rows that are not kept are never in memory together: a parquet
/// file, recognised by its first bytes or its name; comma-separated values, recognised by the name (`.csv`, `.tsv`);
/// the elements of a JSON array, recognised by its bracket; or else a JSON object on each line. Texts may be compressed
/// with gzip or zstd. Only `columns` of a parquet file are read. Ends at the first [`ReadError::File`].
///
/// # Errors
/// A file that cannot be opened, is no regular file, is larger than the limit, or is a parquet file that is cut off or
/// damaged.
pub fn rows<'a>(
    path: &'a Path,
    columns: &Columns,
    limits: &'a ReadLimits,
    cancel: Cancel<'a>,
) -> Result<Rows<'a>, DataError> {
    let mut file =
        evenkeel_host::open(path, limits.max_bytes).map_err(|error| DataError::file(path, error.to_string()))?;
    if is_parquet(path, &mut file).map_err(|error| DataError::file(path, format!("cannot be read: {error}")))? {
        return Ok(Rows::of(parquet::ParquetRows::open(path, file, columns, limits, cancel)?));
    }
    if csv::is_csv(path) {
        return Ok(Rows::of(csv::Csv::open(path, file, limits, cancel)?));
    }
    let first = opened::first_mark(&file).map_err(|error| DataError::file(path, error.to_string()))?;
    match first {
        Some(b'[') => Ok(Rows::of(array::JsonArray::open(path, file, limits, cancel)?)),
        _ => Ok(Rows::of(jsonl::JsonLines::open(path, file, limits, cancel)?)),
    }
}

fn is_parquet(path: &Path, file: &mut File) -> std::io::Result<bool> {
    let mut first = Vec::new();
    Read::by_ref(file).take(4).read_to_end(&mut first)?;
    file.rewind()?;
    let named = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("parquet"));
    Ok(named || PARQUET.iter().any(|magic| first == *magic))
}

/// What the tests of the formats read.
#[cfg(test)]
mod tests {
    use super::*;

    /// Rows with the place of each, or why it is none.
    type Found = Vec<(RowLocation, Result<DataRow, RowError>)>;

    /// The rows of a file of these bytes.
    fn read(name: &str, bytes: &[u8], limits: &ReadLimits) -> Result<Found, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let cancel = || false;
        let mut found = Vec::new();
        for row in rows(&path, &Columns::All, limits, &cancel).map_err(|error| error.to_string())? {
            match row {
                Ok(row) => found.push((row.location(), Ok(row))),
                Err(ReadError::Row(place, error)) => found.push((place, Err(error))),
                Err(ReadError::File(error)) => return Err(error.to_string()),
            }
        }
        Ok(found)
    }

    /// The numbers `a` of the rows.
    pub(super) fn answers(name: &str, bytes: &[u8], limits: &ReadLimits) -> Result<Vec<u64>, String> {
        let rows = read(name, bytes, limits)?.into_iter().filter_map(|(_, row)| row.ok());
        Ok(rows.map(|row| row.get("a").and_then(serde_json::Value::as_u64).unwrap_or_default()).collect())
    }

    /// The texts of a column.
    pub(super) fn texts(
        name: &str,
        bytes: &[u8],
        column: &str,
        limits: &ReadLimits,
    ) -> Result<Vec<Option<String>>, String> {
        let rows = read(name, bytes, limits)?.into_iter().filter_map(|(_, row)| row.ok());
        Ok(rows.map(|row| row.get(column).and_then(|value| value.as_str()).map(str::to_owned)).collect())
    }

    /// Where the rows stand, with what is wrong with those that are none.
    pub(super) fn places(name: &str, bytes: &[u8]) -> Vec<String> {
        let place = |(place, row): (RowLocation, Result<DataRow, RowError>)| match row {
            Ok(_) => place.to_string(),
            Err(error) => format!("{place}: {error}"),
        };
        read(name, bytes, &ReadLimits::default()).unwrap().into_iter().map(place).collect()
    }
}
