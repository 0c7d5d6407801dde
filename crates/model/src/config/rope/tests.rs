use serde_json::{Value, json};

use super::{Rope, RopeScaling, Yarn};
use crate::config::Config;
use crate::error::Result;

fn model(key: &str, value: Value) -> Value {
    let mut json = json!({
        "architectures": ["LlamaForCausalLM"], "vocab_size": 64, "hidden_size": 48, "intermediate_size": 96,
        "num_hidden_layers": 2, "num_attention_heads": 6, "max_position_embeddings": 64, "rope_theta": 1e6
    });
    json[key] = value;
    json
}

fn of(key: &str, value: Value) -> Result<Config> {
    Config::from_json(&model(key, value))
}

#[test]
fn scaled_rotary_positions_are_read_in_both_spellings() {
    let llama3 = RopeScaling::Llama3 {
        factor: 8.0,
        low_freq_factor: 1.0,
        high_freq_factor: 4.0,
        original_max_position_embeddings: 8192.0,
    };
    let yarn = |original_max_position_embeddings| {
        RopeScaling::Yarn(Yarn {
            factor: 4.0,
            original_max_position_embeddings,
            beta_fast: 32.0,
            beta_slow: 1.0,
            attention_factor: 0.1 * libm::log(4.0) + 1.0,
            is_truncated: true,
        })
    };
    let written = json!({
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192
    });
    let linear = RopeScaling::Linear { factor: 2.0 };
    let dynamic = RopeScaling::Dynamic { factor: 2.0 };
    for (key, value, scaling) in [
        ("rope_scaling", json!({"type": "linear", "factor": 2.0}), linear),
        ("rope_parameters", json!({"rope_type": "linear", "factor": 2, "rope_theta": 1e6}), linear),
        ("rope_scaling", json!({"type": "dynamic", "factor": 2.0}), dynamic),
        (
            "rope_parameters",
            json!({"rope_type": "dynamic", "factor": 2.0, "original_max_position_embeddings": 64}),
            dynamic,
        ),
        ("rope_scaling", json!({"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}), yarn(16.0)),
        ("rope_parameters", json!({"rope_type": "yarn", "factor": 4.0, "rope_theta": 1e6}), yarn(64.0)),
        ("rope_scaling", written.clone(), llama3),
        ("rope_parameters", written, llama3),
        ("rope_scaling", json!({"rope_type": "default"}), RopeScaling::None),
        ("rope_scaling", Value::Null, RopeScaling::None),
    ] {
        let config = of(key, value).unwrap();
        assert_eq!(config.rope, Rope { theta: 1e6, scaling }, "{key}");
        assert_eq!(Config::from_json(&config.to_json().unwrap()).unwrap(), config);
    }
    let mut both = model("rope_scaling", json!({"type": "linear", "factor": 2.0}));
    both["rope_parameters"] = json!({"rope_type": "linear", "factor": 4.0});
    let error = Config::from_json(&both).unwrap_err().to_string();
    assert!(error.contains("rope_scaling is {") && error.contains("what rope_parameters says"), "{error}");
}

#[test]
fn frequencies_are_divided_as_their_scaling_says() {
    let frequencies = |scaling| Rope { theta: 500_000.0, scaling }.frequencies(128);
    let plain = frequencies(RopeScaling::None);
    assert!(
        frequencies(RopeScaling::Linear { factor: 4.0 }).iter().zip(&plain).all(|(found, plain)| *found == plain / 4.0)
    );
    // Llama 3.1: waves of up to 2,048 positions are kept, those of more than 8,192 get eight times as long.
    let found = frequencies(RopeScaling::Llama3 {
        factor: 8.0,
        low_freq_factor: 1.0,
        high_freq_factor: 4.0,
        original_max_position_embeddings: 8192.0,
    });
    let mut kinds = [0; 3];
    for (i, (found, plain)) in found.iter().zip(&plain).enumerate() {
        // In f64, from the definition: between the two the frequency goes linearly from one to the other with the
        // number of waves.
        let exact = 500_000f64.powf(-2.0 * i as f64 / 128.0);
        let waves = 8192.0 * exact / std::f64::consts::TAU;
        let share = ((waves - 1.0) / 3.0).clamp(0.0, 1.0);
        let wanted = exact / 8.0 + share * (exact - exact / 8.0);
        assert!((f64::from(*found) / wanted - 1.0).abs() < 1e-5, "{i}: {found} for {wanted}");
        assert!(share < 1.0 || found == plain);
        kinds[if share == 0.0 {
            0
        } else if share == 1.0 {
            2
        } else {
            1
        }] += 1;
    }
    assert!(kinds.iter().all(|&count| count > 3), "{kinds:?}");
}

#[test]
fn dynamic_scaling_is_the_identity_within_the_context_and_refused_with_another() {
    let dynamic = Rope { theta: 1e4, scaling: RopeScaling::Dynamic { factor: 4.0 } };
    assert_eq!(dynamic.frequencies(16), Rope::plain(1e4).frequencies(16));
    let other = json!({"type": "dynamic", "factor": 2.0, "original_max_position_embeddings": 32});
    let error = of("rope_scaling", other).unwrap_err().to_string();
    let words = "rope_scaling.original_max_position_embeddings is 32, allowed: max_position_embeddings = 64";
    assert!(error.contains(words), "{error}");
}

#[test]
fn a_context_beside_the_settings_goes_before_the_one_within() {
    let mut json = model("rope_scaling", json!({"type": "yarn", "factor": 2.0, "original_max_position_embeddings": 8}));
    json["original_max_position_embeddings"] = json!(16);
    let RopeScaling::Yarn(yarn) = Config::from_json(&json).unwrap().rope.scaling else { panic!("yarn") };
    assert_eq!(yarn.original_max_position_embeddings, 16.0);
}

#[test]
fn settings_that_are_not_understood_are_refused_by_name() {
    for (value, words) in [
        (json!({"full_attention": {"rope_type": "default", "rope_theta": 1e6}}), "rope_scaling"),
        (json!({"partial_rotary_factor": 0.5}), "`rope_scaling.partial_rotary_factor` = 0.5"),
        (json!({"rope_type": "yarn", "factor": "4"}), "rope_scaling.factor is \"4\""),
        (json!({"rope_type": "default", "rope_theta": 5e5}), "rope_theta is 1000000"),
    ] {
        let error = of("rope_scaling", value).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}
