//! Linear layers as products of the library.

use candle_core::Tensor;
use evenkeel_kernels::{ColumnSum, Operand, Pointer, Product, Type, add_bias};

use super::{Cuda, Device, Gradient, Matrix};
use crate::error::Result;
use crate::kernels::{JoinedProducts, Linear};

impl<D: Device> Linear for Cuda<D> {
    fn linear(
        &self,
        x: &Self::Matrix,
        weight: &Tensor,
        bias: Option<&Tensor>,
        add: Option<&Self::Matrix>,
    ) -> Result<Self::Matrix> {
        let (out, input) = weight.dims2()?;
        let y = self.blank(x.rows(), out)?;
        let weight = self.weight(weight)?;
        let factor = Operand::rows(weight.at, self.kind, input).t();
        let product = Product::new([x.rows(), input, out], x.operand(0), factor, y.operand(0));
        self.multiply(product.plus(add.map_or(Pointer::NULL, Matrix::at)))?;
        if let Some(bias) = bias {
            let at = self.device.parameter(bias, Type::F32)?;
            self.run(add_bias(self.device.properties(), self.kind, [y.rows(), out], y.at(), at))?;
        }
        Ok(y)
    }

    fn linear_backward_input(
        &self,
        dy: &Self::Matrix,
        weight: &Tensor,
        into: Option<Self::Matrix>,
    ) -> Result<Self::Matrix> {
        let (out, input) = weight.dims2()?;
        let added = into.as_ref().map_or(Pointer::NULL, Matrix::at);
        let dx = into.map_or_else(|| self.blank(dy.rows(), input), Ok)?;
        let weight = self.weight(weight)?;
        let factor = Operand::rows(weight.at, self.kind, input);
        self.multiply(Product::new([dy.rows(), out, input], dy.operand(0), factor, dx.operand(0)).plus(added))?;
        Ok(dx)
    }

    fn linear_backward_weight(
        &self,
        dy: &Self::Matrix,
        x: &Self::Matrix,
        weight: &mut Gradient<D::Memory>,
    ) -> Result<()> {
        self.add_weight_gradient(dy.rows(), (dy.operand(0), dy.width()), (x.operand(0), x.width()), weight)
    }

    fn linear_backward_bias(&self, dy: &Self::Matrix, bias: &mut Gradient<D::Memory>) -> Result<()> {
        self.add_columns(ColumnSum { kind: dy.kind(), rows: dy.rows(), width: dy.width() }, dy.at(), bias)
    }

    fn joined(&self) -> Option<&dyn JoinedProducts<Self::Matrix, Self::Gradient>> {
        if self.variants.joined_products { Some(self) } else { None }
    }
}

impl<D: Device> Cuda<D> {
    /// Adds dyᵀ x of this many rows to a gradient, in fp32.
    pub(super) fn add_weight_gradient(
        &self,
        rows: usize,
        (dy, out): (Operand, usize),
        (x, input): (Operand, usize),
        weight: &Gradient<D::Memory>,
    ) -> Result<()> {
        let to = Operand::rows(weight.at(), Type::F32, input);
        self.multiply(Product::new([out, rows, input], dy.t(), x, to).plus(weight.at()))
    }
}
