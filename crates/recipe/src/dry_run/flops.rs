//! Floating-point operations of a model.
//!
//! With M the parameters in matrix products (all matrices of the layers, and the head once), a = layers x heads x width
//! of a head, and a sequence of s tokens, a forward pass takes `2 M s + 2 a s^2` operations: a multiplication and an
//! addition for each parameter and token, and causal attention. A backward pass takes twice that. Recomputed
//! activations are not counted.

use evenkeel_model::{Config, parameter_specs};

/// Operations of a model.
#[derive(Debug, Clone, Copy)]
pub(super) struct Passes {
    /// Parameters in matrix products.
    matrices: f64,
    /// Layers x heads x width of a head.
    attention: f64,
}

impl Passes {
    /// The operations of a model of this shape.
    pub(super) fn of(config: &Config) -> Self {
        let (specs, _) = parameter_specs(config);
        let product = |shape: &[usize]| shape.iter().map(|&length| length as f64).product::<f64>();
        let all: f64 = specs.iter().filter(|spec| spec.shape.len() > 1).map(|spec| product(&spec.shape)).sum();
        // Looking a token up is no product; a tied embedding is the head too.
        let embedding = (config.vocab_size * config.hidden_size) as f64;
        let matrices = if config.tie_word_embeddings { all } else { all - embedding };
        Self { matrices, attention: (config.num_layers * config.num_heads * config.head_dim) as f64 }
    }

    /// A forward pass over a sequence.
    pub(super) fn forward(&self, tokens: f64) -> f64 {
        2.0 * self.matrices * tokens + 2.0 * self.attention * tokens * tokens
    }

    /// A prompt once, and each of its responses after it.
    pub(super) fn group(&self, samples: f64, prompt: f64, answer: f64) -> f64 {
        let prefix = self.forward(prompt);
        prefix + samples * (self.forward(prompt + answer) - prefix)
    }
}

#[cfg(test)]
pub(super) mod shapes {
    use evenkeel_model::Config;
    use serde_json::json;

    /// The shape of Qwen3-1.7B.
    pub(in super::super) fn small() -> Config {
        Config::from_json(&json!({
            "architectures": ["Qwen3ForCausalLM"], "vocab_size": 151936, "hidden_size": 2048, "intermediate_size": 6144,
            "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128,
            "max_position_embeddings": 40960, "tie_word_embeddings": true
        }))
        .unwrap()
    }

    /// The shape of Qwen2.5-Math-7B.
    pub(in super::super) fn large() -> Config {
        Config::from_json(&json!({
            "architectures": ["Qwen2ForCausalLM"], "vocab_size": 152064, "hidden_size": 3584, "intermediate_size": 18944,
            "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4,
            "max_position_embeddings": 4096, "tie_word_embeddings": false
        }))
        .unwrap()
    }

    /// The shape of Qwen3-32B.
    pub(in super::super) fn huge() -> Config {
        Config::from_json(&json!({
            "architectures": ["Qwen3ForCausalLM"], "vocab_size": 151936, "hidden_size": 5120, "intermediate_size": 25600,
            "num_hidden_layers": 64, "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 128,
            "max_position_embeddings": 40960, "tie_word_embeddings": false
        }))
        .unwrap()
    }
}

#[cfg(test)]
mod tests {
    use super::shapes::{large, small};
    use super::*;

    #[test]
    fn operations_of_a_trained_token_are_six_for_each_parameter_and_the_attention() {
        // Published shapes, by hand: 1.7B has 28 layers of 50.33 M and a head of 311.16 M, 7B 28 of 233.05 M and 544.99
        // M.
        for (config, length, wanted) in [
            (small(), 2048.0, 11.03e9),
            (small(), 4096.0, 11.74e9),
            (small(), 16384.0, 15.96e9),
            (large(), 2048.0, 43.65e9),
        ] {
            let each = 3.0 * Passes::of(&config).forward(length) / length;
            assert!((each / wanted - 1.0).abs() < 1e-3, "{each:e} at {length}");
        }
    }

    #[test]
    fn the_prompt_of_a_group_is_computed_once() {
        let passes = Passes { matrices: 10.0, attention: 1.0 };
        assert_eq!(passes.group(1.0, 3.0, 2.0), passes.forward(5.0));
        let group = passes.group(4.0, 3.0, 2.0);
        assert_eq!(group, 4.0 * passes.forward(5.0) - 3.0 * passes.forward(3.0));
    }
}
