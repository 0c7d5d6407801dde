//! Linear layers: three matrix products and a column sum.

use candle_core::Tensor;

use super::matmul::{matmul, reads_weights_by_rows};
use super::rows_of_weights::with_rows;
use super::view::{Store, View};
use super::{Cpu, Matrix, simd, with_values};
use crate::error::Result;
use crate::kernels::Linear;

impl Linear for Cpu {
    fn linear(&self, x: &Matrix, weight: &Tensor, bias: Option<&Tensor>, add: Option<&Matrix>) -> Result<Matrix> {
        let (out, input) = weight.dims2()?;
        let rows = x.rows();
        let mut y = match add {
            Some(add) => add.clone(),
            None => Matrix::uninitialized(rows, out),
        };
        let store = if add.is_some() { Store::Add } else { Store::Set };
        product(&mut y, View::rows_of(x, rows, input, input), weight, 1.0, store)?;
        if let Some(bias) = bias {
            with_values(bias, |bias| y.chunks_exact_mut(out).for_each(|row| simd::add(row, &bias[..out])))?;
        }
        Ok(y)
    }

    fn linear_backward_input(&self, dy: &Matrix, weight: &Tensor, into: Option<Matrix>) -> Result<Matrix> {
        let (out, input) = weight.dims2()?;
        let store = if into.is_some() { Store::Add } else { Store::Set };
        let mut dx = into.unwrap_or_else(|| Matrix::uninitialized(dy.rows(), input));
        with_rows(weight, |first, block| {
            if dy.rows() == 0 {
                return;
            }
            // Rows of a weight are the terms of each sum.
            let dy = View::rows_of(dy, dy.rows(), out, out).columns(first, block.rows);
            matmul(&mut dx, input, dy, block, 1.0, if first > 0 { Store::Add } else { store });
        })?;
        Ok(dx)
    }

    fn linear_backward_weight(&self, dy: &Matrix, x: &Matrix, weight: &mut Vec<f32>) -> Result<()> {
        let rows = x.rows();
        let out = dy.width();
        let input = x.width();
        let dy = View::rows_of(dy, rows, out, out);
        matmul(weight, input, dy.t(), View::rows_of(x, rows, input, input), 1.0, Store::Add);
        Ok(())
    }

    fn linear_backward_bias(&self, dy: &Matrix, bias: &mut Vec<f32>) -> Result<()> {
        dy.chunks_exact(dy.width()).for_each(|row| simd::add(bias, row));
        Ok(())
    }
}

/// y = alpha x Wᵀ, or y += alpha x Wᵀ, for rows of x that follow each other and a weight (out, in).
pub(super) fn product(y: &mut [f32], x: View<'_>, weight: &Tensor, alpha: f32, store: Store) -> Result<()> {
    let (out, input) = weight.dims2()?;
    let rows = x.rows;
    let y = &mut y[..rows * out];
    with_rows(weight, |first, block| {
        // Each row of a weight is a column of the result.
        let least = if reads_weights_by_rows() || block.rows < out { 1 } else { least_rows(out) };
        if rows >= least {
            return matmul(&mut y[first.min(rows * out)..], out, x, block.t(), alpha, store);
        }
        // Padded with rows of zeros, whose results are discarded.
        let mut padded_x = Matrix::zeros(least, input);
        padded_x[..rows * input].copy_from_slice(&x.data[..rows * input]);
        let mut padded_y = Matrix::zeros(least, out);
        padded_y[..y.len()].copy_from_slice(y);
        matmul(&mut padded_y, out, View::rows_of(&padded_x, least, input, input), block.t(), alpha, store);
        let kept = y.len();
        y.copy_from_slice(&padded_y[..kept]);
    })
}

/// From this many rows on `gemm` uses its tiled kernels. A row's bits are the same either way, but without them a row
/// reads the columns of the weight one value at a time.
fn least_rows(out: usize) -> usize {
    (256 / out.max(1) + 1).max(2)
}
