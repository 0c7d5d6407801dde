//! Llama 2 and 3, and what has its layers: SmolLM2, TinyLlama. Biases only with `attention_bias` and `mlp_bias`.

use serde_json::{Value, json};

use super::Config;
use super::capabilities::{Biases, Capabilities};
use super::fields::{flag, head_dim};
use super::mapping::{Defaults, Mapping};
use super::names::TensorNames;
use super::window::Window;
use crate::error::Result;

pub(super) const MAPPING: Mapping = Mapping {
    class: "LlamaForCausalLM",
    model_type: "llama",
    defaults: Defaults { rope_theta: 10_000.0, max_position_embeddings: 2048, num_key_value_heads: None },
    keys: &["mlp_bias"],
    read: |json| {
        let head_dim = head_dim(json)?;
        let biases = biases(json)?;
        Ok(Capabilities { head_dim, query_key_norm: false, biases, layers_without_rope: Vec::new() })
    },
    window: Window::none,
    write: write_biases,
    tensors: &TensorNames::COMMON,
};

/// Which projections have biases, by `attention_bias` and `mlp_bias`.
pub(super) fn biases(json: &Value) -> Result<Biases> {
    let attention = if flag(json, "attention_bias", false)? { Biases::ATTENTION } else { Biases::NONE };
    Ok(Biases { mlp: flag(json, "mlp_bias", false)?, ..attention })
}

pub(super) fn write_biases(config: &Config, json: &mut Value) {
    json["attention_bias"] = json!(config.biases.output);
    json["mlp_bias"] = json!(config.biases.mlp);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Architecture;

    /// Without anything that transformers has a default for.
    fn llama() -> Value {
        json!({
            "architectures": ["LlamaForCausalLM"], "vocab_size": 64, "hidden_size": 48, "intermediate_size": 96,
            "num_hidden_layers": 2, "num_attention_heads": 6
        })
    }

    #[test]
    fn a_llama_has_the_defaults_of_transformers() {
        let config = Config::from_json(&llama()).unwrap();
        assert_eq!((config.architecture, config.head_dim, config.num_kv_heads), (Architecture::LLAMA, 8, 6));
        assert_eq!((config.biases, config.rope.theta), (Biases::NONE, 1e4));
        assert_eq!((config.max_position_embeddings, config.tie_word_embeddings), (2048, false));
        assert_eq!(Config::from_json(&config.to_json().unwrap()).unwrap(), config);
    }

    #[test]
    fn a_llama_has_biases_where_it_says_so() {
        for (attention, mlp) in [(false, true), (true, false), (true, true)] {
            let mut json = llama();
            (json["attention_bias"], json["mlp_bias"], json["head_dim"]) = (json!(attention), json!(mlp), json!(12));
            let config = Config::from_json(&json).unwrap();
            let wanted = if attention { Biases::ATTENTION } else { Biases::NONE };
            assert_eq!((config.biases, config.head_dim), (Biases { mlp, ..wanted }, 12));
            assert_eq!(Config::from_json(&config.to_json().unwrap()).unwrap(), config);
        }
    }
}
