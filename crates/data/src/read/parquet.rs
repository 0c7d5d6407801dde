//! Parquet files, record by record, and only the columns that are asked for.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use ::parquet::basic::Compression;
use ::parquet::errors::ParquetError;
use ::parquet::file::metadata::RowGroupMetaData;
use ::parquet::file::reader::{FileReader, SerializedFileReader};
use ::parquet::record;
use ::parquet::record::reader::{ReaderIter, TreeBuilder};
use ::parquet::schema::types::{SchemaDescPtr, SchemaDescriptor};
use serde_json::Value;

use super::record::{is_interval, projection, row};
use super::{Columns, ReadError, ReadLimits, RowReader};
use crate::row::RowLocation;
use crate::{Cancel, Cancelled, DataError, DataRow, Reason, RowError};

/// The smallest file: its magic number twice, and the length of the footer between.
const MIN_BYTES: u64 = 12;
/// Most values of a column that are decoded together.
const MAX_BATCH_ROWS: usize = 1024;
/// Bytes that are decoded together, as far as the footer lets expect.
const BATCH_BYTES: u64 = 16 << 20;
/// Characters of an error of the decoder that are shown.
const MAX_ERROR_CHARS: usize = 200;

/// The rows of a file, up to where it cannot be read any further.
pub(super) struct ParquetRows<'a> {
    path: &'a Path,
    limits: &'a ReadLimits,
    cancel: Cancel<'a>,
    file: SerializedFileReader<File>,
    /// The columns that are read.
    columns: SchemaDescPtr,
    /// All columns, for messages.
    names: Arc<str>,
    next_group: usize,
    /// What is left of the row group before `next_group`.
    records: Option<ReaderIter>,
    next_row: usize,
}

impl<'a> ParquetRows<'a> {
    pub(super) fn open(
        path: &'a Path,
        mut file: File,
        columns: &Columns,
        limits: &'a ReadLimits,
        cancel: Cancel<'a>,
    ) -> Result<Self, DataError> {
        let refused = |message: String| DataError::file(path, message);
        validate_ends(&mut file).map_err(&refused)?;
        let opened = guarded(|| {
            let file = SerializedFileReader::new(file)?;
            let schema = file.metadata().file_metadata().schema();
            let columns = Arc::new(SchemaDescriptor::new(Arc::new(projection(schema, columns))));
            Ok((file, columns))
        });
        let (file, columns) = opened.map_err(|error| refused(unreadable(&error)))?;
        for column in columns.columns() {
            if is_interval(column) {
                let allowed = "allowed: texts, numbers, true and false, dates, times, and lists and structures of them";
                let name = column.path().parts().first().map_or("", String::as_str);
                return Err(refused(format!("column `{name}` has the type INTERVAL, {allowed}")));
            }
        }
        if let Some(unread) = unread_compression(&file) {
            let allowed = "allowed: Snappy, gzip, zstd, LZ4, or none";
            return Err(refused(format!("is compressed by {unread}, {allowed}")));
        }
        let fields = file.metadata().file_metadata().schema().get_fields();
        let names = fields.iter().map(|field| field.name()).collect::<Vec<_>>().join(", ").into();
        Ok(Self { path, limits, cancel, file, columns, names, next_group: 0, records: None, next_row: 0 })
    }

    /// The next record of the file; `None` after the last one.
    fn record(&mut self) -> Result<Option<record::Row>, ParquetError> {
        loop {
            if let Some(record) = self.records.as_mut().and_then(Iterator::next) {
                return record.map(Some);
            }
            if self.next_group == self.file.num_row_groups() {
                return Ok(None);
            }
            let group = self.file.get_row_group(self.next_group)?;
            let builder = TreeBuilder::new().with_batch_size(batch_size(group.metadata(), &self.columns));
            self.records = Some(builder.as_iter(Arc::clone(&self.columns), group.as_ref())?);
            self.next_group += 1;
        }
    }

    fn refused(&self, message: String) -> DataError {
        DataError::file(self.path, message)
    }
}

impl RowReader for ParquetRows<'_> {
    fn read(&mut self) -> Result<Option<DataRow>, ReadError> {
        Cancelled::check(self.cancel).map_err(DataError::from)?;
        let record = guarded(|| self.record()).map_err(|error| self.refused(undecodable(&error)))?;
        let Some(record) = record else { return Ok(None) };
        let most_rows = self.limits.max_rows;
        let place = RowLocation::Row(self.next_row + 1);
        if self.next_row >= most_rows {
            let message = format!("{place}: exceeds the limit of {most_rows} rows (limits.max_rows)");
            return Err(self.refused(message).into());
        }
        self.next_row += 1;
        let row = row(record, self.columns.root_schema());
        let most_bytes = self.limits.max_row_bytes;
        if most_bytes < usize::MAX && row.values().map(text_bytes).sum::<usize>() > most_bytes {
            let message = format!("longer than {most_bytes} bytes, allowed: at most {most_bytes}");
            return Err(ReadError::Row(place, RowError::new(Reason::InvalidRow, message)));
        }
        Ok(Some(DataRow::of_table(place, row, Arc::clone(&self.names))))
    }
}

/// A compression of the file's that the decoder was built without.
fn unread_compression(file: &SerializedFileReader<File>) -> Option<&'static str> {
    file.metadata().row_groups().iter().flat_map(RowGroupMetaData::columns).find_map(|column| {
        match column.compression() {
            Compression::BROTLI(_) => Some("Brotli"),
            Compression::LZO => Some("LZO"),
            _ => None,
        }
    })
}

/// The library checks most of what it reads; a file that gets past its checks must not end the process.
fn guarded<T>(read: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, ParquetError> {
    catch_unwind(AssertUnwindSafe(read))
        .unwrap_or_else(|_| Err(ParquetError::General("the decoder failed in a way that it did not expect".to_owned())))
}

/// Looks at both ends of a file, which say more plainly than the decoder what is wrong with it.
fn validate_ends(file: &mut File) -> Result<(), String> {
    let ends = |file: &mut File| {
        let bytes = file.seek(SeekFrom::End(0))?;
        let mut first = [0; 4];
        let mut last = [0; 4];
        if bytes >= MIN_BYTES {
            file.seek(SeekFrom::End(-4))?;
            file.read_exact(&mut last)?;
            file.rewind()?;
            file.read_exact(&mut first)?;
            file.rewind()?;
        }
        std::io::Result::Ok((bytes, first, last))
    };
    let (bytes, first, last) = ends(file).map_err(|error| format!("cannot be read: {error}"))?;
    match (bytes, &first, &last) {
        (0, ..) => Err("is empty, allowed: a parquet file".to_owned()),
        (..MIN_BYTES, ..) => Err(format!("has {bytes} bytes, too few for a parquet file")),
        (_, _, b"PARE") => Err("is encrypted, allowed: a parquet file without encryption".to_owned()),
        (_, _, b"PAR1") => Ok(()),
        (_, b"PAR1" | b"PARE", _) => Err("is cut off: a parquet file ends with its footer".to_owned()),
        _ => Err("is not a parquet file: it neither begins nor ends like one".to_owned()),
    }
}

fn unreadable(error: &ParquetError) -> String {
    format!("is cut off or broken: {error}")
}

/// The decoder takes an encrypted column for a damaged one. It quotes the bytes of a text that is none, however many
/// there are.
fn undecodable(error: &ParquetError) -> String {
    let error = error.to_string();
    let shown = error.chars().take(MAX_ERROR_CHARS).collect::<String>();
    let cut = if shown.len() < error.len() { "…" } else { "" };
    format!("cannot be decoded, so it is damaged or its columns are encrypted: {shown}{cut}")
}

/// Values that are decoded together: fewer where rows are large.
fn batch_size(group: &RowGroupMetaData, columns: &SchemaDescriptor) -> usize {
    let read = |path| columns.columns().iter().any(|column| column.path() == path);
    let sizes = group.columns().iter().filter(|column| read(column.column_path()));
    let bytes: i64 = sizes.map(|column| column.uncompressed_size()).sum();
    let row = (bytes.max(0) / group.num_rows().max(1)).max(1).cast_unsigned();
    usize::try_from(BATCH_BYTES / row).unwrap_or(MAX_BATCH_ROWS).clamp(1, MAX_BATCH_ROWS)
}

/// Bytes of text in a value.
fn text_bytes(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(values) => values.iter().map(text_bytes).sum(),
        Value::Object(values) => values.iter().map(|(name, value)| name.len() + text_bytes(value)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}
