use serde_json::{Value, json};

use super::{Config, Family};

fn qwen3() -> Value {
    json!({
        "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "vocab_size": 64, "hidden_size": 48,
        "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 6, "num_key_value_heads": 2,
        "head_dim": 16, "rope_theta": 1e6, "tie_word_embeddings": true, "eos_token_id": [1, 2]
    })
}

/// The smallest model of one layer, with a tied head.
pub(crate) fn tiny() -> Config {
    let mut json = qwen3();
    for (key, size) in [
        ("vocab_size", 4),
        ("hidden_size", 4),
        ("intermediate_size", 4),
        ("num_hidden_layers", 1),
        ("num_attention_heads", 1),
        ("num_key_value_heads", 1),
        ("head_dim", 4),
    ] {
        json[key] = json!(size);
    }
    Config::from_json(&json).unwrap()
}

fn with(key: &str, value: Value) -> Value {
    let mut json = qwen3();
    json[key] = value;
    json
}

#[test]
fn a_config_survives_being_written_and_read() {
    let config = Config::from_json(&qwen3()).unwrap();
    assert_eq!(Config::from_json(&config.to_json()).unwrap(), config);
    assert_eq!(config.eos_token_ids, [1, 2]);
}

#[test]
fn qwen2_has_query_biases_and_divides_its_heads() {
    let json = json!({
        "architectures": ["Qwen2ForCausalLM"], "vocab_size": 64, "hidden_size": 48, "intermediate_size": 96,
        "num_hidden_layers": 2, "num_attention_heads": 6, "num_key_value_heads": 2,
        "sliding_window": 4096, "use_sliding_window": false, "max_window_layers": 28
    });
    let config = Config::from_json(&json).unwrap();
    assert_eq!((config.family, config.head_dim, config.qkv_bias, config.output_bias), (Family::Qwen2, 8, true, false));
}

#[test]
fn what_is_not_computed_is_refused_by_name() {
    let refused = [
        ("architectures", json!(["LlamaForCausalLM"])),
        ("use_sliding_window", json!(true)),
        ("layer_types", json!(["full_attention", "sliding_attention"])),
        ("rope_scaling", json!({"rope_type": "yarn", "factor": 4.0})),
        ("rope_scaling", json!({"type": "linear", "factor": 2.0})),
        ("rope_parameters", json!({"rope_type": "llama3", "rope_theta": 1e6})),
        ("num_experts", json!(128)),
        ("quantization_config", json!({"quant_method": "fp8"})),
        ("hidden_act", json!("gelu")),
        ("attention_dropout", json!(0.1)),
        ("partial_rotary_factor", json!(0.5)),
    ];
    for (key, value) in refused {
        let error = Config::from_json(&with(key, value.clone())).unwrap_err().to_string();
        assert!(error.contains(key), "{key} = {value}: {error}");
    }
}

#[test]
fn senseless_numbers_are_refused_by_name() {
    let refused = [
        ("num_key_value_heads", json!(4)),
        ("head_dim", json!(15)),
        ("hidden_size", json!(0)),
        ("vocab_size", json!("64")),
        ("num_hidden_layers", json!(-1)),
        ("rms_norm_eps", json!(0.0)),
        ("eos_token_id", json!(64)),
        ("rope_parameters", json!({"rope_type": "default", "rope_theta": 5e5})),
    ];
    for (key, value) in refused {
        let error = Config::from_json(&with(key, value.clone())).unwrap_err().to_string();
        assert!(error.contains(key), "{key} = {value}: {error}");
    }
}

#[test]
fn a_missing_size_is_named() {
    let mut json = qwen3();
    json.as_object_mut().unwrap().remove("hidden_size");
    assert!(Config::from_json(&json).unwrap_err().to_string().contains("hidden_size is missing"));
}

#[test]
fn numbers_that_no_model_has_are_refused_before_anything_is_made_of_them() {
    let good = Config::from_json(&qwen3()).unwrap().to_json();
    for field in [
        "vocab_size",
        "hidden_size",
        "intermediate_size",
        "num_hidden_layers",
        "num_attention_heads",
        "num_key_value_heads",
        "head_dim",
        "max_position_embeddings",
    ] {
        for huge in [1_000_000_000_u64, u64::from(u32::MAX), u64::MAX] {
            let mut json = good.clone();
            json[field] = serde_json::json!(huge);
            let error = Config::from_json(&json).unwrap_err().to_string();
            assert!(error.contains(field), "{field} = {huge}: {error}");
        }
    }
    let mut wide = good;
    (wide["num_attention_heads"], wide["num_key_value_heads"]) = (serde_json::json!(16384), serde_json::json!(1));
    wide["head_dim"] = serde_json::json!(16384);
    assert!(Config::from_json(&wide).unwrap_err().to_string().contains("head_dim"));
}
