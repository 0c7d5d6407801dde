//! Parsing `config.json` into [`Config`]: what is the same in every architecture.

use evenkeel_model_folder::{HeadForm, WRITTEN_OUT, eos_token_ids};
use serde_json::Value;

use super::Config;
use super::architecture::Architecture;
use super::capabilities::Capabilities;
use super::fields::{flag, number, optional_size, size};
use super::rope::Rope;
use super::unsupported;
use crate::error::{ModelError, Result};

pub(super) fn config(json: &Value) -> Result<Config> {
    let architecture = Architecture::named_in(json)?;
    unsupported::refuse_unread(json, architecture)?;
    let defaults = architecture.defaults();
    let num_heads = size(json, "num_attention_heads")?;
    let num_kv_heads = match (json.get("num_key_value_heads"), defaults.num_key_value_heads) {
        (None, Some(count)) => count,
        _ => optional_size(json, "num_key_value_heads")?.unwrap_or(num_heads),
    };
    let Capabilities { head_dim, query_key_norm, biases, layers_without_rope } = architecture.read(json)?;
    let max_position_embeddings = optional_size(json, "max_position_embeddings")?;
    let max_position_embeddings = max_position_embeddings.unwrap_or(defaults.max_position_embeddings);
    if let Some(window) = architecture.window(json)? {
        window.refuse_shorter_than(max_position_embeddings)?;
    }
    for key in ["tie_word_embeddings", WRITTEN_OUT] {
        flag(json, key, false)?;
    }
    Ok(Config {
        architecture,
        vocab_size: size(json, "vocab_size")?,
        hidden_size: size(json, "hidden_size")?,
        intermediate_size: size(json, "intermediate_size")?,
        num_layers: size(json, "num_hidden_layers")?,
        num_heads,
        num_kv_heads,
        head_dim,
        max_position_embeddings,
        rms_norm_eps: number(json, "rms_norm_eps")?.unwrap_or(1e-6),
        rope: Rope::from_json(json, defaults.rope_theta, max_position_embeddings)?,
        layers_without_rope,
        query_key_norm,
        biases,
        // A head that is written out beside the embedding is still the embedding: it has no values or gradients of its
        // own.
        tie_word_embeddings: HeadForm::of(json).is_tied(),
        eos_token_ids: eos_token_ids(json).map_err(ModelError::Config)?.unwrap_or_default(),
    })
}
