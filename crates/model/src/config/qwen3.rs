//! Qwen3: an RMSNorm on each head's queries and keys, biases of attention only with `attention_bias`.

use serde_json::json;

use super::capabilities::{Biases, Capabilities};
use super::fields::{flag, optional_size};
use super::mapping::{Defaults, Mapping};
use super::names::TensorNames;
use super::window::Window;

pub(super) const MAPPING: Mapping = Mapping {
    class: "Qwen3ForCausalLM",
    model_type: "qwen3",
    defaults: Defaults { rope_theta: 10_000.0, max_position_embeddings: 32_768, num_key_value_heads: Some(32) },
    keys: &[],
    read: |json| {
        // transformers' Qwen3Config does not divide where head_dim is missing.
        let head_dim = optional_size(json, "head_dim")?.unwrap_or(128);
        let biases = if flag(json, "attention_bias", false)? { Biases::ATTENTION } else { Biases::NONE };
        Ok(Capabilities { head_dim, query_key_norm: true, biases, layers_without_rope: Vec::new() })
    },
    window: Window::of_upper_layers,
    write: |config, json| json["attention_bias"] = json!(config.biases != Biases::NONE),
    tensors: &TensorNames::COMMON,
};
