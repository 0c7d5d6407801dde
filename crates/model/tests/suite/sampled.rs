//! What decoding reports of a sampled token is what the network in training computes for it, to the bit.

use candle_core::{Device, Tensor};
use evenkeel_model::decode::DecodeStep;
use evenkeel_model::kernels::cpu::Cpu;
use evenkeel_model::sampling::{
    DrawOptions, LogprobsMode, LogprobsRequest, SampledFrom, Sampler, TokenDraw, Truncation,
};
use evenkeel_model::{
    Architecture, Config, Decoder, KvCache, LinearModule, LoraShape, NetworkOptions, Packed, Parameters, TrainableModel,
};
use proptest::prelude::*;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::support::{config, cpu, ids, parameters, variants};

/// A sample that is drawn, with what is reported of its tokens.
struct Sample {
    cache: KvCache,
    /// The last token of the prompt, then those that were drawn.
    ids: Vec<u32>,
    reported: Vec<f32>,
    /// The random number of each draw.
    numbers: Vec<f64>,
    length: usize,
    temperature: f32,
}

impl Sample {
    fn response(&self) -> &[u32] {
        &self.ids[1..]
    }
}

/// The tokens that end a sample.
const ENDS: [u32; 1] = [1];

/// Draws a sample of each length and temperature behind a prompt, all in one batch, over copies of the prompt's keys.
/// The first `early` tokens are drawn without the ends.
fn sample(
    decoder: &Decoder,
    prompt: &[u32],
    samples: &[(usize, f32)],
    (truncation, early): (Truncation, usize),
    random: &mut ChaCha8Rng,
) -> Vec<Sample> {
    let (&last, first) = prompt.split_last().unwrap();
    let mut whole = decoder.sequence().unwrap();
    if !first.is_empty() {
        decoder.step(&mut [DecodeStep::new(&mut whole, first)]).unwrap();
    }
    let begin = |&(length, temperature): &(usize, f32)| {
        let cache = decoder.prefix(&whole, first.len()).unwrap();
        Sample { cache, ids: vec![last], reported: Vec::new(), numbers: Vec::new(), length, temperature }
    };
    let mut all: Vec<Sample> = samples.iter().map(begin).collect();
    let mut sampler = Sampler::default();
    let logprobs = Some(LogprobsRequest { mode: LogprobsMode::ProcessedLogprobs, alternatives: 0 });
    for number in 0..samples.iter().map(|(length, _)| *length).max().unwrap_or(0) {
        let excluded: &[u32] = if number < early { &ENDS } else { &[] };
        // The logits are already divided.
        let options = DrawOptions { temperature: 1.0, truncation, excluded, logprobs };
        let open = || |sample: &&mut Sample| number < sample.length;
        let steps = all.iter_mut().filter(open()).map(|sample| DecodeStep {
            cache: &mut sample.cache,
            ids: &sample.ids[number..],
            temperature: sample.temperature,
        });
        let mut logits = decoder.step(&mut steps.collect::<Vec<_>>()).unwrap();
        let rows = logits.chunks_exact_mut(decoder.config().vocab_size);
        for (sample, row) in all.iter_mut().filter(open()).zip(rows) {
            let number = random.random();
            let drawn = sampler.draw(row, options, number, &mut Vec::new()).unwrap();
            sample.numbers.push(number);
            sample.ids.push(drawn.id);
            sample.reported.extend(drawn.logprob);
        }
    }
    all
}

/// The samples of a prompt at a temperature in a micro-batch, the prompt computed once or with each of them.
fn packed(config: &Config, prompt: &[u32], samples: &[&Sample], shared: bool) -> Packed {
    let mut batch = Packed::default();
    if shared {
        let end = |sample: &Sample| prompt.len() + sample.response().len();
        let continuations = samples.iter().map(|sample| (sample.response(), prompt.len()..end(sample)));
        batch.push_shared(config, prompt, continuations).unwrap();
        return batch;
    }
    for sample in samples {
        let whole = [prompt, sample.response()].concat();
        batch.push(config, &whole, prompt.len()..whole.len()).unwrap();
    }
    batch
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// Draws samples, and compares what is reported with the network's log-probabilities, by any number of threads, with
/// the prompt shared and not. Returns how many tokens were compared.
fn assert_equal(
    config: &Config,
    parameters: &Parameters,
    prompt: &[u32],
    samples: &[(usize, f32)],
    seed: u64,
) -> usize {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let decoder = Decoder::new(config.clone(), parameters, Cpu::new().unwrap(), 1 + seed as usize % 3).unwrap();
    let all = sample(&decoder, prompt, samples, (Truncation::NONE, 0), &mut random);
    let mut compared = 0;
    for temperature in samples.iter().map(|(_, temperature)| *temperature) {
        let drawn: Vec<&Sample> = all.iter().filter(|sample| sample.temperature == temperature).collect();
        let reported: Vec<f32> = drawn.iter().flat_map(|sample| sample.reported.iter().copied()).collect();
        for (threads, shared, head_chunk_rows) in [(1, false, 1024), (2, true, 5)] {
            let options = NetworkOptions { threads, head_chunk_rows, ..NetworkOptions::default() };
            let batch = packed(config, prompt, &drawn, shared);
            let scores = cpu(config, parameters, options).score(&[batch], temperature).unwrap().remove(0);
            assert_eq!(bits(&scores.logp), bits(&reported), "{config:?} at {temperature}, shared: {shared}");
            compared += reported.len();
        }
    }
    compared
}

/// Random adapters of these linear layers beside random weights.
fn with_adapters(config: &Config, rank: usize, targets: Vec<LinearModule>, seed: u64) -> Parameters {
    let shape = LoraShape { rank, alpha: 6.0, targets };
    let base = parameters(config, seed);
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let values = base.adapter_specs(&shape).unwrap().into_iter().map(|spec| {
        let values = (0..spec.shape.iter().product()).map(|_| random.random_range(-0.3f32..0.3)).collect();
        Tensor::from_vec(values, spec.shape.as_slice(), &Device::Cpu).unwrap()
    });
    let values = values.collect();
    base.with_adapters(&shape, values).unwrap()
}

#[test]
fn every_shape_of_layer_reports_the_learners_log_probabilities() {
    for (number, config) in variants().iter().enumerate() {
        let prompt = ids(config, &mut ChaCha8Rng::seed_from_u64(1), 20 + number);
        let samples = [(40, 1.0), (1, 1.0), (70, 0.7), (9, 1.3), (33, 1.0)];
        assert!(assert_equal(config, &parameters(config, 3), &prompt, &samples, number as u64) > 300);
    }
}

#[test]
fn so_do_adapters_and_sums_that_are_cut() {
    // Hidden states, the inner layer and the keys of a sequence are each more than the 512 terms of a sum.
    let long = Config {
        hidden_size: 520,
        intermediate_size: 1100,
        max_position_embeddings: 700,
        num_layers: 1,
        head_dim: 72,
        ..config(Architecture::QWEN3)
    };
    let prompt = ids(&long, &mut ChaCha8Rng::seed_from_u64(2), 500);
    assert_equal(&long, &parameters(&long, 3), &prompt, &[(30, 1.0), (140, 0.6)], 1);
    for config in [&variants()[2], &variants()[3]] {
        let prompt = ids(config, &mut ChaCha8Rng::seed_from_u64(3), 30);
        let targets = vec![LinearModule::Query, LinearModule::Value, LinearModule::Down, LinearModule::Head];
        assert_equal(config, &with_adapters(config, 3, targets, 9), &prompt, &[(60, 1.0), (60, 0.8)], 2);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 80, ..ProptestConfig::default() })]

    #[test]
    fn so_does_every_shape_of_model_and_of_adapters(
        kv_heads in 1usize..4, per_kv in 1usize..3, half_dim in 1usize..24, hidden in 1usize..70, inner in 1usize..90,
        layers in 1usize..3, vocab_size in 2usize..400, prompt in 1usize..60,
        samples in prop::collection::vec((1usize..40, prop::sample::select(vec![1.0f32, 0.5, 1.2])), 1..7),
        adapters in prop::option::of((1usize..5, prop::sample::subsequence(LinearModule::ALL.to_vec(), 1..=8))),
        seed in 0u64..1000,
    ) {
        let config = Config {
            num_heads: kv_heads * per_kv,
            num_kv_heads: kv_heads,
            head_dim: 2 * half_dim,
            hidden_size: hidden,
            intermediate_size: inner,
            num_layers: layers,
            vocab_size,
            ..config(if seed % 2 == 0 { Architecture::QWEN3 } else { Architecture::QWEN2 })
        };
        let prompt = ids(&config, &mut ChaCha8Rng::seed_from_u64(seed), prompt);
        let adapted = adapters.and_then(|(rank, mut targets)| {
            targets.retain(|target| *target != LinearModule::Head || !config.tie_word_embeddings);
            // The smaller side of the smallest layer.
            let rank = [hidden, inner, 2 * half_dim * kv_heads, vocab_size].into_iter().fold(rank, usize::min);
            (!targets.is_empty()).then(|| with_adapters(&config, rank, targets, seed))
        });
        let parameters = adapted.unwrap_or_else(|| parameters(&config, seed));
        assert_equal(&config, &parameters, &prompt, &samples, seed);
    }
}

#[test]
fn statistics_of_samples_have_the_reported_log_probabilities_and_draw_the_same_tokens() {
    let config = &variants()[4];
    let parameters = parameters(config, 3);
    let prompt = ids(config, &mut ChaCha8Rng::seed_from_u64(1), 20);
    let decoder = Decoder::new(config.clone(), &parameters, Cpu::new().unwrap(), 1).unwrap();
    let none = Truncation::NONE;
    let early = 4;
    for (number, truncation) in [
        none,
        Truncation { top_k: 5, ..none },
        Truncation { top_p: 0.8, ..none },
        Truncation { min_p: 0.1, ..none },
        Truncation { top_k: 9, top_p: 0.7, min_p: 0.05 },
    ]
    .into_iter()
    .enumerate()
    {
        for temperature in [1.0, 0.7] {
            let mut random = ChaCha8Rng::seed_from_u64(number as u64);
            let of = [(50, temperature), (20, temperature)];
            let samples = sample(&decoder, &prompt, &of, (truncation, early), &mut random);
            let drawn: Vec<&Sample> = samples.iter().collect();
            let batch = packed(config, &prompt, &drawn, true);
            let from = SampledFrom { temperature, truncation, end_tokens: &ENDS };
            let network = cpu(config, &parameters, NetworkOptions::default());
            let of_sample = |sample: &Sample| -> Vec<TokenDraw> {
                let numbers = sample.numbers.iter().enumerate();
                numbers.map(|(at, &number)| TokenDraw { number: Some(number), cannot_end: at < early }).collect()
            };
            let draws = samples.iter().flat_map(of_sample).collect();
            let found = network.score_sampled(std::slice::from_ref(&batch), from, &[draws]).unwrap().remove(0);
            let ids = samples.iter().flat_map(|sample| sample.response().iter().copied());
            assert!(found.iter().map(|token| token.drawn).eq(ids.map(Some)), "{truncation:?} at {temperature}");
            let found: Vec<f32> = found.iter().map(|token| token.statistics.log_probability as f32).collect();
            let reported: Vec<f32> = samples.iter().flat_map(|sample| sample.reported.iter().copied()).collect();
            assert_eq!(bits(&found), bits(&reported), "{truncation:?} at {temperature}");
        }
    }
}

#[test]
fn one_bit_of_one_weight_shows() {
    let config = &variants()[4];
    let parameters = parameters(config, 3);
    let prompt = ids(config, &mut ChaCha8Rng::seed_from_u64(1), 20);
    let decoder = Decoder::new(config.clone(), &parameters, Cpu::new().unwrap(), 1).unwrap();
    let mut random = ChaCha8Rng::seed_from_u64(5);
    let samples = sample(&decoder, &prompt, &[(60, 1.0); 8], (Truncation::NONE, 0), &mut random);
    let reported: Vec<f32> = samples.iter().flat_map(|sample| sample.reported.iter().copied()).collect();
    let batch = packed(config, &prompt, &samples.iter().collect::<Vec<_>>(), true);
    for (number, spec) in parameters.specs().iter().enumerate() {
        let mut changed = parameters.deep_copy().unwrap();
        let values = changed.trained_values_mut();
        let mut flat: Vec<f32> = values[number].flatten_all().unwrap().to_vec1().unwrap();
        let at = flat.len() / 2;
        flat[at] = f32::from_bits(flat[at].to_bits() ^ 1);
        values[number] = Tensor::from_vec(flat, spec.shape.as_slice(), &Device::Cpu).unwrap();
        let scores = cpu(config, &changed, NetworkOptions::default()).score(std::slice::from_ref(&batch), 1.0).unwrap();
        assert_ne!(bits(&scores[0].logp), bits(&reported), "{}", spec.name);
    }
}
