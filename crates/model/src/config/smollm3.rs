//! SmolLM3: Llama's layers, some of which know no positions (`no_rope_layers`, or every `no_rope_layer_interval`-th).

use serde_json::{Value, json};

use super::capabilities::Capabilities;
use super::fields::{head_dim, optional_size, size};
use super::llama::{biases, write_biases};
use super::mapping::{Defaults, Mapping};
use super::names::TensorNames;
use super::window::Window;
use super::{Config, refused};
use crate::error::Result;

const LAYERS: &str = "no_rope_layers";
const INTERVAL: &str = "no_rope_layer_interval";
/// More layers than any model has: a list of them is made before the number is checked.
const MOST: usize = 1 << 12;

pub(super) const MAPPING: Mapping = Mapping {
    class: "SmolLM3ForCausalLM",
    model_type: "smollm3",
    defaults: Defaults { rope_theta: 2_000_000.0, max_position_embeddings: 32_768, num_key_value_heads: Some(4) },
    keys: &["mlp_bias", LAYERS, INTERVAL],
    read: |json| {
        let head_dim = head_dim(json)?;
        let biases = biases(json)?;
        let layers_without_rope = layers_without_rope(json)?;
        Ok(Capabilities { head_dim, query_key_norm: false, biases, layers_without_rope })
    },
    window: |json| Window::of_layers_without_rope(json, !layers_without_rope(json)?.is_empty()),
    write,
    tensors: &TensorNames::COMMON,
};

fn layers_without_rope(json: &Value) -> Result<Vec<usize>> {
    let count = size(json, "num_hidden_layers")?;
    let Some(list) = json.get(LAYERS).filter(|list| !list.is_null()) else {
        let interval = optional_size(json, INTERVAL)?.unwrap_or(4);
        if interval == 0 {
            return Err(refused(INTERVAL, 0, "a whole number above 0"));
        }
        return Ok((0..count.min(MOST)).filter(|layer| (layer + 1) % interval == 0).collect());
    };
    let allowed = || format!("a list with 1 (rotated) or 0 (not) for each of num_hidden_layers = {count}");
    let flags = list.as_array().filter(|flags| flags.len() >= count);
    let flags = flags.ok_or_else(|| refused(LAYERS, list, allowed()))?;
    let is_rotated = |flag: &Value| match (flag.as_u64(), flag.as_bool()) {
        (Some(0), _) | (_, Some(false)) => Ok(false),
        (Some(1), _) | (_, Some(true)) => Ok(true),
        _ => Err(refused(LAYERS, list, allowed())),
    };
    // A longer list is that of a longer model, as transformers allows.
    let rotated = flags[..count].iter().map(is_rotated).collect::<Result<Vec<_>>>()?;
    Ok((0..count).filter(|&layer| !rotated[layer]).collect())
}

fn write(config: &Config, json: &mut Value) {
    write_biases(config, json);
    let is_rotated = |layer| u8::from(!config.layers_without_rope.contains(&layer));
    json[LAYERS] = json!((0..config.num_layers).map(is_rotated).collect::<Vec<_>>());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Architecture;

    fn smollm3(key: &str, value: Value) -> Result<Config> {
        let mut json = json!({
            "architectures": ["SmolLM3ForCausalLM"], "vocab_size": 64, "hidden_size": 48, "intermediate_size": 96,
            "num_hidden_layers": 6, "num_attention_heads": 4
        });
        json[key] = value;
        Config::from_json(&json)
    }

    #[test]
    fn layers_without_rope_are_every_fourth_or_those_that_are_listed() {
        for (key, value, layers) in [
            (LAYERS, Value::Null, vec![3]),
            (INTERVAL, json!(2), vec![1, 3, 5]),
            (LAYERS, json!([1, 1, 0, 0, 1, 1]), vec![2, 3]),
            // That of a longer model.
            (LAYERS, json!([false, true, true, true, true, true, false]), vec![0]),
        ] {
            let config = smollm3(key, value).unwrap();
            assert_eq!((config.architecture, &config.layers_without_rope), (Architecture::SMOLLM3, &layers));
            assert!(config.tie_word_embeddings, "by default");
            assert_eq!((config.rope.theta, config.num_kv_heads), (2e6, 4));
            assert_eq!(Config::from_json(&config.to_json().unwrap()).unwrap(), config);
        }
    }

    #[test]
    fn a_list_that_does_not_cover_the_layers_is_refused_by_name() {
        for (key, value) in [(LAYERS, json!([1, 0])), (LAYERS, json!([1, 1, 1, 2, 1, 1])), (INTERVAL, json!(0))] {
            let error = smollm3(key, value).unwrap_err().to_string();
            assert!(error.contains(key) && error.contains("allowed"), "{error}");
        }
    }
}
