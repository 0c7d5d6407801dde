//! The kernels as candle tensor operations, for any device and compute type.
//!
//! Norms, softmaxes, the rotation and every sum that a gradient depends on run in fp32; matrix products run in the
//! compute type. Only operators without a hidden fast path are used, and none of them under autograd.

mod adamw;
mod attention;
mod cached_attention;
mod head;
mod linear;
mod norm;
mod reductions;
mod rotary;
mod rows;
mod swiglu;

pub use adamw::ParameterMoments;
pub use cached_attention::Cache;
pub use reductions::{dot, global_norm, products_of, squares_of};
pub use rotary::RotaryTable;

use candle_core::{DType, Device, Tensor};

use super::Arrays;
use crate::error::{ModelError, Result};

/// Candle tensor operations on one device in one compute type.
#[derive(Clone, Debug)]
pub struct Portable {
    device: Device,
    dtype: DType,
}

impl Portable {
    /// Kernels that compute in `dtype` (F32, BF16 or F16) on `device`.
    pub fn new(device: Device, dtype: DType) -> Result<Self> {
        match dtype {
            DType::F32 | DType::BF16 | DType::F16 => Ok(Self { device, dtype }),
            other => Err(ModelError::input("compute type", format!("{other:?}"), "F32, BF16 or F16")),
        }
    }

    fn cast(&self, parameter: &Tensor) -> Result<Tensor> {
        Ok(parameter.to_dtype(self.dtype)?)
    }

    fn indices(&self, ids: &[u32]) -> Result<Tensor> {
        Ok(Tensor::from_slice(ids, ids.len(), &self.device)?)
    }
}

impl Arrays for Portable {
    type Matrix = Tensor;
    type Gradient = Tensor;

    fn zero_gradient(&self, parameter: &Tensor) -> Result<Tensor> {
        Ok(parameter.zeros_like()?)
    }

    fn add_gradient(&self, into: &mut Tensor, other: Tensor) -> Result<()> {
        *into = (&*into + &other)?;
        Ok(())
    }

    fn gradient_tensor(&self, gradient: Tensor, _parameter: &Tensor) -> Result<Tensor> {
        Ok(gradient.contiguous()?)
    }

    fn to_host(&self, matrix: &Tensor) -> Result<Vec<f32>> {
        Ok(matrix.to_dtype(DType::F32)?.flatten_all()?.to_vec1()?)
    }
}

/// Adds a gradient computed in the compute type to an fp32 sum.
fn accumulate(sum: &mut Tensor, part: &Tensor) -> Result<()> {
    *sum = (&*sum + part.to_dtype(DType::F32)?)?;
    Ok(())
}

/// a + b, or b without an a.
fn plus(a: Option<Tensor>, b: Tensor) -> Result<Tensor> {
    Ok(match a {
        Some(a) => (a + b)?,
        None => b,
    })
}
