//! Linear layers by candle's operations.

use candle_core::{DType, Tensor};

use super::{Portable, accumulate, plus};
use crate::error::Result;
use crate::kernels::Linear;

impl Linear for Portable {
    fn linear(&self, x: &Tensor, weight: &Tensor, bias: Option<&Tensor>, add: Option<&Tensor>) -> Result<Tensor> {
        let y = x.matmul(&self.cast(weight)?.t()?)?;
        let y = match bias {
            Some(bias) => y.broadcast_add(&self.cast(bias)?)?,
            None => y,
        };
        plus(add.cloned(), y)
    }

    fn linear_backward_input(&self, dy: &Tensor, weight: &Tensor, into: Option<Tensor>) -> Result<Tensor> {
        plus(into, dy.matmul(&self.cast(weight)?)?)
    }

    fn linear_backward_weight(&self, dy: &Tensor, x: &Tensor, weight: &mut Tensor) -> Result<()> {
        accumulate(weight, &dy.t()?.matmul(x)?)
    }

    fn linear_backward_bias(&self, dy: &Tensor, bias: &mut Tensor) -> Result<()> {
        accumulate(bias, &dy.to_dtype(DType::F32)?.sum(0)?)
    }
}
