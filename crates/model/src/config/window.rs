//! Attention in a sliding window: not computed, and harmless where the window holds the whole context.

use serde_json::Value;

use super::fields::{flag, optional_size};
use super::refused;
use crate::error::{ModelError, Result};

/// What transformers takes where `sliding_window` is missing, in architectures that have one.
const DEFAULT_WIDTH: usize = 4096;
const SLIDING: &str = "sliding_attention";

/// The window in which some layers attend.
pub(super) struct Window {
    /// Width in tokens, the attending one included.
    width: usize,
}

impl Window {
    /// The window of an architecture that has none.
    pub(super) fn none(json: &Value) -> Result<Option<Self>> {
        refuse_sliding_layers(json)?;
        Ok(None)
    }

    /// The window of an architecture whose layers all attend in `sliding_window`, unless it is null.
    pub(super) fn of_all_layers(json: &Value) -> Result<Option<Self>> {
        refuse_sliding_layers(json)?;
        width(json, Some(DEFAULT_WIDTH))
    }

    /// The window of Qwen: `use_sliding_window` switches it on, for the layers from `max_window_layers` on, or those
    /// that `layer_types` lists.
    pub(super) fn of_upper_layers(json: &Value) -> Result<Option<Self>> {
        let layers = optional_size(json, "num_hidden_layers")?.unwrap_or(0);
        let full = optional_size(json, "max_window_layers")?.unwrap_or(28);
        Self::switched(json, full < layers, Some(DEFAULT_WIDTH))
    }

    /// The window of SmolLM3: `use_sliding_window` switches it on, for layers without rotary positions, or those that
    /// `layer_types` lists.
    pub(super) fn of_layers_without_rope(json: &Value, has_any: bool) -> Result<Option<Self>> {
        Self::switched(json, has_any, None)
    }

    fn switched(json: &Value, by_default: bool, default_width: Option<usize>) -> Result<Option<Self>> {
        if !flag(json, "use_sliding_window", false)? {
            refuse_sliding_layers(json)?;
            return Ok(None);
        }
        let slides = match json.get("layer_types").filter(|types| !types.is_null()) {
            Some(types) => has_sliding(types),
            None => by_default,
        };
        if slides { width(json, default_width) } else { Ok(None) }
    }

    /// Refuses a window that leaves out a part of some sequence.
    pub(super) fn refuse_shorter_than(&self, context: usize) -> Result<()> {
        if self.width < context {
            Err(ModelError::Unsupported {
                field: "sliding_window".into(),
                value: self.width.to_string(),
                reason: format!(
                    "attention in a window is not computed where sequences may be longer: max_position_embeddings is \
                     {context}, at most {} is computed as it stands",
                    self.width
                ),
            })
        } else {
            Ok(())
        }
    }
}

fn width(json: &Value, default: Option<usize>) -> Result<Option<Window>> {
    let width = match json.get("sliding_window") {
        None => default,
        Some(_) => optional_size(json, "sliding_window")?,
    };
    match width {
        Some(0) => Err(refused("sliding_window", 0, "a whole number above 0, or null")),
        width => Ok(width.map(|width| Window { width })),
    }
}

fn has_sliding(types: &Value) -> bool {
    types.as_array().is_some_and(|types| types.iter().any(|kind| kind == SLIDING))
}

fn refuse_sliding_layers(json: &Value) -> Result<()> {
    match json.get("layer_types").filter(|types| has_sliding(types)) {
        Some(types) => Err(ModelError::Unsupported {
            field: "layer_types".into(),
            value: types.to_string(),
            reason: "only full_attention layers are computed".into(),
        }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::config::Config;

    fn read(class: &str, keys: &Value) -> Result<(), String> {
        let mut json = json!({
            "architectures": [class], "vocab_size": 64, "hidden_size": 48, "intermediate_size": 96, "num_hidden_layers": 4,
            "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 8192
        });
        for (key, value) in keys.as_object().unwrap() {
            json[key] = value.clone();
        }
        Config::from_json(&json).map(drop).map_err(|error| error.to_string())
    }

    #[test]
    fn a_window_is_refused_where_some_layer_attends_in_it_and_sequences_may_be_longer() {
        let switched_on = |from: usize, width: usize| json!({"use_sliding_window": true, "max_window_layers": from, "sliding_window": width});
        let mut listed = switched_on(4, 4096);
        listed["layer_types"] = json!(["full_attention", "full_attention", "full_attention", "sliding_attention"]);
        for (class, keys, width) in [
            ("MistralForCausalLM", json!({}), 4096),
            ("MistralForCausalLM", json!({"sliding_window": 8191}), 8191),
            ("Qwen2ForCausalLM", switched_on(3, 4096), 4096),
            ("Qwen3ForCausalLM", listed, 4096),
            ("SmolLM3ForCausalLM", json!({"use_sliding_window": true, "sliding_window": 512}), 512),
        ] {
            let error = read(class, &keys).unwrap_err();
            assert!(
                error.contains(&format!("`sliding_window` = {width} ")) && error.contains("8192"),
                "{class}: {error}"
            );
        }
        let error = read("LlamaForCausalLM", &json!({"layer_types": [SLIDING]})).unwrap_err();
        assert!(error.contains("`layer_types` = [\"sliding_attention\"]"), "{error}");
    }

    #[test]
    fn a_window_that_is_only_configured_or_holds_the_whole_context_is_none() {
        for (class, keys) in [
            ("MistralForCausalLM", json!({"sliding_window": null})),
            ("MistralForCausalLM", json!({"sliding_window": 8192})),
            ("MistralForCausalLM", json!({"max_position_embeddings": 4096})),
            ("Qwen2ForCausalLM", json!({"sliding_window": 4096, "use_sliding_window": false, "max_window_layers": 1})),
            ("Qwen2ForCausalLM", json!({"sliding_window": 4096, "use_sliding_window": true, "max_window_layers": 4})),
            ("SmolLM3ForCausalLM", json!({"sliding_window": 512, "use_sliding_window": false})),
            (
                "SmolLM3ForCausalLM",
                json!({"sliding_window": 512, "use_sliding_window": true, "no_rope_layers": [1, 1, 1, 1]}),
            ),
        ] {
            read(class, &keys).unwrap();
        }
    }
}
