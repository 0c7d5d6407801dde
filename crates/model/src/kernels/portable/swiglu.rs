//! The gated activation of the feed-forward block, in fp32.

use candle_core::{DType, Tensor};

use super::Portable;
use crate::error::Result;
use crate::kernels::SwiGlu;

impl SwiGlu for Portable {
    fn swiglu(&self, gate: &Tensor, up: &Tensor) -> Result<Tensor> {
        let gate = gate.to_dtype(DType::F32)?;
        let y = (&gate * sigmoid(&gate)?)?.mul(&up.to_dtype(DType::F32)?)?;
        Ok(y.to_dtype(self.dtype)?)
    }

    fn swiglu_backward(&self, dy: &Tensor, gate: &Tensor, up: &Tensor) -> Result<[Tensor; 2]> {
        let dy = dy.to_dtype(DType::F32)?;
        let gate = gate.to_dtype(DType::F32)?;
        let up = up.to_dtype(DType::F32)?;
        let s = sigmoid(&gate)?;
        let silu = (&gate * &s)?;
        let dup = (&dy * &silu)?;
        // d silu / d gate = s + silu (1 - s)
        let slope = (&s + (&silu - (&silu * &s)?)?)?;
        let dgate = ((dy * up)? * slope)?;
        Ok([dgate.to_dtype(self.dtype)?, dup.to_dtype(self.dtype)?])
    }
}

fn sigmoid(x: &Tensor) -> Result<Tensor> {
    Ok((x.neg()?.exp()? + 1.0)?.recip()?)
}
