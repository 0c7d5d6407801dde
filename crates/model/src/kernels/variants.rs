//! Changes to a GPU's passes that have not been measured.

use std::ops::Range;

use candle_core::Tensor;

use crate::error::Result;

/// Which changes to a GPU's passes are on. None is unless it is asked for: `bench/gpu` compares them with the passes as
/// they are. Results differ in last bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Variants {
    /// The head in one pass, where a loss knows its coefficients before: logits are computed once, and the host does
    /// not wait in between.
    pub one_pass_head: bool,
    /// Queries, keys and values as one product, and gate and up as one; the gradient of their input as one product each,
    /// instead of a chain of additions. Layers with biases or adapters stay apart.
    pub joined_products: bool,
    /// Less to move: weights stay in bf16 until the next update, the head takes the device's own exponential, and the
    /// sum after attention is taken in the norm that follows.
    pub lean_memory: bool,
}

impl Variants {
    /// Each variant alone, and all of them together, by name.
    pub const NAMED: [(&'static str, Self); 4] = [
        ("head", Self { one_pass_head: true, ..Self::NONE }),
        ("joined", Self { joined_products: true, ..Self::NONE }),
        ("memory", Self { lean_memory: true, ..Self::NONE }),
        ("all", Self { one_pass_head: true, joined_products: true, lean_memory: true }),
    ];
    const NONE: Self = Self { one_pass_head: false, joined_products: false, lean_memory: false };
}

/// Linear layers of one input as one product, over kernels whose matrices are `M` and whose gradients are `G`. Weights
/// are (out, in) with equal `in`.
pub trait JoinedProducts<M, G> {
    /// x (n, in) times the transpose of each weight, beside each other: (n, sum of out).
    fn multiply(&self, x: &M, weights: &[&Tensor]) -> Result<M>;
    /// The gradient of x, from that of all results beside each other.
    fn backward_input(&self, dy: &M, weights: &[&Tensor]) -> Result<M>;
    /// Adds to the gradient of the weight whose results these columns of `dy` are of.
    fn backward_weight(&self, dy: &M, columns: Range<usize>, x: &M, weight: &mut G) -> Result<()>;
    /// The columns of a matrix as matrices of these widths.
    fn split(&self, joined: &M, widths: &[usize]) -> Result<Vec<M>>;
    /// Matrices of equal rows beside each other.
    fn join(&self, parts: &[&M]) -> Result<M>;
    /// silu(gate) * up, of gate and up beside each other.
    fn swiglu(&self, joined: &M) -> Result<M>;
    /// The gradients of gate and up, beside each other.
    fn swiglu_backward(&self, dy: &M, joined: &M) -> Result<M>;
}
