//! Attention, in training and over a cache.

use super::Arrays;
use crate::config::Config;
use crate::error::Result;
use crate::segment::Segment;

/// How query heads share key and value heads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadShape {
    /// Number of query heads.
    pub heads: usize,
    /// Key and value heads, a divisor of `heads`; query head h reads head h / (heads / kv_heads).
    pub kv_heads: usize,
    /// Width of each head.
    pub dim: usize,
}

impl HeadShape {
    /// The heads of a model.
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
    /// Whether cuDNN computes attention where it can. Other attention is computed in blocks of queries.
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
    /// q (n, heads * d), k and v (n, kv_heads * d), `segments` as [`crate::Packed::segments`]. Returns the output
    /// (n, heads * d) and the logarithm of each softmax's denominator, (n, heads), for the backward pass.
    ///
    /// # Errors
    /// A shared prefix, by kernels that have none.
    fn attention(
        &self,
        q: &Self::Matrix,
        k: &Self::Matrix,
        v: &Self::Matrix,
        shape: HeadShape,
        segments: &[Segment],
    ) -> Result<(Self::Matrix, Self::Matrix)>;
    /// The gradients of q, k and v; the probabilities are recomputed, so that memory stays linear in length. What
    /// reaches the keys and values of a shared prefix is summed over its own rows and then over the segments that
    /// continue it, in their order.
    fn attention_backward(
        &self,
        dout: &Self::Matrix,
        forward: AttentionForward<'_, Self::Matrix>,
        shape: HeadShape,
        segments: &[Segment],
    ) -> Result<[Self::Matrix; 3]>;
}

/// The arguments and results of [`Attention::attention`].
pub struct AttentionForward<'a, M> {
    /// Queries, (n, heads * d).
    pub q: &'a M,
    /// Keys, (n, kv_heads * d).
    pub k: &'a M,
    /// Values, (n, kv_heads * d).
    pub v: &'a M,
    /// Output of the forward pass, (n, heads * d).
    pub out: &'a M,
    /// The logarithms of the denominators.
    pub log_sum: &'a M,
}

/// Attention of new tokens over a sequence's cached keys and values.
pub trait CachedAttention: Arrays {
    /// The keys and values of one sequence in one layer.
    type Cache: Send;
    /// An empty cache for one layer.
    fn new_cache(&self, shape: HeadShape) -> Result<Self::Cache>;
    /// A cache of the first `tokens` of a sequence, at most as many as it has.
    fn prefix(&self, of: &Self::Cache, tokens: usize, shape: HeadShape) -> Result<Self::Cache>;
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
}
