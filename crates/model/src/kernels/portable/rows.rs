//! Rows selected and scattered back.

use candle_core::{DType, Tensor};

use super::{Portable, accumulate};
use crate::error::Result;
use crate::kernels::Rows;

impl Rows for Portable {
    fn embed(&self, table: &Tensor, ids: &[u32]) -> Result<Tensor> {
        Ok(table.index_select(&self.indices(ids)?, 0)?.to_dtype(self.dtype)?)
    }

    fn embed_backward(&self, dy: &Tensor, ids: &[u32], table: &mut Tensor) -> Result<()> {
        // In fp32: a frequent token's rows would saturate a narrower sum.
        let rows = table.zeros_like()?.index_add(&self.indices(ids)?, &dy.to_dtype(DType::F32)?, 0)?;
        accumulate(table, &rows)
    }

    fn select_rows(&self, x: &Tensor, rows: &[u32]) -> Result<Tensor> {
        Ok(x.index_select(&self.indices(rows)?, 0)?)
    }

    fn scatter_rows(&self, dy: &Tensor, rows: &[u32], total: usize) -> Result<Tensor> {
        let zeros = Tensor::zeros((total, dy.dim(1)?), dy.dtype(), dy.device())?;
        Ok(zeros.index_add(&self.indices(rows)?, dy, 0)?)
    }
}
