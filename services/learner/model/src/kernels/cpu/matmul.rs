//! Matrix products by the `gemm` crate (candle's own), on one thread, over views that are checked here.

use gemm::{Parallelism, gemm};

/// `gemm` cuts the inner dimension where it no longer fits a cache, at places that depend on all three sizes. Cut
/// here at fixed places instead, so that a result's bits depend on its own row and column alone.
const INNER: usize = 512;

/// A matrix to read: element (i, j) lies at i * row_stride + j * column_stride.
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

    /// Its transpose.
    pub(super) fn t(self) -> Self {
        Self {
            rows: self.columns,
            columns: self.rows,
            row_stride: self.column_stride,
            column_stride: self.row_stride,
            ..self
        }
    }

    fn end(&self) -> usize {
        match (self.rows, self.columns) {
            (0, _) | (_, 0) => 0,
            (rows, columns) => (rows - 1) * self.row_stride + (columns - 1) * self.column_stride + 1,
        }
    }
}

/// What becomes of the values that the destination holds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Into {
    /// They are replaced.
    Set,
    /// The product is added to them.
    Add,
}

/// c = alpha a b, or c += alpha a b; c is row-major with rows `c_stride` apart.
///
/// # Panics
/// Where the shapes disagree or reach beyond the slices: a mistake of this crate.
pub(super) fn matmul(c: &mut [f32], c_stride: usize, a: View<'_>, b: View<'_>, alpha: f32, into: Into) {
    let (m, n, inner) = (a.rows, b.columns, a.columns);
    assert_eq!(inner, b.rows, "inner dimensions of a product");
    assert!(m == 0 || n == 0 || (m - 1) * c_stride + n <= c.len(), "destination of a product");
    assert!(n <= c_stride || m <= 1, "rows of a destination overlap");
    assert!(a.end() <= a.data.len() && b.end() <= b.data.len(), "operands of a product");
    let mut done = 0;
    while done < inner || (done == 0 && into == Into::Set) {
        let step = INNER.min(inner - done);
        let add = into == Into::Add || done > 0;
        // SAFETY: every element that gemm reads or writes lies within the slices, by the assertions above; `c` is
        // borrowed exclusively, so it overlaps neither operand.
        #[expect(unsafe_code, reason = "gemm takes raw pointers")]
        unsafe {
            gemm(
                m,
                n,
                step,
                c.as_mut_ptr(),
                1,
                c_stride as isize,
                add,
                a.data.as_ptr().wrapping_add(done * a.column_stride),
                a.column_stride as isize,
                a.row_stride as isize,
                b.data.as_ptr().wrapping_add(done * b.row_stride),
                b.column_stride as isize,
                b.row_stride as isize,
                1.0,
                alpha,
                false,
                false,
                false,
                Parallelism::None,
            );
        }
        done += step.max(1);
    }
}
