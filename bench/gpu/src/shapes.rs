//! The models that are counted, checked and timed, and the work of a pass by the formula that speeds are given in.

use anyhow::Result;
use candle_core::{Device, Tensor};
use evenkeel_learner::MomentsLocation;
use evenkeel_model::kernels::AttentionOptions;
use evenkeel_model::{Config, Family, Packed, Parameters, Recompute, parameter_specs};

/// bf16, dense, on an H100 or H200: operations a second that shares are of.
pub(crate) const PEAK: f64 = 989e12;

/// A model and a micro-batch.
#[derive(Clone)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) config: Config,
    pub(crate) sequences: usize,
    pub(crate) length: usize,
    pub(crate) recompute: Recompute,
    pub(crate) attention: AttentionOptions,
    pub(crate) moments: MomentsLocation,
    /// The least share of the peak that training is to reach.
    pub(crate) aim: f64,
}

/// Qwen3-1.7B.
pub(crate) fn qwen3_1_7b() -> Config {
    Config {
        family: Family::Qwen3,
        vocab_size: 151_936,
        hidden_size: 2048,
        intermediate_size: 6144,
        num_layers: 28,
        num_heads: 16,
        num_kv_heads: 8,
        head_dim: 128,
        max_position_embeddings: 16_385,
        rms_norm_eps: 1e-6,
        rope_theta: 1e6,
        qkv_bias: false,
        output_bias: false,
        tie_word_embeddings: true,
        eos_token_ids: Vec::new(),
    }
}

/// Qwen2.5-Math-7B.
pub(crate) fn qwen2_7b() -> Config {
    Config {
        family: Family::Qwen2,
        vocab_size: 152_064,
        hidden_size: 3584,
        intermediate_size: 18_944,
        num_heads: 28,
        num_kv_heads: 4,
        max_position_embeddings: 4096,
        rope_theta: 1e4,
        qkv_bias: true,
        tie_word_embeddings: false,
        ..qwen3_1_7b()
    }
}

/// Small enough for a CPU, in everything else like another: shows that a check works, no more.
pub(crate) fn tiny(like: &Config) -> Config {
    Config {
        vocab_size: 512,
        hidden_size: 64,
        intermediate_size: 160,
        num_layers: 2,
        num_heads: 4,
        num_kv_heads: 2,
        head_dim: 16,
        ..like.clone()
    }
}

/// The micro-batches of the recipes. The large model has two ways to fit: everything recomputed, or moments in the host's memory, which makes
/// room for what is dear to compute.
pub(crate) fn cases() -> [Case; 4] {
    let small = Case {
        name: "Qwen3-1.7B",
        config: qwen3_1_7b(),
        sequences: 8,
        length: 4096,
        recompute: Recompute::None,
        attention: AttentionOptions::default(),
        moments: MomentsLocation::Device,
        aim: 0.45,
    };
    let long = Case { sequences: 2, length: 16_384, ..small.clone() };
    let large = Case {
        name: "Qwen2.5-Math-7B",
        config: qwen2_7b(),
        length: 2048,
        recompute: Recompute::Full,
        aim: 0.40,
        ..small.clone()
    };
    let streamed = Case { recompute: Recompute::Selective, moments: MomentsLocation::Host, ..large.clone() };
    [small, long, large, streamed]
}

impl Case {
    /// The same in a size that suits the device.
    pub(crate) fn on(self, device: &Device) -> Self {
        match device.is_cuda() {
            true => self,
            false => Self { config: tiny(&self.config), sequences: 2, length: self.length / 64, ..self },
        }
    }

    /// Input tokens.
    pub(crate) fn tokens(&self) -> usize {
        self.sequences * self.length
    }

    /// Whether PyTorch is to keep the inputs of layers alone.
    pub(crate) fn recomputes(&self) -> bool {
        self.recompute != Recompute::None
    }

    /// What the backward pass computes again, for people.
    pub(crate) fn recomputed(&self) -> &'static str {
        match self.recompute {
            Recompute::None => "nothing",
            Recompute::Selective => "norms and activations",
            Recompute::Full => "everything",
        }
    }

    /// 6 N T, with the head once, and 6 s² heads dim for each sequence and layer. What is computed again does not count.
    pub(crate) fn flops(&self) -> f64 {
        let Config { hidden_size, intermediate_size, num_layers, vocab_size, .. } = self.config;
        let (query, kv) = (self.config.query_width(), self.config.kv_width());
        let layer = 2 * hidden_size * query + 2 * hidden_size * kv + 3 * hidden_size * intermediate_size;
        let weights = num_layers * layer + vocab_size * hidden_size;
        let tokens = self.tokens() as f64;
        6.0 * weights as f64 * tokens + 6.0 * tokens * self.length as f64 * (query * num_layers) as f64
    }

    /// Ids of each sequence, one more than are input: the last is scored only.
    pub(crate) fn ids(&self) -> Vec<Vec<u32>> {
        let vocabulary = self.config.vocab_size;
        let id = |sequence: usize, at: usize| ((at * 7919 + sequence * 104_729 + at * at % 31) % vocabulary) as u32;
        (0..self.sequences).map(|sequence| (0..=self.length).map(|at| id(sequence, at)).collect()).collect()
    }

    /// The sequences packed, each token but the first scored.
    pub(crate) fn batch(&self) -> Result<Packed> {
        let mut batch = Packed::default();
        for ids in self.ids() {
            batch.push(&self.config, &ids, 1..ids.len())?;
        }
        Ok(batch)
    }
}

/// Random weights, made on the device.
pub(crate) fn random(config: &Config, device: &Device) -> Result<Parameters> {
    let values = parameter_specs(config).0.into_iter().map(|spec| match spec.kind.decays() {
        true => Tensor::randn(0f32, 0.02, spec.shape, device),
        false => Tensor::ones(spec.shape, candle_core::DType::F32, device),
    });
    Ok(Parameters::new(config, values.collect::<candle_core::Result<_>>()?, device)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_work_of_a_token_is_that_of_the_published_formula() {
        for (case, giga) in cases().into_iter().zip([11.74, 15.96, 43.65, 43.65]) {
            let token = case.flops() / case.tokens() as f64 / 1e9;
            assert!((token / giga - 1.0).abs() < 1e-3, "{}: {token}", case.name);
        }
    }

    #[test]
    fn on_a_cpu_a_case_is_small_and_of_the_same_kind() {
        for case in cases() {
            let small = case.clone().on(&Device::Cpu);
            assert_eq!(small.config.family, case.config.family);
            assert_eq!(small.config.tie_word_embeddings, case.config.tie_word_embeddings);
            assert!(small.flops() < 1e12 && small.batch().is_ok(), "{}", small.flops());
        }
    }
}
