//! Logits, log-probabilities and gradients of transformers and PyTorch: `tests/golden`, and other checkpoints outside
//! the repository.
//!
//! `EVENKEEL_SMOLLM2` names the folder of a real model, SmolLM2-135M-Instruct, and `EVENKEEL_SMOLLM2_GGUF` the file of
//! llama.cpp from which it was read: without them its tests are ignored.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use candle_core::{DType, Device, Tensor};
use evenkeel_model::decode::DecodeStep;
use evenkeel_model::folder::{StoredAdapter, load_parameters};
use evenkeel_model::gguf::import_gguf;
use evenkeel_model::kernels::cpu::Cpu;
use evenkeel_model::kernels::portable::Portable;
use evenkeel_model::{
    BaseWeights, BoxError, Coefficients, Config, Decoder, Network, NetworkOptions, Packed, Parameters, Scores,
    TokenLoss, TrainableModel, cuda_device,
};
use evenkeel_testkit::{GoldenCheck, Trial, golden, run, test};
use support::{gradients, host, largest_difference, relative};

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden");
/// Checkpoints for which there are no larger ones outside the repository.
const SMALL: [&str; 8] =
    ["llama", "mistral", "smollm2", "smollm3", "qwen2_yarn", "qwen2_dynamic", "qwen3_yarn", "qwen3_linear"];

/// Adapters, and the models beside which they are.
const LORA: [(&str, &str); 5] =
    [("qwen2", "qwen2"), ("qwen3", "qwen3"), ("llama", "llama"), (STORED_IN_BF16, STORED_IN_BF16), ("head", "llama")];

/// The one whose base is stored in bf16, and may be held so.
const STORED_IN_BF16: &str = "smollm2";

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
    let lora = LORA.into_iter().flat_map(|(name, base)| {
        let adapter = Path::new(GOLDEN).join("lora").join(name);
        let base = Path::new(GOLDEN).join(base);
        type Check = fn(&Path, &Path);
        let checks: [(&str, Check); 3] = [
            ("forward_and_gradients_by_the_fused_kernels", adapter_by_fused_kernels),
            ("forward_and_gradients_by_tensor_operations", adapter_by_tensor_operations),
            ("logits_by_decoding", adapter_by_decoding),
        ];
        checks.map(|(check, body)| {
            let adapter = adapter.clone();
            let base = base.clone();
            test(&format!("lora::{name}::{check}"), move || body(&adapter, &base))
        })
    });
    run(families.flat_map(each).flatten().chain(small).chain(lora).chain(smollm2()).collect())
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
    read_of(folder, config)
}

/// What was computed of a folder, by a model of this shape.
fn read_of(folder: &Path, config: Config) -> Golden {
    let tensors = candle_core::safetensors::load(folder.join("forward.safetensors"), &Device::Cpu).unwrap();
    let ids: Vec<u32> = tensors["tokens"].to_dtype(DType::U32).unwrap().to_vec1().unwrap();
    let mut batch = Packed::default();
    batch.push(&config, &ids, 1..ids.len()).unwrap();
    Golden { config, tensors, ids, batch }
}

fn reproduces(folder: &Path, golden: &Golden, network: &mut dyn TrainableModel) {
    let tensors = &golden.tensors;
    assert!(largest_difference(&network.logits(&golden.ids).unwrap(), &host(&tensors["logits"])) < 1e-5);
    for (temperature, name) in
        [(1.0, "logp"), (0.6, "logp_t06")].into_iter().filter(|(_, name)| tensors.contains_key(*name))
    {
        let found = network.score(std::slice::from_ref(&golden.batch), temperature).unwrap().remove(0);
        assert!(largest_difference(&found.logp, &host(&tensors[name])) < 1e-5, "{name}");
    }
    let loss = Weighted(host(&tensors["weight"]));
    let found = gradients(network, std::slice::from_ref(&golden.batch), 1.0, &loss);
    for (spec, found) in network.parameters().trained_specs().iter().zip(&found) {
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
    let one_by_one = golden.ids.iter().flat_map(|&id| decoder.step(&mut [DecodeStep::new(&mut cache, &[id])]).unwrap());
    assert!(largest_difference(&one_by_one.collect::<Vec<_>>(), &expected) < 1e-5);
    for end in 1..=golden.ids.len() {
        let mut cache = decoder.sequence().unwrap();
        let logits = decoder.step(&mut [DecodeStep::new(&mut cache, &golden.ids[..end])]).unwrap();
        let expected = &expected[(end - 1) * logits.len()..][..logits.len()];
        assert!(largest_difference(&logits, expected) < 1e-5, "a prefill of {end} tokens");
    }
}

/// The golden of an adapter, and the adapter.
fn read_adapter(adapter: &Path, base: &Path) -> (Golden, StoredAdapter) {
    let (config, _) = Config::load(base).unwrap();
    let stored = StoredAdapter::open(adapter, &config).unwrap();
    (read_of(adapter, config), stored)
}

fn beside(base: Parameters, adapter: &StoredAdapter) -> Parameters {
    let values = adapter.read_all(base.device()).unwrap();
    base.with_adapters(adapter.shape(), values).unwrap()
}

fn adapter_by_fused_kernels(adapter: &Path, base: &Path) {
    let (golden, stored) = read_adapter(adapter, base);
    // In the layout that a decoder shares, and as a folder has them.
    let shared = BaseWeights::load(base, golden.config.clone()).unwrap().parameters().unwrap();
    let own = load_parameters(base, &golden.config, &Device::Cpu).unwrap();
    let narrow = BaseWeights::load_in_bf16(base, golden.config.clone());
    assert_eq!(narrow.is_ok(), base.ends_with(STORED_IN_BF16));
    let narrow = narrow.ok().map(|narrow| narrow.parameters().unwrap());
    let found: Vec<_> = [shared, own]
        .into_iter()
        .chain(narrow)
        .map(|base| {
            let options = NetworkOptions { head_chunk_rows: 16, ..NetworkOptions::default() };
            let parameters = beside(base, &stored);
            let mut network = Network::new(golden.config.clone(), parameters, Cpu::new().unwrap(), options).unwrap();
            reproduces(adapter, &golden, &mut network);
            let logits = network.logits(&golden.ids).unwrap();
            let loss = Weighted(host(&golden.tensors["weight"]));
            let gradients = gradients(&mut network, std::slice::from_ref(&golden.batch), 1.0, &loss);
            (logits, gradients.iter().map(host).collect::<Vec<_>>())
        })
        .collect();
    assert!(found.iter().all(|other| *other == found[0]), "the layout or the type of the base changes a bit");
}

fn adapter_by_tensor_operations(adapter: &Path, base: &Path) {
    let (golden, stored) = read_adapter(adapter, base);
    let device = device();
    let parameters = beside(load_parameters(base, &golden.config, &device).unwrap(), &stored);
    let kernels = Portable::new(device, DType::F32).unwrap();
    let mut network = Network::new(golden.config.clone(), parameters, kernels, NetworkOptions::default()).unwrap();
    reproduces(adapter, &golden, &mut network);
}

fn adapter_by_decoding(adapter: &Path, base: &Path) {
    let (golden, stored) = read_adapter(adapter, base);
    let weights = Arc::new(BaseWeights::load(base, golden.config.clone()).unwrap());
    let values = stored.read_all(&Device::Cpu).unwrap();
    let decoder = Decoder::with_adapters(weights.clone(), stored.shape(), values, Cpu::new().unwrap(), 1).unwrap();
    let mut cache = decoder.sequence().unwrap();
    let logits = decoder.step(&mut [DecodeStep::new(&mut cache, &golden.ids)]).unwrap();
    let expected = host(&golden.tensors["logits"]);
    assert!(largest_difference(&logits, &expected[expected.len() - logits.len()..]) < 1e-5);
    if let Ok(narrow) = BaseWeights::load_in_bf16(base, golden.config.clone()) {
        let decoder = Decoder::beside(Arc::new(narrow), &stored, Cpu::new().unwrap(), 1).unwrap();
        let mut cache = decoder.sequence().unwrap();
        assert_eq!(decoder.step(&mut [DecodeStep::new(&mut cache, &golden.ids)]).unwrap(), logits);
    }
    let parameters = beside(weights.parameters().unwrap(), &stored);
    let network =
        Network::new(golden.config.clone(), parameters, Cpu::new().unwrap(), NetworkOptions::default()).unwrap();
    let all = network.logits(&golden.ids).unwrap();
    // Merged into a copy, the same up to rounding.
    let merged = beside(load_parameters(base, &golden.config, &Device::Cpu).unwrap(), &stored).merged().unwrap();
    assert!(merged.lora().is_none());
    let merged = Network::new(golden.config, merged, Cpu::new().unwrap(), NetworkOptions::default()).unwrap();
    assert!(largest_difference(&merged.logits(&golden.ids).unwrap(), &all) < 1e-5);
}

/// The tensor operations run wherever the build can: on the first GPU with `--features cuda`.
fn device() -> Device {
    if cfg!(feature = "cuda") { cuda_device(0).unwrap() } else { Device::Cpu }
}

/// A real model, where the environment says where it is.
fn smollm2() -> [Trial; 2] {
    let named = |variable: &str| std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
    let trial = |name: &str, paths: Option<Vec<PathBuf>>, check: fn(&[PathBuf])| {
        let is_missing = paths.is_none();
        let body = move || {
            check(&paths.unwrap_or_default());
            Ok(())
        };
        Trial::test(name, body).with_ignored_flag(is_missing).with_kind("needs EVENKEEL_SMOLLM2")
    };
    let folder = named("EVENKEEL_SMOLLM2");
    let file = named("EVENKEEL_SMOLLM2_GGUF");
    let both = folder.clone().zip(file).map(|(folder, file)| vec![folder, file]);
    [
        trial("smollm2_135m::log_probabilities_and_gradients", folder.map(|folder| vec![folder]), real_model),
        trial("smollm2_135m::its_gguf_file_is_read_as_transformers_reads_it", both, real_gguf),
    ]
}

fn real_model(paths: &[PathBuf]) {
    let golden = std::fs::read(Path::new(GOLDEN).join("smollm2_135m.json")).unwrap();
    let golden: serde_json::Value = serde_json::from_slice(&golden).unwrap();
    let numbers = |key: &str| golden[key].as_array().unwrap().iter().map(|number| number.as_f64().unwrap());
    let ids: Vec<u32> = numbers("tokens").map(|id| id as u32).collect();
    let wanted: Vec<f32> = numbers("logp").map(|logp| logp as f32).collect();
    let (config, _) = Config::load(&paths[0]).unwrap();
    // The table of positions is as long as the context.
    let config = Config { max_position_embeddings: 256, ..config };
    let mut batch = Packed::default();
    batch.push(&config, &ids, 1..ids.len()).unwrap();
    let parameters = load_parameters(&paths[0], &config, &Device::Cpu).unwrap();
    let mut network = Network::new(config, parameters, Cpu::new().unwrap(), NetworkOptions::default()).unwrap();
    let found = network.score(std::slice::from_ref(&batch), 1.0).unwrap().remove(0).logp;
    let error = largest_difference(&found, &wanted);
    assert!(error < 1e-4, "log-probabilities differ by {error}");
    let found = gradients(&mut network, std::slice::from_ref(&batch), 1.0, &Weighted(vec![1.0; wanted.len()]));
    for (spec, found) in network.parameters().specs().iter().zip(&found) {
        let norm = host(found).iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt();
        let wanted = golden["gradient_norms"][&spec.name].as_f64().unwrap();
        // transformers in f32 is 1.4e-4 from its own float64.
        assert!((norm / wanted - 1.0).abs() < 3e-4, "{}: {norm} for {wanted}", spec.name);
    }
}

fn real_gguf(paths: &[PathBuf]) {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("model");
    import_gguf(&paths[1], &folder).unwrap();
    let read = |folder: &Path| {
        let (config, _) = Config::load(folder).unwrap();
        let parameters = load_parameters(folder, &config, &Device::Cpu).unwrap();
        (config, parameters)
    };
    let (config, found) = read(&folder);
    let (wanted_config, wanted) = read(&paths[0]);
    assert_eq!(config, wanted_config);
    for (spec, (found, wanted)) in found.specs().iter().zip(found.values().iter().zip(wanted.values())) {
        assert_eq!(host(found), host(wanted), "{}", spec.name);
    }
    let tokenizer =
        |folder: &Path| evenkeel_model_folder::Tokenizer::require(&evenkeel_model_folder::Folder::new(folder)).unwrap();
    let found = tokenizer(&folder);
    let wanted = tokenizer(&paths[0]);
    for text in ["What is 58 + 84?", "naïve café — 学校\n\n  x = 3.14159", "<|im_start|>user\nhi<|im_end|>\n"] {
        assert_eq!(found.encode(text, true).unwrap(), wanted.encode(text, true).unwrap(), "{text:?}");
    }
}
