//! The few operations that a Qwen layer consists of, forward and backward, each behind a trait.
//!
//! The network (`../network`) is written once over these traits. Three sets of kernels implement them:
//!
//! - [`cpu::Cpu`]: fused loops over f32 slices, with matrix products by the `gemm` crate. Fast on CPUs.
//! - [`portable::Portable`]: the same formulas as candle tensor operations, on any device and in any compute type.
//!   CUDA uses these for fp16.
//! - [`cuda::Cuda`]: own kernels and a library's products for NVIDIA's GPUs, in fp32 and bf16.
//!
//! Nothing here uses automatic differentiation: candle's fused operators drop gradients silently
//! (`rms_norm`, `softmax_last_dim`, `rope`), so each backward pass is written by hand; the tests
//! compare it with candle's autograd over its safe operators.

pub mod cpu;
pub mod cuda;
mod host_moments;
pub mod portable;

use candle_core::Tensor;
pub use evenkeel_kernels::AdamW;
pub use host_moments::{HostMoments, HostValues, Moment};

use crate::config::Config;
use crate::error::Result;

/// The arrays that a set of kernels computes with.
pub trait Arrays: Send + Sync {
    /// Activations: a row-major matrix in the compute type, (rows, width).
    type Matrix: Send;
    /// The sum of a parameter's gradient in fp32.
    type Gradient: Send + Sync;

    /// A gradient of zeros for a parameter.
    fn zero_gradient(&self, parameter: &Tensor) -> Result<Self::Gradient>;
    /// Adds one gradient to another, element by element.
    fn add_gradient(&self, into: &mut Self::Gradient, other: &Self::Gradient) -> Result<()>;
    /// The gradient as an fp32 tensor of the parameter's shape, on its device.
    fn gradient_tensor(&self, gradient: Self::Gradient, parameter: &Tensor) -> Result<Tensor>;
    /// The optimizer's passes, where there are kernels for them.
    fn optimizer(&self) -> Option<&dyn OptimizerKernels> {
        None
    }
    /// The values on the host, row by row.
    fn to_host(&self, matrix: &Self::Matrix) -> Result<Vec<f32>>;
}

/// A parameter's or all parameters' arrays, in the order of the parameters: fp32 on the kernels' device.
#[derive(Clone, Copy, Debug)]
pub struct UpdateArrays<'a> {
    /// Changed in place.
    pub weights: &'a [Tensor],
    /// Running means of gradients, changed in place.
    pub first: &'a [Tensor],
    /// Running means of their squares, changed in place.
    pub second: &'a [Tensor],
    /// Gradients.
    pub gradients: &'a [Tensor],
}

/// Passes over whole arrays that read and write each value once.
pub trait OptimizerKernels {
    /// Root of the sum of squares over all tensors, summed in f64.
    ///
    /// # Errors
    /// A failure of the device.
    fn norm(&self, gradients: &[Tensor]) -> Result<f64>;
    /// One AdamW update in place, with `factor` times the gradients; the numbers are those of each parameter.
    ///
    /// # Errors
    /// A failure of the device, after which it can no longer be used.
    fn update(&self, arrays: UpdateArrays<'_>, factor: f64, updates: &[AdamW]) -> Result<()>;
    /// Moments of zeros for parameters of so many values, in page-locked memory of the host.
    ///
    /// # Errors
    /// No more such memory.
    fn host_moments(&self, counts: &[usize]) -> Result<HostMoments>;
    /// The same update as [`OptimizerKernels::update`], to the bit, with moments in the host's memory, which pass through the device in pieces.
    ///
    /// # Errors
    /// A failure of the device, after which it can no longer be used.
    fn update_from_host(
        &self,
        weights: &[Tensor],
        gradients: &[Tensor],
        moments: &mut HostMoments,
        factor: f64,
        updates: &[AdamW],
    ) -> Result<()>;
}

/// Selecting rows: the embedding, and the rows that the head needs.
pub trait Rows: Arrays {
    /// Rows `ids` of an fp32 table (vocabulary, width), in the compute type: (ids, width).
    fn embed(&self, table: &Tensor, ids: &[u32]) -> Result<Self::Matrix>;
    /// Adds each row of `dy` to the row of the table's gradient that it came from.
    fn embed_backward(&self, dy: &Self::Matrix, ids: &[u32], table: &mut Self::Gradient) -> Result<()>;
    /// Rows `rows` of `x`.
    fn select_rows(&self, x: &Self::Matrix, rows: &[u32]) -> Result<Self::Matrix>;
    /// The transpose of [`Rows::select_rows`]: a matrix of `total` rows that is 0 except at the distinct rows `rows`.
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
    fn linear_input(&self, dy: &Self::Matrix, weight: &Tensor, into: Option<Self::Matrix>) -> Result<Self::Matrix>;
    /// Adds dyᵀ x to the weight's gradient.
    fn linear_weight(&self, dy: &Self::Matrix, x: &Self::Matrix, weight: &mut Self::Gradient) -> Result<()>;
    /// Adds the column sums of dy to the bias's gradient.
    fn linear_bias(&self, dy: &Self::Matrix, bias: &mut Self::Gradient) -> Result<()>;
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
}

/// The direction of [`Rotary::rotary`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// By the position's angle.
    Forward,
    /// By its negative: the backward pass of a rotation is its inverse.
    Backward,
}

/// Rotary position embedding in the halves layout of Hugging Face (`rotate_half`).
pub trait Rotary: Arrays {
    /// Cosines and sines of every position and pair.
    type Table: Send + Sync;
    /// The table for a model, up to its longest context.
    fn rotary_table(&self, config: &Config) -> Result<Self::Table>;
    /// Rotates every head of x (n, heads * head_dim); row i is at `positions[i]`.
    fn rotary(&self, x: Self::Matrix, table: &Self::Table, positions: &[u32], turn: Turn) -> Result<Self::Matrix>;
}

/// How query heads share key and value heads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadShape {
    /// Query heads.
    pub heads: usize,
    /// Key and value heads, a divisor of `heads`; query head h reads head h / (heads / kv_heads).
    pub kv_heads: usize,
    /// Width of each.
    pub dim: usize,
}

impl HeadShape {
    /// Of a model.
    pub fn of(config: &Config) -> Self {
        Self { heads: config.num_heads, kv_heads: config.num_kv_heads, dim: config.head_dim }
    }

    /// The factor on the scores, 1 / sqrt(dim).
    pub fn scale(&self) -> f32 {
        1.0 / (self.dim as f32).sqrt()
    }
}

/// How a GPU computes attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttentionOptions {
    /// By cuDNN where it can. Otherwise, and in any case without this, in blocks of queries.
    pub library: bool,
    /// Gradients whose bits are the same each time, for more time or memory.
    pub deterministic: bool,
}

impl Default for AttentionOptions {
    fn default() -> Self {
        Self { library: true, deterministic: false }
    }
}

/// Causal attention within each of the packed sequences, softmax(q kᵀ / sqrt(d)) v.
pub trait Attention: Arrays {
    /// q (n, heads * d), k and v (n, kv_heads * d), `starts` as [`crate::Packed::starts`]. Returns the output
    /// (n, heads * d) and the logarithm of each softmax's denominator, (n, heads), for the backward pass.
    fn attention(
        &self,
        q: &Self::Matrix,
        k: &Self::Matrix,
        v: &Self::Matrix,
        shape: HeadShape,
        starts: &[usize],
    ) -> Result<(Self::Matrix, Self::Matrix)>;
    /// The gradients of q, k and v; the probabilities are recomputed, so that memory stays linear in length.
    fn attention_backward(
        &self,
        dout: &Self::Matrix,
        forward: AttentionForward<'_, Self::Matrix>,
        shape: HeadShape,
        starts: &[usize],
    ) -> Result<[Self::Matrix; 3]>;
}

/// The arguments and results of [`Attention::attention`].
pub struct AttentionForward<'a, M> {
    /// Queries.
    pub q: &'a M,
    /// Keys.
    pub k: &'a M,
    /// Values.
    pub v: &'a M,
    /// The output.
    pub out: &'a M,
    /// The logarithms of the denominators.
    pub log_sum: &'a M,
}

/// silu(gate) * up.
pub trait SwiGlu: Arrays {
    /// gate and up (n, inner).
    fn swiglu(&self, gate: &Self::Matrix, up: &Self::Matrix) -> Result<Self::Matrix>;
    /// The gradients of gate and up.
    fn swiglu_backward(&self, dy: &Self::Matrix, gate: &Self::Matrix, up: &Self::Matrix) -> Result<[Self::Matrix; 2]>;
}

/// The input of the head, besides the hidden states.
#[derive(Clone, Copy, Debug)]
pub struct HeadInput<'a> {
    /// (vocabulary, hidden).
    pub weight: &'a Tensor,
    /// The id to score in each row, (n).
    pub targets: &'a [u32],
    /// Logits are divided by this.
    pub temperature: f32,
    /// Rows whose logits are in memory at once.
    pub chunk_rows: usize,
}

/// Log-probability and entropy of each scored token.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scores {
    /// ln p(target), (n), nats.
    pub logp: Vec<f32>,
    /// Entropy of the whole distribution, (n), nats.
    pub entropy: Vec<f32>,
}

/// d loss / d of each scored token's quantities.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Coefficients {
    /// d loss / d logp, (n).
    pub logp: Vec<f32>,
    /// d loss / d entropy, (n).
    pub entropy: Vec<f32>,
}

/// log-softmax over the vocabulary, in chunks of rows and two passes, so that the (tokens, vocabulary) matrix of a batch
/// is never in memory.
pub trait Head: Arrays {
    /// What the first pass leaves for the second, besides the scores.
    type Kept: Send;
    /// First pass: scores of hidden states (n, hidden).
    fn head(&self, hidden: &Self::Matrix, input: HeadInput<'_>) -> Result<(Scores, Self::Kept)>;
    /// Second pass: recomputes the logits, returns the gradient of the hidden states and adds the weight's to `grad`. With
    /// p = softmax(z / τ) and H its entropy,
    /// d loss / d z_j = (a (1\[j = target\] - p_j) - b p_j (ln p_j + H)) / τ for a = d loss / d logp, b = d loss / d H.
    fn head_backward(
        &self,
        hidden: &Self::Matrix,
        input: HeadInput<'_>,
        scores: &Scores,
        kept: &Self::Kept,
        coefficients: &Coefficients,
        grad: &mut Self::Gradient,
    ) -> Result<Self::Matrix>;
}

/// Attention of new tokens over a sequence's cached keys and values.
pub trait CachedAttention: Arrays {
    /// The keys and values of one sequence in one layer.
    type Cache: Send;
    /// An empty cache.
    fn new_cache(&self, shape: HeadShape) -> Result<Self::Cache>;
    /// Appends the rows of k and v to the caches and attends: `rows[i]` new rows belong to `caches[i]`, in order.
    /// A row attends to its sequence up to itself. Returns (n, heads * d); a row's bits depend on its sequence alone.
    fn attend(
        &self,
        q: &Self::Matrix,
        k: &Self::Matrix,
        v: &Self::Matrix,
        shape: HeadShape,
        rows: &[usize],
        caches: &mut [&mut Self::Cache],
    ) -> Result<Self::Matrix>;
    /// Drops the tokens from `length` on.
    fn truncate(&self, cache: &mut Self::Cache, length: usize) -> Result<()>;
}

/// All kernels of a network in training.
pub trait Kernels: Rows + Linear + RmsNorm + Rotary + Attention + SwiGlu + Head {}

impl<K: Rows + Linear + RmsNorm + Rotary + Attention + SwiGlu + Head> Kernels for K {}

/// All kernels of a decoder.
pub trait DecoderKernels: Kernels + CachedAttention {}

impl<K: Kernels + CachedAttention> DecoderKernels for K {}

/// (first row, number of rows) of each chunk.
pub(crate) fn chunks(rows: usize, chunk: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..rows).step_by(chunk).map(move |first| (first, chunk.min(rows - first)))
}

/// cos and sin of position * theta^(-2i / d), (positions, d / 2) each: angles in f32 as in transformers and
/// vLLM (the rounding of a large angle is part of the model).
pub(crate) fn rotary_angles(config: &Config) -> (Vec<f32>, Vec<f32>) {
    let half = config.head_dim / 2;
    let frequency = |i: usize| {
        let exponent = (2 * i) as f32 / config.head_dim as f32;
        1.0 / libm::pow(config.rope_theta, f64::from(exponent)) as f32
    };
    let frequencies: Vec<f32> = (0..half).map(frequency).collect();
    let angle = |position: usize, i: usize| f64::from(position as f32 * frequencies[i]);
    let angles = (0..config.max_position_embeddings).flat_map(|p| (0..half).map(move |i| (p, i)));
    angles.map(|(p, i)| (libm::cos(angle(p, i)) as f32, libm::sin(angle(p, i)) as f32)).unzip()
}
