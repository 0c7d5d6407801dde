//! Shared by the black-box tests: small configurations and random batches.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses its own part")]

use candle_core::{DType, Device, Tensor};
use evenkeel_model::kernels::cpu::Cpu;
use evenkeel_model::kernels::portable::Portable;
use evenkeel_model::{
    Architecture, Biases, BoxError, Coefficients, Config, Network, NetworkOptions, Packed, Parameters, Rope,
    RopeScaling, Scores, TokenLoss, TrainableModel, Yarn,
};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

pub mod faulty;
pub mod reference;

pub fn config(architecture: Architecture) -> Config {
    let has_norms = architecture == Architecture::QWEN3;
    Config {
        architecture,
        query_key_norm: has_norms,
        vocab_size: 37,
        hidden_size: 24,
        intermediate_size: 40,
        num_layers: 2,
        num_heads: 4,
        num_kv_heads: 2,
        head_dim: 8,
        max_position_embeddings: 160,
        rms_norm_eps: 1e-6,
        rope: Rope::plain(1e4),
        layers_without_rope: Vec::new(),
        biases: if has_norms { Biases::NONE } else { Biases::QKV },
        tie_word_embeddings: has_norms,
        eos_token_ids: vec![1],
    }
}

/// Scaled so that both kinds of waves and what is between them occur.
fn scaled() -> Rope {
    let scaling = RopeScaling::Llama3 {
        factor: 4.0,
        low_freq_factor: 1.0,
        high_freq_factor: 4.0,
        original_max_position_embeddings: 90.0,
    };
    Rope { theta: 1e4, scaling }
}

/// With a ramp over several pairs, and an amplitude.
fn yarn() -> Rope {
    let scaling = RopeScaling::Yarn(Yarn {
        factor: 4.0,
        original_max_position_embeddings: 40.0,
        beta_fast: 5.0,
        beta_slow: 0.5,
        attention_factor: 1.2,
        is_truncated: false,
    });
    Rope { theta: 100.0, scaling }
}

/// Every shape of layer that a config allows.
pub fn variants() -> Vec<Config> {
    let qwen2 = config(Architecture::QWEN2);
    let qwen3 = config(Architecture::QWEN3);
    vec![
        Config { num_kv_heads: 4, ..qwen2.clone() },
        Config { biases: Biases::ATTENTION, ..qwen3.clone() },
        // A head wider than a block of registers, and no multiple of one.
        Config { num_kv_heads: 1, head_dim: 40, tie_word_embeddings: false, ..qwen3.clone() },
        qwen2.clone(),
        qwen3.clone(),
        // Llama with all biases.
        Config { biases: Biases { mlp: true, ..Biases::ATTENTION }, rope: yarn(), ..qwen2.clone() },
        Config { rope: yarn(), ..qwen3.clone() },
        // What no architecture of today has: capabilities do not depend on each other.
        Config {
            layers_without_rope: vec![1],
            rope: scaled(),
            biases: Biases::NONE,
            tie_word_embeddings: true,
            ..qwen2
        },
        Config { layers_without_rope: vec![0], biases: Biases { key: true, output: true, ..Biases::NONE }, ..qwen3 },
    ]
}

/// Parameters away from their trivial initial values: norms and biases are random as well.
pub fn parameters(config: &Config, seed: u64) -> Parameters {
    let drawn = Parameters::random(config, seed, 0.15, &Device::Cpu).unwrap();
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let values = drawn.values().iter().map(|value| match value.rank() {
        1 => {
            let noise: Vec<f32> = (0..value.elem_count()).map(|_| random.random_range(-0.2..0.2)).collect();
            (value + Tensor::from_vec(noise, value.shape(), &Device::Cpu).unwrap()).unwrap()
        }
        _ => value.clone(),
    });
    Parameters::new(config, values.collect(), &Device::Cpu).unwrap()
}

pub fn cpu(config: &Config, parameters: &Parameters, options: NetworkOptions) -> Network<Cpu> {
    Network::new(config.clone(), parameters.deep_copy().unwrap(), Cpu::new().unwrap(), options).unwrap()
}

pub fn portable(config: &Config, parameters: &Parameters, options: NetworkOptions) -> Network<Portable> {
    let kernels = Portable::new(Device::Cpu, DType::F32).unwrap();
    Network::new(config.clone(), parameters.deep_copy().unwrap(), kernels, options).unwrap()
}

pub fn ids(config: &Config, random: &mut ChaCha8Rng, length: usize) -> Vec<u32> {
    (0..length).map(|_| random.random_range(0..config.vocab_size as u32)).collect()
}

/// Sequences of the given lengths, with about three in four tokens after the first scored.
pub fn packed(config: &Config, seed: u64, lengths: &[usize]) -> Packed {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut batch = Packed::default();
    for &length in lengths {
        let ids = ids(config, &mut random, length);
        let scored: Vec<usize> = (1..length).filter(|&i| i == length - 1 || random.random_bool(0.75)).collect();
        batch.push(config, &ids, scored).unwrap();
    }
    batch
}

/// A loss whose coefficients depend on the token's place in the batch and on its scores.
pub struct Wavy {
    pub entropy: f32,
}

impl TokenLoss for Wavy {
    fn coefficients(&self, _index: usize, batch: &Packed, scores: &Scores) -> Result<Coefficients, BoxError> {
        let wave = |i: usize| ((batch.targets()[i] as f32 + i as f32 * 0.7).sin() + 0.2 * scores.logp[i]) / 10.0;
        let count = scores.logp.len();
        let logp = (0..count).map(wave).collect();
        Ok(Coefficients { logp, entropy: (0..count).map(|i| self.entropy * (0.5 - wave(i))).collect() })
    }
}

pub fn gradients(
    network: &mut dyn TrainableModel,
    batches: &[Packed],
    temperature: f32,
    loss: &dyn TokenLoss,
) -> Vec<Tensor> {
    network.accumulate(batches, temperature, loss).unwrap();
    network.take_gradients().unwrap()
}

pub fn host(tensor: &Tensor) -> Vec<f32> {
    tensor.to_dtype(DType::F32).unwrap().flatten_all().unwrap().to_vec1().unwrap()
}

pub fn bits(tensors: &[Tensor]) -> Vec<u32> {
    tensors.iter().flat_map(host).map(f32::to_bits).collect()
}

/// The Euclidean norm of the values.
pub fn norm(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().map(|x| x * x).sum::<f64>().sqrt()
}

/// |a - b|, Euclidean.
pub fn distance(a: &[f32], b: &[f32]) -> f64 {
    assert_eq!(a.len(), b.len());
    norm(a.iter().zip(b).map(|(a, b)| f64::from(*a) - f64::from(*b)))
}

/// |a - b| / |b|, Euclidean.
pub fn relative(a: &[f32], b: &[f32]) -> f64 {
    let distance = distance(a, b);
    if distance == 0.0 { 0.0 } else { distance / norm(b.iter().map(|b| f64::from(*b))) }
}

pub fn largest_difference(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}
