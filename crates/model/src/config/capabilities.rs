//! What the layers of a model may have, whatever their architecture is called.

/// Which of a layer's projections have biases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Biases {
    /// Whether the query projection has one.
    pub query: bool,
    /// Whether the key projection has one.
    pub key: bool,
    /// Whether the value projection has one.
    pub value: bool,
    /// The projection of the attention's output.
    pub output: bool,
    /// All three projections of the feed-forward block.
    pub mlp: bool,
}

impl Biases {
    /// No projection has a bias.
    pub const NONE: Self = Self { query: false, key: false, value: false, output: false, mlp: false };
    /// Queries, keys and values.
    pub const QKV: Self = Self { query: true, key: true, value: true, ..Self::NONE };
    /// All projections of attention have biases.
    pub const ATTENTION: Self = Self { output: true, ..Self::QKV };
}

/// What tells the layers of one architecture from those of another.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Capabilities {
    pub(super) head_dim: usize,
    pub(super) query_key_norm: bool,
    pub(super) biases: Biases,
    pub(super) layers_without_rope: Vec<usize>,
}
