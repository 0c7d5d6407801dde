//! Linear layers of one input as one product: a variant.

use std::ops::Range;

use candle_core::Tensor;
use evenkeel_kernels::{Operand, Pointer, Product, RowCopy, columns, swiglu_joined, swiglu_joined_backward};

use super::{Cuda, Device, Gradient, Matrix};
use crate::error::Result;
use crate::kernels::JoinedProducts;

impl<D: Device> JoinedProducts<Matrix<D::Memory>, Gradient<D::Memory>> for Cuda<D> {
    fn multiply(&self, x: &Matrix<D::Memory>, weights: &[&Tensor]) -> Result<Matrix<D::Memory>> {
        let out = rows_of(weights)?;
        let y = self.blank(x.rows(), out)?;
        let weight = self.weights(weights)?;
        let factor = Operand::rows(weight.at, self.kind, x.width()).t();
        self.multiply(Product::new([x.rows(), x.width(), out], x.operand(0), factor, y.operand(0)))?;
        Ok(y)
    }

    fn backward_input(&self, dy: &Matrix<D::Memory>, weights: &[&Tensor]) -> Result<Matrix<D::Memory>> {
        let out = rows_of(weights)?;
        let input = weights.first().map_or(Ok(0), |weight| weight.dim(1))?;
        let dx = self.blank(dy.rows(), input)?;
        let weight = self.weights(weights)?;
        let factor = Operand::rows(weight.at, self.kind, input);
        self.multiply(Product::new([dy.rows(), out, input], dy.operand(0), factor, dx.operand(0)))?;
        Ok(dx)
    }

    fn backward_weight(
        &self,
        dy: &Matrix<D::Memory>,
        columns: Range<usize>,
        x: &Matrix<D::Memory>,
        weight: &mut Gradient<D::Memory>,
    ) -> Result<()> {
        let part = Operand::rows(column(dy, columns.start), dy.kind(), dy.width());
        self.add_weight_gradient(dy.rows(), (part, columns.len()), (x.operand(0), x.width()), weight)
    }

    fn split(&self, joined: &Matrix<D::Memory>, widths: &[usize]) -> Result<Vec<Matrix<D::Memory>>> {
        let mut first = 0;
        let part = |&width: &usize| {
            let part = self.blank(joined.rows(), width)?;
            self.copy_columns([joined.rows(), width], (column(joined, first), joined.width()), (part.at(), width))?;
            first += width;
            Ok(part)
        };
        widths.iter().map(part).collect()
    }

    fn join(&self, parts: &[&Matrix<D::Memory>]) -> Result<Matrix<D::Memory>> {
        let rows = parts.first().map_or(0, |part| part.rows());
        let joined = self.blank(rows, parts.iter().map(|part| part.width()).sum())?;
        let mut first = 0;
        for part in parts {
            let to = (column(&joined, first), joined.width());
            self.copy_columns([rows, part.width()], (part.at(), part.width()), to)?;
            first += part.width();
        }
        Ok(joined)
    }

    fn swiglu(&self, joined: &Matrix<D::Memory>) -> Result<Matrix<D::Memory>> {
        let y = self.blank(joined.rows(), joined.width() / 2)?;
        let shape = [y.rows(), y.width()];
        self.run(swiglu_joined(self.device.properties(), joined.kind(), shape, joined.at(), y.at()))?;
        Ok(y)
    }

    fn swiglu_backward(&self, dy: &Matrix<D::Memory>, joined: &Matrix<D::Memory>) -> Result<Matrix<D::Memory>> {
        let result = self.blank(joined.rows(), joined.width())?;
        let shape = [dy.rows(), dy.width()];
        let properties = self.device.properties();
        self.run(swiglu_joined_backward(properties, dy.kind(), shape, dy.at(), joined.at(), result.at()))?;
        Ok(result)
    }
}

impl<D: Device> Cuda<D> {
    /// Copies (rows, width) between addresses whose rows begin so many values apart.
    fn copy_columns(
        &self,
        [rows, width]: [usize; 2],
        (from, from_stride): (Pointer, usize),
        (to, to_stride): (Pointer, usize),
    ) -> Result<()> {
        let copy = RowCopy { kind: self.kind, rows, width };
        self.run(columns(self.device.properties(), copy, from, to, [from_stride, to_stride]))
    }
}

fn rows_of(weights: &[&Tensor]) -> candle_core::Result<usize> {
    weights.iter().map(|weight| weight.dim(0)).sum()
}

/// Address of a column's first value.
fn column<M>(matrix: &Matrix<M>, column: usize) -> Pointer {
    Pointer(matrix.at().0 + (column * matrix.kind().size()) as u64)
}
