//! Parsing `config.json` into [`Config`], with the defaults of transformers for each family.

use evenkeel_hf::{WRITTEN_OUT, eos_token_ids};
use serde_json::Value;

use super::{Config, Family, refused};
use crate::error::{ModelError, Result};

pub(super) fn config(json: &Value) -> Result<Config> {
    let family = family(json)?;
    let num_heads = size(json, "num_attention_heads")?;
    let hidden_size = size(json, "hidden_size")?;
    let head_dim = match (optional_size(json, "head_dim")?, family) {
        (Some(dim), _) => dim,
        // transformers' Qwen3Config fills a missing head_dim with 128, Qwen2Config divides.
        (None, Family::Qwen3) => 128,
        (None, Family::Qwen2) if num_heads > 0 && hidden_size.is_multiple_of(num_heads) => hidden_size / num_heads,
        (None, Family::Qwen2) => {
            return Err(refused(
                "hidden_size",
                hidden_size,
                format!("a multiple of num_attention_heads = {num_heads}"),
            ));
        }
    };
    let attention_bias = flag(json, "attention_bias", family == Family::Qwen2)?;
    Ok(Config {
        family,
        vocab_size: size(json, "vocab_size")?,
        hidden_size,
        intermediate_size: size(json, "intermediate_size")?,
        num_layers: size(json, "num_hidden_layers")?,
        num_heads,
        num_kv_heads: optional_size(json, "num_key_value_heads")?.unwrap_or(num_heads),
        head_dim,
        max_position_embeddings: optional_size(json, "max_position_embeddings")?.unwrap_or(32_768),
        rms_norm_eps: number(json, "rms_norm_eps")?.unwrap_or(1e-6),
        rope_theta: rope_theta(json)?,
        qkv_bias: attention_bias,
        output_bias: attention_bias && family == Family::Qwen3,
        // A head that is written out beside the embedding is still the embedding: it has no values or gradients of its own.
        tie_word_embeddings: flag(json, "tie_word_embeddings", false)? || flag(json, WRITTEN_OUT, false)?,
        eos_token_ids: eos_token_ids(json).map_err(ModelError::Config)?.unwrap_or_default(),
    })
}

/// `architectures` decides; without it, `model_type`.
fn family(json: &Value) -> Result<Family> {
    let both = [Family::Qwen2, Family::Qwen3];
    let allowed = "Qwen2ForCausalLM or Qwen3ForCausalLM";
    let named = match json.get("architectures") {
        Some(Value::Array(names)) if !names.is_empty() => &names[0],
        Some(Value::Null) | None => {
            let found = json.get("model_type").unwrap_or(&Value::Null);
            let family = both.into_iter().find(|f| found == f.model_type());
            return family.ok_or_else(|| refused("model_type", found, "\"qwen2\" or \"qwen3\""));
        }
        Some(other) => return Err(refused("architectures", other, format!("a list with {allowed}"))),
    };
    both.into_iter().find(|f| named == f.architecture()).ok_or_else(|| refused("architectures", named, allowed))
}

/// `rope_parameters.rope_theta` (transformers 5), else `rope_theta` (4); if both are present they must agree.
fn rope_theta(json: &Value) -> Result<f64> {
    let inner = match json.get("rope_parameters") {
        Some(parameters) => number(parameters, "rope_theta")?,
        None => None,
    };
    let outer = number(json, "rope_theta")?;
    match (inner, outer) {
        (Some(a), Some(b)) if a != b => {
            Err(refused("rope_theta", b, format!("rope_parameters.rope_theta = {a}, since both are given")))
        }
        (a, b) => Ok(a.or(b).unwrap_or(10_000.0)),
    }
}

fn size(json: &Value, field: &str) -> Result<usize> {
    optional_size(json, field)?.ok_or_else(|| refused(field, "missing", "a whole number above 0"))
}

fn optional_size(json: &Value, field: &str) -> Result<Option<usize>> {
    match json.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match value.as_u64() {
            Some(n) => Ok(Some(n as usize)),
            None => Err(refused(field, value, "a whole number above 0")),
        },
    }
}

fn number(json: &Value, field: &str) -> Result<Option<f64>> {
    match json.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => value.as_f64().map(Some).ok_or_else(|| refused(field, value, "a number")),
    }
}

fn flag(json: &Value, field: &str, default: bool) -> Result<bool> {
    match json.get(field) {
        None | Some(Value::Null) => Ok(default),
        Some(value) => value.as_bool().ok_or_else(|| refused(field, value, "true or false")),
    }
}
