//! Operands of matrix products.

use candle_core::Tensor;

/// `gemm` cuts the inner dimension if it does not fit a cache, at positions that depend on all three sizes and on the
/// CPU, but never below this. It is cut at fixed positions here instead, so that a result's bits depend on its own row
/// and column alone.
pub(super) const INNER: usize = 512;

/// A read-only matrix: element (i, j) is at i * row_stride + j * column_stride.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) data: &'a [f32],
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) row_stride: usize,
    pub(super) column_stride: usize,
}

impl<'a> View<'a> {
    /// A row-major matrix whose rows are `row_stride` apart.
    pub(super) fn rows_of(data: &'a [f32], rows: usize, columns: usize, row_stride: usize) -> Self {
        Self { data, rows, columns, row_stride, column_stride: 1 }
    }

    /// The values of a tensor of rank 2 from its first one on, in any strides.
    pub(super) fn of_matrix(data: &'a [f32], tensor: &Tensor) -> Self {
        let dims = tensor.dims();
        let strides = tensor.stride();
        Self { data, rows: dims[0], columns: dims[1], row_stride: strides[0], column_stride: strides[1] }
    }

    /// Columns of all rows.
    pub(super) fn columns(self, first: usize, columns: usize) -> Self {
        Self { data: &self.data[first * self.column_stride..], columns, ..self }
    }

    /// Rows of all columns.
    pub(super) fn rows(self, first: usize, rows: usize) -> Self {
        Self { data: &self.data[first * self.row_stride..], rows, ..self }
    }

    /// Rows as columns, and columns as rows.
    pub(super) fn t(self) -> Self {
        Self {
            rows: self.columns,
            columns: self.rows,
            row_stride: self.column_stride,
            column_stride: self.row_stride,
            ..self
        }
    }

    pub(super) fn end(&self) -> usize {
        match (self.rows, self.columns) {
            (0, _) | (_, 0) => 0,
            (rows, columns) => (rows - 1) * self.row_stride + (columns - 1) * self.column_stride + 1,
        }
    }
}

/// How a product is stored.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Store {
    /// Replaces the values of the destination.
    Set,
    /// Adds to the values of the destination.
    Add,
}
