use serde_json::{Value, json};

use super::{Architecture, Biases, Config};

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
    assert_eq!(Config::from_json(&config.to_json().unwrap()).unwrap(), config);
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
    assert_eq!((config.architecture, config.head_dim, config.biases), (Architecture::QWEN2, 8, Biases::QKV));
    assert!(!config.query_key_norm);
    assert_eq!(Config::from_json(&config.to_json().unwrap()).unwrap(), config);
}

#[test]
fn qwen3_has_norms_of_heads_and_biases_of_attention_only_where_it_says_so() {
    let capabilities = |json: &Value| {
        let config = Config::from_json(json).unwrap();
        assert_eq!(Config::from_json(&config.to_json().unwrap()).unwrap(), config);
        (config.architecture, config.query_key_norm, config.biases)
    };
    assert_eq!(capabilities(&qwen3()), (Architecture::QWEN3, true, Biases::NONE));
    assert_eq!(capabilities(&with("attention_bias", json!(true))), (Architecture::QWEN3, true, Biases::ATTENTION));
}

#[test]
fn capabilities_that_an_architecture_has_no_words_for_are_not_written() {
    let qwen3 = Config::from_json(&qwen3()).unwrap();
    let cases = [
        ("biases", Config { biases: Biases::QKV, ..qwen3.clone() }),
        ("query_key_norm", Config { query_key_norm: false, ..qwen3.clone() }),
        ("layers_without_rope", Config { layers_without_rope: vec![1], ..qwen3.clone() }),
        ("query_key_norm", Config { architecture: Architecture::QWEN2, biases: Biases::QKV, ..qwen3 }),
    ];
    for (capability, config) in cases {
        let error = config.to_json().unwrap_err().to_string();
        assert!(error.starts_with("architecture is Qwen") && error.ends_with(capability), "{error}");
    }
}

#[test]
fn what_is_not_computed_is_refused_by_name() {
    let refused = [
        ("layer_types", json!(["full_attention", "sliding_attention"])),
        ("layer_types", json!(["full_attention", "linear_attention"])),
        ("mlp_bias", json!(true)),
        ("no_rope_layers", json!([1, 0])),
        ("rope_interleaved", json!(true)),
        ("rope_parameters", json!({"rope_type": "longrope", "rope_theta": 1e6})),
        ("rope_scaling", json!({"factor": 2.0})),
        ("num_experts", json!(128)),
        ("quantization_config", json!({"quant_method": "fp8"})),
        ("hidden_act", json!("gelu")),
        ("attention_dropout", json!(0.1)),
        ("partial_rotary_factor", json!(0.5)),
    ];
    for (key, value) in refused {
        let error = Config::from_json(&with(key, value.clone())).unwrap_err().to_string();
        assert!(error.contains(key) && error.contains(&value.to_string()), "{key} = {value}: {error}");
    }
    let error = Config::from_json(&with("architectures", json!(["MixtralForCausalLM"]))).unwrap_err().to_string();
    let words = "config.json: architectures is \"MixtralForCausalLM\", allowed: LlamaForCausalLM, MistralForCausalLM, \
                 Qwen2ForCausalLM, Qwen3ForCausalLM, SmolLM3ForCausalLM";
    assert_eq!(error, words);
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
        ("rope_scaling", json!({"rope_type": "linear"})),
        ("rope_parameters", json!({"rope_type": "linear", "factor": 0.5})),
        (
            "rope_parameters",
            json!({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 4.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192}),
        ),
        ("rope_parameters", json!({"rope_type": "yarn", "factor": 2.0, "beta_fast": 1.0, "beta_slow": 2.0})),
        ("rope_parameters", json!({"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 0})),
        ("rope_parameters", json!({"rope_type": "yarn", "factor": 2.0, "attention_factor": 0.0})),
        ("rope_parameters", json!({"rope_type": "yarn", "factor": 2.0, "truncate": "no"})),
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
    let good = Config::from_json(&qwen3()).unwrap().to_json().unwrap();
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
    // A table of positions that no memory holds.
    let mut long = good.clone();
    long["max_position_embeddings"] = serde_json::json!(1 << 27);
    let error = Config::from_json(&long).unwrap_err().to_string();
    assert!(
        error.contains("max_position_embeddings is 134217728, allowed: at most 67108864 with head_dim = 16"),
        "{error}"
    );
    let mut wide = good;
    (wide["num_attention_heads"], wide["num_key_value_heads"]) = (serde_json::json!(16384), serde_json::json!(1));
    wide["head_dim"] = serde_json::json!(16384);
    assert!(Config::from_json(&wide).unwrap_err().to_string().contains("head_dim"));
}
