//! How a GPU computes attention.

use evenkeel_model::kernels::AttentionOptions;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a GPU computes attention. A CPU has one way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AttentionPath {
    /// By cuDNN where it is installed and takes the compute type and the width of the heads, otherwise in blocks. The
    /// log says which, and why.
    #[default]
    Auto,
    /// In blocks of queries: products, and a softmax between them.
    Blocks,
}

impl AttentionPath {
    /// Options of the model's attention.
    pub(super) fn options(self, deterministic: bool) -> AttentionOptions {
        AttentionOptions { library: self == Self::Auto, deterministic }
    }
}
