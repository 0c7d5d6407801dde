//! Rows selected and scattered back.

use candle_core::Tensor;

use super::rows_of_weights::copy_rows;
use super::{Cpu, Matrix, simd};
use crate::error::Result;
use crate::kernels::Rows;

impl Rows for Cpu {
    fn embed(&self, table: &Tensor, ids: &[u32]) -> Result<Matrix> {
        let (_, width) = table.dims2()?;
        let mut x = Matrix::uninitialized(ids.len(), width);
        copy_rows(table, ids.iter().map(|&id| id as usize).zip(x.chunks_exact_mut(width.max(1))))?;
        Ok(x)
    }

    fn embed_backward(&self, dy: &Matrix, ids: &[u32], table: &mut Vec<f32>) -> Result<()> {
        let width = dy.width();
        for (row, &id) in ids.iter().enumerate() {
            simd::add(&mut table[id as usize * width..][..width], dy.row(row));
        }
        Ok(())
    }

    fn select_rows(&self, x: &Matrix, rows: &[u32]) -> Result<Matrix> {
        let mut y = Matrix::uninitialized(rows.len(), x.width());
        for (to, &from) in rows.iter().enumerate() {
            y.row_mut(to).copy_from_slice(x.row(from as usize));
        }
        Ok(y)
    }

    fn scatter_rows(&self, dy: &Matrix, rows: &[u32], total: usize) -> Result<Matrix> {
        let mut dx = Matrix::zeros(total, dy.width());
        for (from, &to) in rows.iter().enumerate() {
            simd::add(dx.row_mut(to as usize), dy.row(from));
        }
        Ok(dx)
    }
}
