//! Plans of real models beside what whole steps of them allocate on a device that records, and what fits on which card.

use std::fmt::Write as _;
use std::path::Path;

use candle_core::Tensor;
use evenkeel_model::kernels::cuda::{Counter, Cuda};
use evenkeel_model::kernels::{AdamW, Clip, OptimizerKernels, UpdateArrays};
use evenkeel_model::{
    Architecture, Biases, BoxError, Coefficients, Config, Network, Packed, Parameters, Recompute, Rope, Scores,
    TokenLoss, TrainableModel,
};

use super::*;
use crate::settings::{Compute, ComputeType};

const LENGTHS: [usize; 3] = [2048, 4096, 16_384];
/// Free memory of a card without other programs, in GiB: 24, 40, 80 and 141 GB.
const CARDS: [(&str, f64); 4] = [("24 GB", 23.6), ("40 GB", 39.4), ("80 GB", 79.2), ("141 GB", 139.8)];
/// What a plan may be off.
const TOLERANCE: f64 = 0.01;

/// Shapes of Qwen3, and of Qwen2.5 with its biases and without a tied head.
pub(super) fn models() -> [(&'static str, Config); 5] {
    let qwen3 = |hidden_size: usize, intermediate_size: usize, num_layers: usize, num_heads: usize| Config {
        architecture: Architecture::QWEN3,
        query_key_norm: true,
        vocab_size: 151_936,
        hidden_size,
        intermediate_size,
        num_layers,
        num_heads,
        num_kv_heads: 8,
        head_dim: 128,
        max_position_embeddings: 16_385,
        rms_norm_eps: 1e-6,
        rope: Rope::plain(1e6),
        layers_without_rope: Vec::new(),
        biases: Biases::NONE,
        tie_word_embeddings: true,
        eos_token_ids: Vec::new(),
    };
    let qwen2 = Config {
        architecture: Architecture::QWEN2,
        query_key_norm: false,
        vocab_size: 152_064,
        num_kv_heads: 4,
        biases: Biases::QKV,
        tie_word_embeddings: false,
        ..qwen3(3584, 18_944, 28, 28)
    };
    [
        ("Qwen3-0.6B", qwen3(1024, 3072, 28, 16)),
        ("Qwen3-1.7B", qwen3(2048, 6144, 28, 16)),
        ("Qwen3-4B", qwen3(2560, 9728, 36, 32)),
        ("Qwen2.5-7B", qwen2),
        ("Qwen3-8B", Config { tie_word_embeddings: false, ..qwen3(4096, 12_288, 36, 32) }),
    ]
}

fn settings(recompute: Recompute, moments: MomentsLocation) -> TrainingSettings {
    let compute = Compute {
        device: "cuda".into(),
        dtype: ComputeType::Bf16,
        micro_batch_tokens: 16_384,
        recompute,
        ..Compute::default()
    };
    let mut settings = TrainingSettings { compute, ..TrainingSettings::default() };
    settings.optimizer.moments = moments;
    settings
}

struct NoLoss;

impl TokenLoss for NoLoss {
    fn coefficients(&self, _: usize, _: &Packed, scores: &Scores) -> Result<Coefficients, BoxError> {
        let zeros = vec![0.0; scores.logp.len()];
        Ok(Coefficients { logp: zeros.clone(), entropy: zeros })
    }
}

/// The most that a step allocates besides weights and moments: old log-probabilities, a micro-batch of each block and
/// two of the last, and the update. A micro-batch has sequences of these lengths.
fn recorded(config: &Config, settings: &TrainingSettings, lengths: &[usize]) -> u64 {
    let counter = Counter::new(CHIP);
    let kernels = Cuda::new(counter.clone(), settings.compute.dtype.into()).unwrap();
    let parameters = Parameters::described(config).unwrap();
    let options = settings.compute.network_options();
    let mut network = Network::new(config.clone(), parameters, kernels, options).unwrap();
    let blocks = settings.compute.gradient_blocks;
    let batches: Vec<_> = (0..blocks + 1)
        .map(|number| {
            let mut batch = Packed::default();
            for &length in lengths {
                batch.push(config, &vec![0; length + 1], 1..=length).unwrap();
            }
            batch.in_block(number.min(blocks - 1))
        })
        .collect();
    network.score(&batches, 1.0).unwrap();
    network.accumulate(&batches, 1.0, &NoLoss).unwrap();
    let gradients = network.take_gradients().unwrap();
    let passes = counter.take().peak;

    let numbers = AdamW { betas: [0.9, 0.999], step: 0.0, second_root: 1.0, epsilon: 1e-8, shrink: 1.0 };
    let numbers = vec![numbers; gradients.len()];
    let clip = Clip { scale: 1.0, limit: 1.0 };
    let weights = network.parameters().values();
    let kernels = network.kernels();
    match settings.optimizer.moments {
        MomentsLocation::Device => {
            let arrays = UpdateArrays { weights, first: weights, second: weights, gradients: &gradients };
            kernels.update(arrays, clip, &numbers).unwrap();
        }
        MomentsLocation::Host => {
            let counts: Vec<usize> = weights.iter().map(Tensor::elem_count).collect();
            let mut moments = kernels.host_moments(&counts).unwrap();
            kernels.update_from_host(weights, &gradients, &mut moments, clip, &numbers).unwrap();
        }
    }
    // A counter gives up the memory of what becomes a tensor: the gradients.
    let gradients: usize = gradients.iter().map(Tensor::elem_count).sum();
    passes.max(counter.take().peak + 4 * gradients as u64)
}

#[test]
fn a_plan_is_within_a_hundredth_of_what_a_step_of_a_real_model_allocates() {
    for (name, config) in models() {
        for (length, recompute) in LENGTHS.into_iter().flat_map(|length| Recompute::ALL.map(|each| (length, each))) {
            // What is computed again and where moments are do not depend on each other.
            let moments = if recompute == Recompute::Full { MomentsLocation::Host } else { MomentsLocation::Device };
            let mut settings = settings(recompute, moments);
            // With more blocks more gradients are allocated, each like the one before.
            settings.compute.gradient_blocks = if length == LENGTHS[2] { 8 } else { 2 };
            let plan = MemoryPlan::of(&config, &settings, length).unwrap();
            let of_steps = |part: &&MemoryPart| matches!(part.what, MemoryUse::Gradients | MemoryUse::Activations);
            let planned: u64 = plan.parts.iter().filter(of_steps).map(|part| part.bytes).sum();
            let sequences = settings.compute.micro_batch_tokens / length;
            let recorded = recorded(&config, &settings, &vec![length; sequences]);
            let off = planned as f64 / recorded as f64 - 1.0;
            assert!(off.abs() < TOLERANCE, "{name} at {length}, {recompute:?}: {planned} planned, {recorded} recorded");
        }
    }
}

#[test]
fn shorter_sequences_that_fill_a_micro_batch_take_no_more_than_planned_and_no_less_than_nine_tenths() {
    const LONGEST: usize = 6000;
    let [(_, config), ..] = models();
    for recompute in Recompute::ALL {
        let mut settings = settings(recompute, MomentsLocation::Device);
        settings.compute.gradient_blocks = 2;
        let plan = MemoryPlan::of(&config, &settings, LONGEST).unwrap();
        let of_steps = |part: &&MemoryPart| matches!(part.what, MemoryUse::Gradients | MemoryUse::Activations);
        let planned: u64 = plan.parts.iter().filter(of_steps).map(|part| part.bytes).sum();
        for lengths in [&[LONGEST, LONGEST, 4384][..], &[LONGEST, 5000, 3000, 2384], &[1024; 16], &[128; 128]] {
            assert_eq!(lengths.iter().sum::<usize>(), settings.compute.micro_batch_tokens);
            let recorded = recorded(&config, &settings, lengths);
            let share = planned as f64 / recorded as f64;
            assert!((1.0 - TOLERANCE..1.1).contains(&share), "{recompute:?}, {lengths:?}: {share}");
        }
    }
}

/// How a model fits a card at a length, for people.
fn way(config: &Config, length: usize, gibibytes: f64) -> String {
    let settings = settings(Recompute::None, MomentsLocation::Device);
    let free = (gibibytes * f64::from(1 << 30)) as u64;
    let Some(fit) = FirstFit::of(config, &settings, length, free, None, true).unwrap() else { return "no".into() };
    let words = fit.changes.iter().map(|change| match change {
        Change::MicroBatchTokens(tokens) => format!("{} k", tokens / 1024),
        Change::Recompute(recompute) => recompute.name().to_owned(),
        Change::OneBlock => "1 block".to_owned(),
        Change::MomentsOnHost => "host".to_owned(),
        Change::BaseInBf16 => "bf16 base".to_owned(),
    });
    let words = words.collect::<Vec<_>>().join(", ");
    format!("{} ({})", if words.is_empty() { "as it is" } else { &words }, super::gibibytes(fit.plan.total()))
}

#[test]
fn the_documents_say_what_fits_which_card() {
    let mut table = String::new();
    for (name, config) in models() {
        // The shortest sequences take what the next ones take.
        let [short, rows @ ..] = LENGTHS;
        let ways_of = |length| CARDS.iter().map(|(_, gibibytes)| way(&config, length, *gibibytes)).collect::<Vec<_>>();
        assert_eq!(ways_of(short), ways_of(rows[0]), "{name}");
        for length in rows {
            writeln!(table, "| {name} at {} k | {} |", length / 1024, ways_of(length).join(" | ")).unwrap();
        }
    }
    let page = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/gpu.md")).unwrap();
    assert!(page.contains(&table), "docs/gpu.md is to have:\n{table}");
}
