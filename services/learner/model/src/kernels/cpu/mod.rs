//! Fused kernels over f32 slices, one thread each: parallelism is over micro-batches (training) and sequences
//! (decoding), never inside a kernel, where two threads would wait for each other more than they compute.

mod attention;
mod cached_attention;
mod head;
mod linear;
mod matmul;
mod matrix;
mod norm;
mod rotary;
mod rows;
mod simd;
mod swiglu;

pub use cached_attention::Cache;
pub use matrix::Matrix;
pub use rotary::Table;

use candle_core::{CpuStorage, Storage, Tensor};

use super::Arrays;
use crate::error::{ModelError, Result};

/// The fused f32 kernels. They hold no state; activations are recycled through a list of each thread's own.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cpu;

impl Arrays for Cpu {
    type Matrix = Matrix;
    type Gradient = Vec<f32>;

    fn zero_gradient(&self, parameter: &Tensor) -> Result<Vec<f32>> {
        Ok(vec![0.0; parameter.elem_count()])
    }

    fn add_gradient(&self, into: &mut Vec<f32>, other: &Vec<f32>) -> Result<()> {
        simd::add(into, other);
        Ok(())
    }

    fn gradient_tensor(&self, gradient: Vec<f32>, parameter: &Tensor) -> Result<Tensor> {
        Ok(Tensor::from_vec(gradient, parameter.shape(), parameter.device())?)
    }

    fn to_host(&self, matrix: &Matrix) -> Result<Vec<f32>> {
        Ok(matrix.to_vec())
    }
}

/// Lends the values of an fp32 CPU tensor, from its first element on; strides are the caller's to respect.
fn with_values<R>(tensor: &Tensor, f: impl FnOnce(&[f32]) -> R) -> Result<R> {
    let (storage, layout) = tensor.storage_and_layout();
    match &*storage {
        Storage::Cpu(CpuStorage::F32(values)) => Ok(f(&values[layout.start_offset()..])),
        _ => {
            let found = format!("{:?} on {:?}", tensor.dtype(), tensor.device().location());
            Err(ModelError::input("tensor for the CPU kernels", found, "F32 on a CPU"))
        }
    }
}
