//! Logits, log-probabilities and gradients of transformers and PyTorch: `tests/golden`, and other checkpoints outside the repository.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::collections::HashMap;
use std::path::Path;
use std::process::ExitCode;

use candle_core::{DType, Device, Tensor};
use evenkeel_model::decode::Step;
use evenkeel_model::folder::load_parameters;
use evenkeel_model::kernels::cpu::Cpu;
use evenkeel_model::kernels::portable::Portable;
use evenkeel_model::{
    BoxError, Coefficients, Config, Decoder, Network, NetworkOptions, Packed, Scores, TokenLoss, TrainableModel,
    cuda_device,
};
use evenkeel_testing::{GoldenCheck, golden, run, test};
use support::{gradients, host, largest_difference, relative};

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden");
/// Those of which there are no larger ones outside the repository.
const SMALL: [&str; 8] =
    ["llama", "mistral", "smollm2", "smollm3", "qwen2_yarn", "qwen2_dynamic", "qwen3_yarn", "qwen3_linear"];

fn main() -> ExitCode {
    let checks: [GoldenCheck; 3] = [
        ("forward_and_gradients_by_the_fused_kernels", by_fused_kernels),
        ("forward_and_gradients_by_tensor_operations", by_tensor_operations),
        ("logits_by_decoding", by_decoding),
    ];
    let families = ["qwen2", "qwen3"].into_iter();
    let each = |family| checks.map(|(name, check)| golden(&format!("{family}::{name}"), family, check));
    let small = SMALL.into_iter().flat_map(|family| {
        let committed = Path::new(GOLDEN).join(family);
        checks.map(|(name, check)| {
            let committed = committed.clone();
            test(&format!("{family}::{name}"), move || check(&committed))
        })
    });
    run(families.flat_map(each).flatten().chain(small).collect())
}

struct Weighted(Vec<f32>);

impl TokenLoss for Weighted {
    fn coefficients(&self, _: usize, _: &Packed, scores: &Scores) -> Result<Coefficients, BoxError> {
        Ok(Coefficients { logp: self.0.clone(), entropy: vec![0.0; scores.logp.len()] })
    }
}

struct Golden {
    config: Config,
    tensors: HashMap<String, Tensor>,
    ids: Vec<u32>,
    batch: Packed,
}

fn read(folder: &Path) -> Golden {
    let (config, _) = Config::load(folder).unwrap();
    let tensors = candle_core::safetensors::load(folder.join("forward.safetensors"), &Device::Cpu).unwrap();
    let ids: Vec<u32> = tensors["tokens"].to_dtype(DType::U32).unwrap().to_vec1().unwrap();
    let mut batch = Packed::default();
    batch.push(&config, &ids, 1..ids.len()).unwrap();
    Golden { config, tensors, ids, batch }
}

fn reproduces(folder: &Path, golden: &Golden, network: &mut dyn TrainableModel) {
    let tensors = &golden.tensors;
    assert!(largest_difference(&network.logits(&golden.ids).unwrap(), &host(&tensors["logits"])) < 1e-5);
    for (temperature, name) in [(1.0, "logp"), (0.6, "logp_t06")] {
        let found = network.score(std::slice::from_ref(&golden.batch), temperature).unwrap().remove(0);
        assert!(largest_difference(&found.logp, &host(&tensors[name])) < 1e-5, "{name}");
    }
    let loss = Weighted(host(&tensors["weight"]));
    let found = gradients(network, std::slice::from_ref(&golden.batch), 1.0, &loss);
    for (spec, found) in network.parameters().specs().iter().zip(&found) {
        let error = relative(&host(found), &host(&tensors[&format!("grad.{}", spec.name)]));
        assert!(error < 1e-5, "{}: {}: {error:e} of its norm", folder.display(), spec.name);
    }
}

fn by_fused_kernels(folder: &Path) {
    let golden = read(folder);
    let parameters = load_parameters(folder, &golden.config, &Device::Cpu).unwrap();
    let options = NetworkOptions { head_chunk_rows: 16, ..NetworkOptions::default() };
    let mut network = Network::new(golden.config.clone(), parameters, Cpu::new().unwrap(), options).unwrap();
    reproduces(folder, &golden, &mut network);
}

fn by_tensor_operations(folder: &Path) {
    let golden = read(folder);
    let device = device();
    let parameters = load_parameters(folder, &golden.config, &device).unwrap();
    let kernels = Portable::new(device, DType::F32).unwrap();
    let mut network = Network::new(golden.config.clone(), parameters, kernels, NetworkOptions::default()).unwrap();
    reproduces(folder, &golden, &mut network);
}

fn by_decoding(folder: &Path) {
    let golden = read(folder);
    let parameters = load_parameters(folder, &golden.config, &Device::Cpu).unwrap();
    let decoder = Decoder::new(golden.config.clone(), &parameters, Cpu::new().unwrap(), 1).unwrap();
    let expected = host(&golden.tensors["logits"]);
    let mut cache = decoder.sequence().unwrap();
    let one_by_one =
        golden.ids.iter().flat_map(|&id| decoder.step(&mut [Step { cache: &mut cache, ids: &[id] }]).unwrap());
    assert!(largest_difference(&one_by_one.collect::<Vec<_>>(), &expected) < 1e-5);
    for end in 1..=golden.ids.len() {
        let mut cache = decoder.sequence().unwrap();
        let logits = decoder.step(&mut [Step { cache: &mut cache, ids: &golden.ids[..end] }]).unwrap();
        let expected = &expected[(end - 1) * logits.len()..][..logits.len()];
        assert!(largest_difference(&logits, expected) < 1e-5, "a prefill of {end} tokens");
    }
}

/// The tensor operations run wherever the build can: on the first GPU with `--features cuda`.
fn device() -> Device {
    if cfg!(feature = "cuda") { cuda_device(0).unwrap() } else { Device::Cpu }
}
