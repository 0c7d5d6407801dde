//! Publishing and checkpoints make no second copy of the state. A program of its own: the peak is that of the whole process.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use candle_core::{DType, Device, Tensor};
use evenkeel_learner::{Learner, LearnerSettings, PublishOptions, verify_published};
use evenkeel_model::{Config, Family, Parameters, parameter_specs};

/// Four layers, four times as wide in their feed-forward blocks as the rest: 42 million parameters.
fn config() -> Config {
    Config {
        family: Family::Qwen2,
        vocab_size: 4096,
        hidden_size: 896,
        intermediate_size: 2736,
        num_layers: 4,
        num_heads: 7,
        num_kv_heads: 1,
        head_dim: 128,
        max_position_embeddings: 64,
        rms_norm_eps: 1e-6,
        rope_theta: 1e4,
        qkv_bias: true,
        output_bias: false,
        tie_word_embeddings: false,
        eos_token_ids: Vec::new(),
    }
}

fn parameters() -> Parameters {
    let values = parameter_specs(&config()).0.into_iter().map(|spec| {
        let count: usize = spec.shape.iter().product();
        let values: Vec<f32> = (0..count).map(|i| (i % 1013) as f32 * 1e-4 - 0.05).collect();
        Tensor::from_vec(values, spec.shape, &Device::Cpu).unwrap()
    });
    Parameters::new(&config(), values.collect(), &Device::Cpu).unwrap()
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

#[test]
fn published_weights_and_checkpoints_are_written_without_a_copy_of_the_state() {
    let folder = tempfile::tempdir().unwrap();
    let mut settings = LearnerSettings::default();
    settings.compute.threads = 1;
    let mut learner = Learner::new(config(), parameters(), settings).unwrap();
    // Pages of zeros that were never written are no memory yet.
    learner.save_checkpoint(&folder.path().join("first"), b"").unwrap();
    learner.restore_checkpoint(&folder.path().join("first")).unwrap();
    let bytes = 4 * learner.parameters().count() as u64;
    assert!(bytes > 160 << 20, "{bytes}");

    // Up to eight files at the same time, with a few MiB each.
    let limit = 72 << 20;
    for dtype in [DType::F32, DType::BF16] {
        let options = PublishOptions { dtype, max_shard_bytes: 16 << 20 };
        let grown = growth(|| {
            let published = learner.publish(&folder.path().join(format!("{dtype:?}")), options).unwrap();
            verify_published(&published.path).unwrap();
        });
        assert!(grown < limit, "{grown} bytes for weights in {dtype:?}");
    }
    let path = folder.path().join("second");
    let grown = growth(|| learner.save_checkpoint(&path, b"").unwrap());
    assert!(grown < limit, "{grown} bytes for a checkpoint of {}", 3 * bytes);
}
