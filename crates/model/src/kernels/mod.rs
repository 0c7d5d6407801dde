//! The few operations that a Qwen layer consists of, forward and backward, each behind a trait.
//!
//! The network (`../network`) is written once over these traits. Three sets of kernels implement them:
//!
//! - [`cpu::Cpu`]: fused loops over f32 slices, with own matrix products for AVX-512 and those of the `gemm` crate
//!   elsewhere. Fast on CPUs.
//! - [`portable::Portable`]: the same formulas as candle tensor operations, on any device and in any compute type.
//!   CUDA uses these for fp16.
//! - [`cuda::Cuda`]: own kernels and a library's products for NVIDIA's GPUs, in fp32 and bf16.
//!
//! Nothing here uses automatic differentiation: candle's fused operators drop gradients silently
//! (`rms_norm`, `softmax_last_dim`, `rope`), so each backward pass is written by hand; the tests
//! compare it with candle's autograd over its safe operators.

mod attention;
pub mod cpu;
pub mod cuda;
mod head;
mod head_norm;
mod host_moments;
mod optimizer;
pub mod portable;
mod rotary;
mod variants;

pub use attention::{Attention, AttentionForward, AttentionOptions, CachedAttention, HeadShape};
use candle_core::Tensor;
pub use evenkeel_kernels::{AdamW, Clip};
pub(crate) use head::chunks;
pub use head::{Coefficients, Head, HeadAdapter, HeadGradients, HeadInput, HeadInputGradients, Scores};
pub use head_norm::{HeadNorm, HeadNormInput};
pub use host_moments::{HostMoments, HostValues, Moment};
pub use optimizer::{OptimizerKernels, UpdateArrays, UpdateNorm};
pub(crate) use rotary::rotary_angles;
pub use rotary::{Rotary, RotaryDirection};
pub use variants::{JoinedProducts, Variants};

use crate::error::{ModelError, Result};

/// The arrays that a set of kernels computes with.
pub trait Arrays: Send + Sync {
    /// Activations: a row-major matrix in the compute type, (rows, width).
    type Matrix: Send;
    /// The sum of a parameter's gradient in fp32.
    type Gradient: Send + Sync;
    /// Whether several threads may compute at the same time, as on a CPU. Elsewhere one thread gives a device its work.
    const SERVES_THREADS: bool = false;

    /// A gradient of zeros for a parameter.
    fn zero_gradient(&self, parameter: &Tensor) -> Result<Self::Gradient>;
    /// Prepares the memory of new gradients that will all be added to, where that saves time.
    fn prepare_gradients<'a>(&self, _gradients: impl Iterator<Item = &'a mut Self::Gradient>)
    where
        Self::Gradient: 'a,
    {
    }
    /// Adds one gradient to another, element by element.
    fn add_gradient(&self, into: &mut Self::Gradient, other: Self::Gradient) -> Result<()>;
    /// The gradient as an fp32 tensor of the parameter's shape, on its device.
    fn gradient_tensor(&self, gradient: Self::Gradient, parameter: &Tensor) -> Result<Tensor>;
    /// The optimizer's passes, where there are kernels for them.
    fn optimizer(&self) -> Option<&dyn OptimizerKernels> {
        None
    }
    /// Drops what is kept of parameters' values, before they change.
    fn forget_weights(&self) {}
    /// The values on the host, row by row.
    fn to_host(&self, matrix: &Self::Matrix) -> Result<Vec<f32>>;
}

/// Selecting rows: the embedding, and the rows that the head needs.
pub trait Rows: Arrays {
    /// Rows `ids` of a table (vocabulary, width) in fp32 or bf16, in the compute type: (ids, width).
    fn embed(&self, table: &Tensor, ids: &[u32]) -> Result<Self::Matrix>;
    /// Adds each row of `dy` to the row of the table's gradient that it came from.
    fn embed_backward(&self, dy: &Self::Matrix, ids: &[u32], table: &mut Self::Gradient) -> Result<()>;
    /// Rows `rows` of `x`.
    fn select_rows(&self, x: &Self::Matrix, rows: &[u32]) -> Result<Self::Matrix>;
    /// The transpose of [`Rows::select_rows`]: a matrix of `total` rows that is 0 except at `rows`. A row that is given
    /// several times, as those before a shared prefix's end may be, takes their sum, by kernels that take shared
    /// prefixes.
    fn scatter_rows(&self, dy: &Self::Matrix, rows: &[u32], total: usize) -> Result<Self::Matrix>;
}

/// y = x Wᵀ + b.
pub trait Linear: Arrays {
    /// x (n, in), weight (out, in) in any strides, bias (out), `add` (n, out) is added to the result.
    ///
    /// A row of the result does not depend, to the bit, on which other rows are computed with it.
    fn linear(
        &self,
        x: &Self::Matrix,
        weight: &Tensor,
        bias: Option<&Tensor>,
        add: Option<&Self::Matrix>,
    ) -> Result<Self::Matrix>;
    /// dx = dy W, added to `into` if given.
    fn linear_backward_input(
        &self,
        dy: &Self::Matrix,
        weight: &Tensor,
        into: Option<Self::Matrix>,
    ) -> Result<Self::Matrix>;
    /// Adds dyᵀ x to the weight's gradient.
    fn linear_backward_weight(&self, dy: &Self::Matrix, x: &Self::Matrix, weight: &mut Self::Gradient) -> Result<()>;
    /// Adds the column sums of dy to the bias's gradient.
    fn linear_backward_bias(&self, dy: &Self::Matrix, bias: &mut Self::Gradient) -> Result<()>;
    /// What computes several layers of one input as one, by kernels of which that [variant](Variants) is asked for.
    fn joined(&self) -> Option<&dyn JoinedProducts<Self::Matrix, Self::Gradient>> {
        None
    }
}

/// y = x / sqrt(mean(x²) + epsilon) * weight, over each run of `weight.len()` values of a row.
pub trait RmsNorm: Arrays {
    /// x (n, groups * d), weight (d).
    fn rms_norm(&self, x: &Self::Matrix, weight: &Tensor, epsilon: f64) -> Result<Self::Matrix>;
    /// The gradient of x, added to `into` if given; the weight's gradient is added to `grad`.
    fn rms_norm_backward(
        &self,
        dy: &Self::Matrix,
        x: &Self::Matrix,
        weight: &Tensor,
        epsilon: f64,
        grad: &mut Self::Gradient,
        into: Option<Self::Matrix>,
    ) -> Result<Self::Matrix>;
    /// Whether [`norm_of_sum`](Self::norm_of_sum) takes rows of this width, by kernels of which that
    /// [variant](Variants) is asked for.
    fn takes_sums(&self, _width: usize) -> bool {
        false
    }
    /// x + residual, both (n, d), and its norm, in one pass.
    ///
    /// # Errors
    /// Rows that are not taken.
    fn norm_of_sum(
        &self,
        _x: &Self::Matrix,
        _residual: &Self::Matrix,
        weight: &Tensor,
        _epsilon: f64,
    ) -> Result<[Self::Matrix; 2]> {
        Err(ModelError::input("width of rows that are summed and normalised", weight.elem_count(), "one that is taken"))
    }
}

/// The gated activation silu(gate) * up.
pub trait SwiGlu: Arrays {
    /// gate and up (n, inner).
    fn swiglu(&self, gate: &Self::Matrix, up: &Self::Matrix) -> Result<Self::Matrix>;
    /// The gradients of gate and up.
    fn swiglu_backward(&self, dy: &Self::Matrix, gate: &Self::Matrix, up: &Self::Matrix) -> Result<[Self::Matrix; 2]>;
}

/// All kernels of a network in training.
pub trait Kernels: Rows + Linear + HeadNorm + Attention + SwiGlu + Head {}

impl<K: Rows + Linear + HeadNorm + Attention + SwiGlu + Head> Kernels for K {}

/// All kernels of a decoder.
pub trait DecoderKernels: Kernels + CachedAttention {}

impl<K: Kernels + CachedAttention> DecoderKernels for K {}
