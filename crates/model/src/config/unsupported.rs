//! Features of a `config.json` that this crate does not support in any architecture, refused by name and value.

use serde_json::Value;

use super::architecture::Architecture;
use crate::error::{ModelError, Result};

/// Keys that are read, or that do not affect the arithmetic.
const KNOWN: &[&str] = &[
    "_name_or_path",
    "architectures",
    "attention_bias",
    "attention_dropout",
    "attn_implementation",
    "bos_token_id",
    "dtype",
    "eos_token_id",
    "head_dim",
    "hidden_act",
    "hidden_size",
    "initializer_range",
    "intermediate_size",
    "is_llama_config",
    "layer_types",
    "max_position_embeddings",
    "max_window_layers",
    "mlp_bias",
    "model_type",
    "no_rope_layer_interval",
    "no_rope_layers",
    "num_attention_heads",
    "num_hidden_layers",
    "num_key_value_heads",
    "original_max_position_embeddings",
    "pad_token_id",
    "pretraining_tp",
    "rms_norm_eps",
    "rope_parameters",
    "rope_scaling",
    "rope_theta",
    "sliding_window",
    "tie_word_embeddings",
    "tied_head_written_out",
    "torch_dtype",
    "transformers.js_config",
    "transformers_version",
    "use_cache",
    "use_mrope",
    "use_sliding_window",
    "vocab_size",
];

/// Refuses every feature that would change the arithmetic. An unknown key is only a warning, since newer exporters add
/// descriptive ones.
pub(super) fn refuse(json: &Value) -> Result<()> {
    let Some(object) = json.as_object() else {
        return Err(super::refused("config.json", "no object", "a JSON object"));
    };
    let unsupported = |field: &str, value: &Value, reason: &str| {
        Err(ModelError::Unsupported { field: field.into(), value: value.to_string(), reason: reason.into() })
    };
    for (key, value) in object {
        let reason = match key.as_str() {
            "num_experts" | "num_local_experts" | "n_routed_experts" | "moe_intermediate_size" if !is_off(value) => {
                "mixture-of-experts layers are not computed"
            }
            "quantization_config" if !is_off(value) => "quantised weights cannot be trained",
            // Sliding windows: in `window.rs`.
            "layer_types" if has_other(value) => "only full_attention layers are computed",
            "rope_interleaved" if value == &Value::Bool(true) => "rotary over neighbouring values is not computed",
            "partial_rotary_factor" if value.as_f64() != Some(1.0) => "rotary over a part of the head is not computed",
            "use_mrope" if value == &Value::Bool(true) => "multimodal rotary positions are not computed",
            "hidden_act" if value != "silu" => "only silu is computed",
            "attention_dropout" | "hidden_dropout" | "resid_pdrop" | "embd_pdrop" if value.as_f64() != Some(0.0) => {
                "dropout is not computed: a policy gradient needs the policy that sampled"
            }
            "vision_config" | "audio_config" | "text_config" => "only text decoders are computed",
            _ => {
                if !KNOWN.contains(&key.as_str()) && !is_off(value) {
                    tracing::warn!(key, %value, "config.json has an unknown key, which is ignored");
                }
                continue;
            }
        };
        return unsupported(key, value, reason);
    }
    Ok(())
}

/// Refuses what other architectures say by a key that this one does not have: its files cannot mean it.
pub(super) fn refuse_unread(json: &Value, architecture: Architecture) -> Result<()> {
    for key in ["mlp_bias", "no_rope_layers"] {
        if let Some(value) = json.get(key).filter(|value| !is_off(value) && !architecture.reads(key)) {
            let reason = format!("a {} has none", architecture.class());
            return Err(ModelError::Unsupported { field: key.into(), value: value.to_string(), reason });
        }
    }
    Ok(())
}

fn is_off(value: &Value) -> bool {
    value.is_null() || value == &Value::Bool(false) || value.as_u64() == Some(0)
}

/// Whether a kind of layer is listed that is neither `full_attention` nor, which the windows decide on,
/// `sliding_attention`.
fn has_other(value: &Value) -> bool {
    let is_known = |kind: &Value| kind == "full_attention" || kind == "sliding_attention";
    !value.is_null() && !value.as_array().is_some_and(|kinds| kinds.iter().all(is_known))
}
