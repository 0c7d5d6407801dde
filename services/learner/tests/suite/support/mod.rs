//! A small model and random groups.

use candle_core::{Device, Tensor};
use evenkeel_learner::{Learner, OptimizerSettings, Response, ResponseGroup, TrainingSettings};
use evenkeel_model::{Architecture, Biases, Config, Parameters, Rope};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

pub(crate) fn config() -> Config {
    Config {
        architecture: Architecture::QWEN3,
        query_key_norm: true,
        vocab_size: 29,
        hidden_size: 24,
        intermediate_size: 40,
        num_layers: 2,
        num_heads: 3,
        num_kv_heads: 1,
        head_dim: 8,
        max_position_embeddings: 64,
        rms_norm_eps: 1e-6,
        rope: Rope::plain(1e4),
        layers_without_rope: Vec::new(),
        biases: Biases::NONE,
        tie_word_embeddings: true,
        eos_token_ids: vec![1],
    }
}

pub(crate) fn settings() -> TrainingSettings {
    let optimizer = OptimizerSettings { learning_rate: 1e-3, warmup_updates: 0, ..OptimizerSettings::default() };
    let mut settings = TrainingSettings { supervised: optimizer.clone(), optimizer, ..TrainingSettings::default() };
    settings.compute.threads = 2;
    settings.compute.micro_batch_tokens = 64;
    settings
}

/// A learner of the same random weights each time.
pub(crate) fn learner(settings: TrainingSettings) -> Learner {
    let parameters = Parameters::random(&config(), 11, 0.2, &Device::Cpu).unwrap();
    Learner::new(config(), parameters, settings).unwrap()
}

pub(crate) fn ids(random: &mut ChaCha8Rng, length: usize) -> Vec<u32> {
    (0..length).map(|_| random.random_range(0..config().vocab_size as u32)).collect()
}

/// A group of `size` responses with both rewards present, some tokens injected.
pub(crate) fn group(seed: u64, size: usize) -> ResponseGroup {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let length = random.random_range(2..8);
    let prompt = ids(&mut random, length);
    let responses = (0..size).map(|number| {
        let length = random.random_range(1..30);
        let tokens = ids(&mut random, length);
        let reward = if number < 2 { number as f64 } else { f64::from(u8::from(random.random_bool(0.5))) };
        Response {
            mask: (0..length).map(|i| i == 0 || random.random_bool(0.9)).collect(),
            rollout_logp: (0..length).map(|_| -random.random_range(2.0..4.5)).collect(),
            tokens,
            raw_reward: reward,
            correct: Some(reward > 0.5),
            reward,
            valid: true,
            ..Response::default()
        }
    });
    ResponseGroup { id: format!("prompt-{seed}"), prompt, hinted_prompt: None, responses: responses.collect() }
}

pub(crate) fn groups(seed: u64, count: u64) -> Vec<ResponseGroup> {
    (0..count).map(|number| group(1000 * seed + number, 5)).collect()
}

/// A group whose responses are all correct.
pub(crate) fn without_signal(seed: u64) -> ResponseGroup {
    let mut group = group(seed, 4);
    group.responses.iter_mut().for_each(|response| (response.reward, response.raw_reward) = (1.0, 1.0));
    group
}

pub(crate) fn host(tensor: &Tensor) -> Vec<f32> {
    tensor.flatten_all().unwrap().to_vec1().unwrap()
}

pub(crate) fn weights(learner: &Learner) -> Vec<f32> {
    learner.parameters().values().iter().flat_map(host).collect()
}

pub(crate) fn bits(learner: &Learner) -> Vec<u32> {
    weights(learner).into_iter().map(f32::to_bits).collect()
}

/// |a - b| / |b - origin|: how far apart two updates from `origin` are.
pub(crate) fn update_difference(a: &[f32], b: &[f32], origin: &[f32]) -> f64 {
    let norm = |values: &mut dyn Iterator<Item = f32>| values.map(|x| f64::from(x).powi(2)).sum::<f64>().sqrt();
    norm(&mut a.iter().zip(b).map(|(a, b)| a - b)) / norm(&mut b.iter().zip(origin).map(|(b, o)| b - o))
}
