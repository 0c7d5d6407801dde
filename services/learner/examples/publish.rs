//! How long it takes to publish weights, and how much of it are digests: four layers of Qwen2.5-Math-7B, in bf16.
//!
//! `cargo run --release -p evenkeel-learner --example publish -- FOLDER [VOCABULARY]`
//!
//! FOLDER should be on a memory disk, as `/dev/shm/published`. With the model's own vocabulary of 152,064 the weights take 8.1 GB of memory and
//! 4.0 GB of the disk; 65,536 leave half of it.
#![allow(clippy::print_stdout, reason = "a measurement on the terminal")]

use std::error::Error;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use candle_core::{DType, Device, Tensor};
use evenkeel_files::FileDigest;
use evenkeel_learner::{Learner, LearnerSettings, PublishOptions};
use evenkeel_model::{Config, Family, Parameters, parameter_specs};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().ok_or("which folder?")?);
    let vocab_size = arguments.next().map_or(Ok(152_064), |text| text.parse())?;
    let config = Config {
        family: Family::Qwen2,
        vocab_size,
        hidden_size: 3584,
        intermediate_size: 18_944,
        num_layers: 4,
        num_heads: 28,
        num_kv_heads: 4,
        head_dim: 128,
        max_position_embeddings: 4096,
        rms_norm_eps: 1e-6,
        rope_theta: 1e4,
        qkv_bias: true,
        output_bias: false,
        tie_word_embeddings: false,
        eos_token_ids: Vec::new(),
    };
    let values = parameter_specs(&config).0.into_iter().map(|spec| {
        let count: usize = spec.shape.iter().product();
        let values: Vec<f32> = (0..count).map(|i| (i % 65_521) as f32 * 1e-6).collect();
        Tensor::from_vec(values, spec.shape, &Device::Cpu)
    });
    let parameters = Parameters::new(&config, values.collect::<Result<_, _>>()?, &Device::Cpu)?;
    let learner = Learner::new(config, parameters, LearnerSettings::default())?;
    let bytes = 2 * learner.parameters().count() as u64;
    println!("{:.2} GB in bf16", bytes as f64 / 1e9);
    let digests = digests_alone();
    for (name, max_shard_bytes) in [("one file", usize::MAX), ("files of 512 MiB", 512 << 20)] {
        let start = Instant::now();
        let published = learner.publish(&folder, PublishOptions { dtype: DType::BF16, max_shard_bytes })?;
        let took = start.elapsed();
        println!("{name}: {took:.2?}, {:.2} GB/s", bytes as f64 / 1e9 / took.as_secs_f64());
        std::fs::remove_dir_all(published.path)?;
    }
    let alone = digests * u32::try_from(bytes >> 20)?;
    println!("digests alone on one processor: {alone:.2?}, {:.2} GB/s", bytes as f64 / 1e9 / alone.as_secs_f64());
    Ok(())
}

/// The time for a MiB.
fn digests_alone() -> Duration {
    const MEBIBYTES: u32 = 256;
    let piece = vec![7; 1 << 20];
    let start = Instant::now();
    (0..MEBIBYTES).for_each(|_| drop(std::hint::black_box(FileDigest::of_bytes(&piece))));
    start.elapsed() / MEBIBYTES
}
