//! Sampling for all prompts at once, a token at a time, with each token's log-probability.

use std::path::Path;
use std::time::Instant;

use anyhow::Result;
use candle_core::Device;
use evenkeel_model::decode::DecodeStep;
use evenkeel_model::folder::load_parameters;
use evenkeel_model::kernels::cpu::Cpu;
use evenkeel_model::{Config, Decoder};

use super::{Batch, Measured, THREADS};

pub(crate) fn measure(folder: &Path, batch: &Batch, reps: usize, tokens: usize) -> Result<Measured> {
    let (config, _) = Config::load(folder)?;
    let parameters = load_parameters(folder, &config, &Device::Cpu)?;
    let decoder = Decoder::new(config, &parameters, Cpu::new()?, THREADS)?;
    let prompts: Vec<&[u32]> =
        batch.groups.iter().flat_map(|group| group.responses.iter().map(|_| &*group.prompt)).collect();
    let mut measured = Measured::default();
    for rep in 0..=reps {
        let began = Instant::now();
        let mut draw = Draw(rep as u64 + 1);
        decode(&decoder, &prompts, tokens, &mut draw)?;
        if rep > 0 {
            measured.seconds.push(began.elapsed().as_secs_f64());
        }
    }
    Ok(measured)
}

fn decode(decoder: &Decoder, prompts: &[&[u32]], tokens: usize, draw: &mut Draw) -> Result<f64> {
    let mut caches = prompts.iter().map(|_| decoder.sequence()).collect::<Result<Vec<_>, _>>()?;
    let mut current: Vec<Vec<u32>> = prompts.iter().map(|ids| ids.to_vec()).collect();
    let mut total = 0.0;
    for _ in 0..tokens {
        let mut steps: Vec<DecodeStep<'_>> =
            caches.iter_mut().zip(&current).map(|(cache, ids)| DecodeStep::new(cache, ids)).collect();
        let logits = decoder.step(&mut steps)?;
        for (row, ids) in logits.chunks_exact(decoder.config().vocab_size).zip(&mut current) {
            let (token, logp) = sample(row, draw);
            *ids = vec![token];
            total += logp;
        }
    }
    Ok(total)
}

fn sample(logits: &[f32], draw: &mut Draw) -> (u32, f64) {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let weights: Vec<f32> = logits.iter().map(|z| (z - largest).exp()).collect();
    let sum: f32 = weights.iter().sum();
    let mut left = draw.uniform() * sum;
    let found = weights.iter().position(|weight| {
        left -= weight;
        left < 0.0
    });
    let token = found.unwrap_or(weights.len() - 1);
    (token as u32, f64::from((weights[token] / sum).ln()))
}

/// A xorshift generator: what is drawn matters to nothing here.
struct Draw(u64);

impl Draw {
    fn uniform(&mut self) -> f32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 40) as f32 / (1u64 << 24) as f32
    }
}
