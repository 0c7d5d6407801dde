//! Publishing and checkpoints make no second copy of the state. A program of its own: the peak is that of the whole
//! process.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use candle_core::{DType, Device, Tensor};
use evenkeel_learner::{Learner, PublishOptions, TrainingSettings, verify_published};
use evenkeel_model::{Architecture, Biases, Config, Parameters, Rope, parameter_specs};

/// Four layers, four times as wide in their feed-forward blocks as the rest: 42 million parameters.
fn config() -> Config {
    Config {
        architecture: Architecture::QWEN2,
        query_key_norm: false,
        vocab_size: 4096,
        hidden_size: 896,
        intermediate_size: 2736,
        num_layers: 4,
        num_heads: 7,
        num_kv_heads: 1,
        head_dim: 128,
        max_position_embeddings: 64,
        rms_norm_eps: 1e-6,
        rope: Rope::plain(1e4),
        layers_without_rope: Vec::new(),
        biases: Biases::QKV,
        tie_word_embeddings: false,
        eos_token_ids: Vec::new(),
    }
}

/// Four layers of Qwen2.5-Math-7B, with a small vocabulary: 0.94 billion parameters.
fn of_7b() -> Config {
    Config {
        vocab_size: 1024,
        hidden_size: 3584,
        intermediate_size: 18_944,
        num_heads: 28,
        num_kv_heads: 4,
        ..config()
    }
}

fn parameters(config: &Config) -> Parameters {
    let values = parameter_specs(config).0.into_iter().map(|spec| {
        let count: usize = spec.shape.iter().product();
        let values: Vec<f32> = (0..count).map(|i| (i % 1013) as f32 * 1e-4 - 0.05).collect();
        Tensor::from_vec(values, spec.shape, &Device::Cpu).unwrap()
    });
    Parameters::new(config, values.collect(), &Device::Cpu).unwrap()
}

/// The largest size that this process has had since the last reset, in bytes.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    1024 * line.split_whitespace().next().unwrap().parse::<u64>().unwrap()
}

/// By how much the process grows while it does something.
fn growth(work: impl FnOnce()) -> u64 {
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    let before = peak();
    work();
    peak() - before
}

/// Up to eight files at the same time, with a few MiB each: whatever the size of the model.
const LIMIT: u64 = 72 << 20;

/// A learner whose pages are all in memory (zeros that were never written are not), and its weights in bytes.
fn learner(config: &Config, folder: &Path) -> (Learner, u64) {
    let mut settings = TrainingSettings::default();
    settings.compute.threads = 1;
    let mut learner = Learner::new(config.clone(), parameters(config), settings).unwrap();
    learner.save_checkpoint(&folder.join("first"), b"").unwrap();
    learner.restore_checkpoint(&folder.join("first")).unwrap();
    std::fs::remove_dir_all(folder.join("first")).unwrap();
    let bytes = 4 * learner.parameters().count() as u64;
    (learner, bytes)
}

fn checkpoint_grows_by_little(learner: &Learner, bytes: u64, folder: &Path) {
    let path = folder.join("second");
    let grown = growth(|| learner.save_checkpoint(&path, b"").unwrap());
    assert!(grown < LIMIT, "{grown} bytes for a checkpoint of {}", 3 * bytes);
    let written: u64 = std::fs::read_dir(&path).unwrap().map(|file| file.unwrap().metadata().unwrap().len()).sum();
    assert!(written > 3 * bytes, "{written} bytes written of {}", 3 * bytes);
}

#[test]
fn published_weights_and_checkpoints_are_written_without_a_copy_of_the_state() {
    let folder = tempfile::tempdir().unwrap();
    let (learner, bytes) = learner(&config(), folder.path());
    assert!(bytes > 160 << 20, "{bytes}");
    for dtype in [DType::F32, DType::BF16] {
        let options = PublishOptions::new(dtype, Some(16 << 20));
        let grown = growth(|| {
            let published = learner.publish(&folder.path().join(format!("{dtype:?}")), options).unwrap();
            verify_published(&published.path).unwrap();
        });
        assert!(grown < LIMIT, "{grown} bytes for weights in {dtype:?}");
    }
    checkpoint_grows_by_little(&learner, bytes, folder.path());
}

#[test]
#[ignore = "16 GB of memory and 12 GB of disk: cargo test --release -p evenkeel-learner --test memory -- --ignored"]
fn a_checkpoint_of_four_layers_of_the_7b_shape_is_written_without_a_copy_of_the_state() {
    let folder = tempfile::tempdir().unwrap();
    let (learner, bytes) = learner(&of_7b(), folder.path());
    assert!(bytes > 3_700_000_000, "{bytes}");
    checkpoint_grows_by_little(&learner, bytes, folder.path());
}
