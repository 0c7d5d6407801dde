//! What bf16 costs: log-probabilities of the kernels that a GPU runs, on fibres, against those of fp32.
//!
//! Products are emulated as cuBLASLt computes them: factors in bf16, sums in fp32, and the result rounded once.

use std::path::Path;

use candle_core::{DType, Device, Tensor};
use evenkeel_kernel_checks::{Host, Runner, multiply_in_fp32};
use evenkeel_kernels::{Chip, Launch, Product};
use evenkeel_model::folder::load_parameters;
use evenkeel_model::kernels::cpu::Cpu;
use evenkeel_model::kernels::cuda::Cuda;
use evenkeel_model::{Config, Family, Network, NetworkOptions, Packed, Parameters, Train};

use super::shim::{CHIP, Shim};

/// Largest and mean distance of a log-probability from fp32's, nats.
#[derive(Clone, Copy, Debug)]
struct Gap {
    largest: f64,
    mean: f64,
}

/// On the goldens, whose weights are ten times as large as those that training begins with: the limit of bench/gpu, and half of it in the mean.
const GOLDENS: Gap = Gap { largest: 0.09, mean: 0.045 };
/// At real width: how far PyTorch's own bf16 is from its fp32 on four layers of Qwen3-1.7B with weights N(0, 0.02²), 0.049 and 0.0117 over
/// 2 x 96 tokens (bench/gpu/src/torch/reference.py). It rounds logits to bf16, which these kernels do not.
const WIDE: Gap = Gap { largest: 0.05, mean: 0.012 };

struct Emulated<'a>(&'a Shim);

impl Runner for Emulated<'_> {
    fn chip(&self) -> Chip {
        CHIP
    }

    fn run(&self, launch: &Launch, seed: u32) {
        self.0.run(launch, seed);
    }

    fn multiply(&self, product: &Product) {
        multiply_in_fp32(product);
    }
}

/// The gap between both types on the same weights.
fn gap(shim: &Shim, config: &Config, parameters: Parameters, batch: Packed, wanted: Option<Vec<f32>>) -> Gap {
    let runner = Emulated(shim);
    let batches = [batch];
    let wanted = wanted.unwrap_or_else(|| {
        let copy = parameters.clone();
        let cpu = Network::new(config.clone(), copy, Cpu::new().unwrap(), NetworkOptions::default()).unwrap();
        cpu.score(&batches, 1.0).unwrap().remove(0).logp
    });
    let kernels = Cuda::new(Host::new(&runner), DType::BF16).unwrap();
    let network = Network::new(config.clone(), parameters, kernels, NetworkOptions::default()).unwrap();
    let found = network.score(&batches, 1.0).unwrap().remove(0).logp;
    assert_eq!(found.len(), wanted.len());
    let gaps: Vec<f64> = found.iter().zip(&wanted).map(|(a, b)| f64::from((a - b).abs())).collect();
    let largest = gaps.iter().fold(0.0, |worst, &gap| if gap <= worst { worst } else { gap });
    Gap { largest, mean: gaps.iter().sum::<f64>() / gaps.len() as f64 }
}

fn within(name: &str, found: Gap, limit: Gap) {
    // A NaN is within no limit. And a gap of nothing would be fp32 compared with itself.
    let is_within = found.largest <= limit.largest && found.mean <= limit.mean && found.mean > limit.mean / 100.0;
    assert!(is_within, "{name}: {found:?}, allowed: {limit:?}");
}

pub(crate) fn goldens(shim: &Shim) {
    for family in ["qwen2", "qwen3"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden").join(family);
        let (config, _) = Config::load(&folder).unwrap();
        let golden = candle_core::safetensors::load(folder.join("forward.safetensors"), &Device::Cpu).unwrap();
        let values = |name: &str| -> Vec<f32> {
            let of: &Tensor = &golden[name];
            of.to_dtype(DType::F32).unwrap().flatten_all().unwrap().to_vec1().unwrap()
        };
        let ids: Vec<u32> = values("tokens").into_iter().map(|id| id as u32).collect();
        let mut batch = Packed::default();
        batch.push(&config, &ids, 1..ids.len()).unwrap();
        let parameters = load_parameters(&folder, &config, &Device::Cpu).unwrap();
        within(family, gap(shim, &config, parameters, batch, Some(values("logp"))), GOLDENS);
    }
}

/// Qwen3-1.7B with four layers and a fifth of its vocabulary, of which only the number of logits in a sum depends.
pub(crate) fn real_width(shim: &Shim) {
    let config = Config {
        family: Family::Qwen3,
        vocab_size: 30_000,
        hidden_size: 2048,
        intermediate_size: 6144,
        num_layers: 4,
        num_heads: 16,
        num_kv_heads: 8,
        head_dim: 128,
        max_position_embeddings: 64,
        rms_norm_eps: 1e-6,
        rope_theta: 1e6,
        qkv_bias: false,
        output_bias: false,
        tie_word_embeddings: true,
        eos_token_ids: vec![1],
    };
    let parameters = Parameters::random(&config, 11, 0.02, &Device::Cpu).unwrap();
    let mut batch = Packed::default();
    for (sequence, length) in [33u32, 48].into_iter().enumerate() {
        let ids: Vec<u32> = (0..length).map(|at| (at * 7919 + sequence as u32 * 104_729 + 5) % 30_000).collect();
        batch.push(&config, &ids, 1..ids.len()).unwrap();
    }
    within("real width", gap(shim, &config, parameters, batch, None), WIDE);
}
