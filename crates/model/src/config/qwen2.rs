//! Qwen2 and Qwen2.5: biases on the query, key and value projections; heads divide the width.

use super::capabilities::{Biases, Capabilities};
use super::fields::{flag, head_dim};
use super::mapping::{Defaults, Mapping};
use super::names::TensorNames;
use super::window::Window;

pub(super) const MAPPING: Mapping = Mapping {
    class: "Qwen2ForCausalLM",
    model_type: "qwen2",
    defaults: Defaults { rope_theta: 10_000.0, max_position_embeddings: 32_768, num_key_value_heads: Some(32) },
    keys: &[],
    read: |json| {
        let biases = if flag(json, "attention_bias", true)? { Biases::QKV } else { Biases::NONE };
        Ok(Capabilities { head_dim: head_dim(json)?, query_key_norm: false, biases, layers_without_rope: Vec::new() })
    },
    window: Window::of_upper_layers,
    // transformers gives every Qwen2 these biases, and has no key for them.
    write: |_, _| {},
    tensors: &TensorNames::COMMON,
};
