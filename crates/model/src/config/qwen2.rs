//! Qwen2 and Qwen2.5: biases on the query, key and value projections; heads divide the width.

use super::capabilities::{Biases, Capabilities};
use super::fields::{flag, optional_size, size};
use super::mapping::Mapping;
use super::names::TensorNames;
use super::refused;

pub(super) const MAPPING: Mapping = Mapping {
    class: "Qwen2ForCausalLM",
    model_type: "qwen2",
    read: |json| {
        let (hidden, heads) = (size(json, "hidden_size")?, size(json, "num_attention_heads")?);
        let head_dim = match optional_size(json, "head_dim")? {
            Some(dim) => dim,
            None if heads > 0 && hidden.is_multiple_of(heads) => hidden / heads,
            None => {
                return Err(refused("hidden_size", hidden, format!("a multiple of num_attention_heads = {heads}")));
            }
        };
        let biases = if flag(json, "attention_bias", true)? { Biases::QKV } else { Biases::NONE };
        Ok(Capabilities { head_dim, query_key_norm: false, biases, layers_without_rope: Vec::new() })
    },
    // transformers gives every Qwen2 these biases, and has no key for them.
    write: |_, _| {},
    tensors: &TensorNames::COMMON,
};
