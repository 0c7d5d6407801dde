//! Files of rows. A format is one reader that gives [`Row`]s; everything behind it is the same for all of them.

mod jsonl;
mod lines;

use std::path::Path;

use crate::{Cancel, DataError, Row};

pub use lines::{Line, LineError, Lines, printable};

/// What reading a file may cost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Largest file, in bytes.
    pub max_bytes: u64,
    /// Longest row, in bytes.
    pub max_row_bytes: usize,
    /// Most rows.
    pub max_rows: usize,
}

impl Default for Limits {
    /// None.
    fn default() -> Self {
        Self { max_bytes: u64::MAX, max_row_bytes: usize::MAX, max_rows: usize::MAX }
    }
}

/// The rows of a data file, one after the other, so that rows that are not kept are never in memory together. Ends at the first error.
///
/// # Errors
/// A file that cannot be opened, is no regular file, or is larger than the limit.
pub fn rows<'a>(
    path: &'a Path,
    limits: &'a Limits,
    cancel: &'a Cancel,
) -> Result<impl Iterator<Item = Result<Row, DataError>> + 'a, DataError> {
    jsonl::JsonLines::open(path, limits, cancel)
}
