//! RMSNorm of rows and of heads.

use candle_core::Tensor;
use evenkeel_kernels::{ColumnSum, Norm, NormBackward, Pointer, Type};

use super::{Cuda, Device, Gradient, Matrix};
use crate::error::Result;
use crate::kernels::RmsNorm;

impl<D: Device> RmsNorm for Cuda<D> {
    fn rms_norm(&self, x: &Self::Matrix, weight: &Tensor, epsilon: f64) -> Result<Self::Matrix> {
        let y = self.blank(x.rows(), x.width())?;
        let at = self.device.parameter(weight)?;
        self.run(norm_of(x, weight, epsilon).forward(self.device.properties(), x.at(), at, y.at()))?;
        Ok(y)
    }

    fn rms_norm_backward(
        &self,
        dy: &Self::Matrix,
        x: &Self::Matrix,
        weight: &Tensor,
        epsilon: f64,
        grad: &mut Gradient<D::Memory>,
        into: Option<Self::Matrix>,
    ) -> Result<Self::Matrix> {
        let norm = norm_of(x, weight, epsilon);
        let properties = self.device.properties();
        let added = into.as_ref().map_or(Pointer::NULL, Matrix::at);
        let dx = into.map_or_else(|| self.blank(x.rows(), x.width()), Ok)?;
        let parts = self.blank_of(Type::F32, norm.partial_rows(properties), norm.width)?;
        let at = NormBackward {
            dy: dy.at(),
            x: x.at(),
            weight: self.device.parameter(weight)?,
            into: added,
            dx: dx.at(),
            partial: parts.at(),
        };
        self.run(norm.backward(properties, at))?;
        self.add_columns(ColumnSum { kind: Type::F32, rows: parts.rows(), width: parts.width() }, parts.at(), grad)?;
        Ok(dx)
    }
}

fn norm_of<M>(x: &Matrix<M>, weight: &Tensor, epsilon: f64) -> Norm {
    let width = weight.elem_count();
    Norm { kind: x.kind(), runs: x.values() / width.max(1), width, epsilon: epsilon as f32 }
}
