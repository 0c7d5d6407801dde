//! RMSNorm of rows and of heads.

use candle_core::Tensor;
use evenkeel_kernels::{ColumnSum, Norm, NormBackward, Pointer, Type};

use super::{Cuda, Device, Gradient, Matrix};
use crate::error::{ModelError, Result};
use crate::kernels::RmsNorm;

impl<D: Device> RmsNorm for Cuda<D> {
    fn rms_norm(&self, x: &Self::Matrix, weight: &Tensor, epsilon: f64) -> Result<Self::Matrix> {
        let y = self.blank(x.rows(), x.width())?;
        let at = self.device.parameter(weight, Type::F32)?;
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
            weight: self.device.parameter(weight, Type::F32)?,
            into: added,
            dx: dx.at(),
            partial: parts.at(),
        };
        self.run(norm.backward(properties, at))?;
        self.add_columns(ColumnSum { kind: Type::F32, rows: parts.rows(), width: parts.width() }, parts.at(), grad)?;
        Ok(dx)
    }

    fn takes_sums(&self, width: usize) -> bool {
        self.variants.lean_memory && Norm { kind: self.kind, runs: 0, width, epsilon: 0.0 }.holds_rows()
    }

    fn norm_of_sum(
        &self,
        x: &Self::Matrix,
        residual: &Self::Matrix,
        weight: &Tensor,
        epsilon: f64,
    ) -> Result<[Self::Matrix; 2]> {
        let [sum, y] = [self.blank(x.rows(), x.width())?, self.blank(x.rows(), x.width())?];
        let at = self.device.parameter(weight, Type::F32)?;
        let inputs = [x.at(), residual.at()];
        let launch = norm_of(x, weight, epsilon)
            .forward_of_sum(self.device.properties(), inputs, at, [sum.at(), y.at()])
            .map_err(ModelError::Input)?;
        let refused =
            || ModelError::input("width of rows that are summed and normalised", x.width(), "one that is taken");
        self.device.launch(&launch.ok_or_else(refused)?)?;
        Ok([sum, y])
    }
}

fn norm_of<M>(x: &Matrix<M>, weight: &Tensor, epsilon: f64) -> Norm {
    let width = weight.elem_count();
    Norm { kind: x.kind(), runs: x.values() / width.max(1), width, epsilon: epsilon as f32 }
}
