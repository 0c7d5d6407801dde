//! Parquet files, batch by batch, and only the columns that somebody asked for.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use ::parquet::arrow::ProjectionMask;
use ::parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use ::parquet::errors::ParquetError;
use ::parquet::file::metadata::ParquetMetaData;
use arrow_array::RecordBatch;
use arrow_schema::{Fields, Schema};
use serde_json::{Map, Value};

use super::arrow::{Values, values, viewed};
use super::{Columns, Limits, ReadError, RowReader};
use crate::row::RowLocation;
use crate::{Cancel, DataError, Reason, Row, RowError};

/// The smallest file: its magic number twice, and the length of the footer between.
const MIN_BYTES: u64 = 12;
/// Most rows that are decoded together.
const MAX_BATCH_ROWS: usize = 1024;
/// Bytes that are decoded together, as far as the footer lets expect.
const BATCH_BYTES: u64 = 16 << 20;

/// The rows of a file, up to where it cannot be read any further.
pub(super) struct Table<'a> {
    path: &'a Path,
    limits: &'a Limits,
    cancel: &'a Cancel,
    batches: ParquetRecordBatchReader,
    /// All columns, for messages.
    names: Arc<str>,
    batch: Vec<(String, Values)>,
    batch_rows: std::ops::Range<usize>,
    next_row: usize,
}

impl<'a> Table<'a> {
    pub(super) fn open(
        path: &'a Path,
        mut file: File,
        columns: &Columns,
        limits: &'a Limits,
        cancel: &'a Cancel,
    ) -> Result<Self, DataError> {
        let refused = |message: String| DataError::file(path, message);
        validate_ends(&mut file).map_err(&refused)?;
        let unreadable = |error: ParquetError| refused(unreadable(&error));
        let parsed = catch_unwind(AssertUnwindSafe(|| {
            // Without the hints of writers every column has one of a few types: no dictionaries, no fixed-size or large lists.
            let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
            let plain = ArrowReaderMetadata::load(&file, options.clone())?;
            let fields: Fields = plain.schema().fields().iter().map(|field| viewed(field)).collect();
            let schema = Schema::new_with_metadata(fields, plain.schema().metadata().clone());
            ArrowReaderMetadata::try_new(Arc::clone(plain.metadata()), options.with_schema(Arc::new(schema)))
        }));
        let metadata = parsed.unwrap_or_else(|_| Err(defect())).map_err(&unreadable)?;
        let leaves: Vec<usize> = (0..metadata.parquet_schema().num_columns())
            .filter(|leaf| columns.take(metadata.parquet_schema().column(*leaf).path().parts()))
            .collect();
        let names: Vec<_> = metadata.schema().fields().iter().map(|field| field.name().as_str()).collect();
        let names = names.join(", ").into();
        let batch_size = batch_size(metadata.metadata(), &leaves);
        let mask = ProjectionMask::leaves(metadata.parquet_schema(), leaves);
        let batches = ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata)
            .with_batch_size(batch_size)
            .with_projection(mask)
            .build()
            .map_err(&unreadable)?;
        Ok(Self { path, limits, cancel, batches, names, batch: Vec::new(), batch_rows: 0..0, next_row: 0 })
    }

    fn values(&self, batch: &RecordBatch) -> Result<Vec<(String, Values)>, DataError> {
        let schema = batch.schema();
        let columns = schema.fields().iter().zip(batch.columns());
        let columns = columns.map(|(field, column)| {
            let values = values(column).map_err(|data_type| {
                let allowed = "allowed: texts, numbers, true and false, and lists and structures of them";
                self.refused(format!("column `{}` has the type {data_type}, {allowed}", field.name()))
            })?;
            Ok((field.name().clone(), values))
        });
        columns.collect()
    }

    fn refused(&self, message: String) -> DataError {
        DataError::file(self.path, message)
    }
}

impl RowReader for Table<'_> {
    fn read(&mut self) -> Result<Option<Row>, ReadError> {
        while self.batch_rows.is_empty() {
            self.cancel.check().map_err(DataError::from)?;
            // Its decoders check what they read; a file that gets past them must not end the process.
            let decoded = catch_unwind(AssertUnwindSafe(|| self.batches.next()));
            let batch = match decoded {
                Ok(None) => return Ok(None),
                Ok(Some(Ok(batch))) => batch,
                Ok(Some(Err(error))) => return Err(self.refused(undecodable(&error)).into()),
                Err(_) => return Err(self.refused(undecodable(defect())).into()),
            };
            self.batch = self.values(&batch)?;
            self.batch_rows = 0..batch.num_rows();
        }
        let Some(row) = self.batch_rows.next() else { return Ok(None) };
        let (index, most_rows) = (self.next_row, self.limits.max_rows);
        if index >= most_rows {
            let message = format!("row {index}: is one more than {most_rows} rows (limits.max_rows)");
            return Err(self.refused(message).into());
        }
        self.next_row += 1;
        let row: Map<_, _> = self.batch.iter().map(|(name, values)| (name.clone(), values(row))).collect();
        let most_bytes = self.limits.max_row_bytes;
        if most_bytes < usize::MAX && row.values().map(text_bytes).sum::<usize>() > most_bytes {
            let message = format!("longer than {most_bytes} bytes, allowed: at most {most_bytes}");
            return Err(ReadError::Row(RowLocation::Row(index), RowError::new(Reason::InvalidRow, message)));
        }
        Ok(Some(Row::of_table(index, row, Arc::clone(&self.names))))
    }
}

/// Looks at both ends of a file, which say more plainly than the decoder what is wrong with it.
fn validate_ends(file: &mut File) -> Result<(), String> {
    let ends = |file: &mut File| {
        let bytes = file.seek(SeekFrom::End(0))?;
        let (mut first, mut last) = ([0; 4], [0; 4]);
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
        (..MIN_BYTES, ..) => Err(format!("has {bytes} bytes, which is no parquet file")),
        (_, _, b"PARE") => Err("is encrypted, allowed: a parquet file without encryption".to_owned()),
        (_, _, b"PAR1") => Ok(()),
        (_, b"PAR1" | b"PARE", _) => Err("is cut off: a parquet file ends with its footer".to_owned()),
        _ => Err("is no parquet file: it neither begins nor ends like one".to_owned()),
    }
}

fn unreadable(error: &ParquetError) -> String {
    format!("is cut off or broken: {error}")
}

/// The decoder takes an encrypted column for a damaged one.
fn undecodable(error: impl std::fmt::Display) -> String {
    format!("cannot be decoded, so it is damaged or its columns are encrypted: {error}")
}

fn defect() -> ParquetError {
    ParquetError::General("the decoder failed in a way that it did not expect".to_owned())
}

/// Rows that are decoded together: fewer where rows are large.
fn batch_size(metadata: &ParquetMetaData, leaves: &[usize]) -> usize {
    let bytes_of_row = metadata.row_groups().iter().filter(|group| group.num_rows() > 0).map(|group| {
        let bytes: i64 = leaves.iter().map(|leaf| group.column(*leaf).uncompressed_size()).sum();
        bytes.max(0).cast_unsigned() / group.num_rows().max(1).cast_unsigned()
    });
    let largest = bytes_of_row.max().unwrap_or(0).max(1);
    usize::try_from(BATCH_BYTES / largest).unwrap_or(MAX_BATCH_ROWS).clamp(1, MAX_BATCH_ROWS)
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
