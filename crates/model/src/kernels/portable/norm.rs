//! RMSNorm in fp32, by candle's operations.

use candle_core::{D, DType, Tensor};

use super::{Portable, accumulate, plus};
use crate::error::Result;
use crate::kernels::RmsNorm;

impl RmsNorm for Portable {
    fn rms_norm(&self, x: &Tensor, weight: &Tensor, epsilon: f64) -> Result<Tensor> {
        let (groups, inverse) = normalise(x, weight, epsilon)?;
        let y = groups.broadcast_mul(&inverse)?.broadcast_mul(weight)?;
        Ok(y.reshape(x.shape())?.to_dtype(self.dtype)?)
    }

    fn rms_norm_backward(
        &self,
        dy: &Tensor,
        x: &Tensor,
        weight: &Tensor,
        epsilon: f64,
        grad: &mut Tensor,
        into: Option<Tensor>,
    ) -> Result<Tensor> {
        let (groups, inverse) = normalise(x, weight, epsilon)?;
        let dy = dy.to_dtype(DType::F32)?.reshape(groups.shape())?;
        let unit = groups.broadcast_mul(&inverse)?;
        accumulate(grad, &(&dy * &unit)?.sum(0)?)?;
        let dunit = dy.broadcast_mul(weight)?;
        let along = (&dunit * &unit)?.mean_keepdim(D::Minus1)?;
        let dx = (dunit - unit.broadcast_mul(&along)?)?.broadcast_mul(&inverse)?;
        plus(into, dx.reshape(x.shape())?.to_dtype(self.dtype)?)
    }
}

/// x as (groups, d) in fp32, and 1 / rms of each group, (groups, 1).
fn normalise(x: &Tensor, weight: &Tensor, epsilon: f64) -> Result<(Tensor, Tensor)> {
    let groups = x.to_dtype(DType::F32)?.reshape(((), weight.elem_count()))?;
    let inverse = (groups.sqr()?.mean_keepdim(D::Minus1)? + epsilon)?.sqrt()?.recip()?;
    Ok((groups, inverse))
}
