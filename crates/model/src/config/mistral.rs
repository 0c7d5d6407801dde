//! Mistral without an active sliding window: no biases.

use super::capabilities::{Biases, Capabilities};
use super::fields::head_dim;
use super::mapping::{Defaults, Mapping};
use super::names::TensorNames;
use super::window::Window;

pub(super) const MAPPING: Mapping = Mapping {
    class: "MistralForCausalLM",
    model_type: "mistral",
    defaults: Defaults { rope_theta: 10_000.0, max_position_embeddings: 131_072, num_key_value_heads: Some(8) },
    keys: &[],
    read: |json| {
        let head_dim = head_dim(json)?;
        let biases = Biases::NONE;
        Ok(Capabilities { head_dim, query_key_norm: false, biases, layers_without_rope: Vec::new() })
    },
    window: Window::of_all_layers,
    write: |_, _| {},
    tensors: &TensorNames::COMMON,
};
