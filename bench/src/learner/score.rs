//! An audit of sampled tokens: their statistics beside plain scoring.

use std::path::Path;
use std::time::Instant;

use anyhow::Result;
use candle_core::Device;
use evenkeel_learner::{Learner, TrainingSettings};
use evenkeel_model::sampling::{SampledFrom, Truncation};
use evenkeel_model::{Architecture, Biases, Config, Parameters, Rope};
use serde::Serialize;

use super::THREADS;

/// Tokens of a prompt and of a response.
const LENGTHS: [usize; 2] = [40, 80];

/// Seconds for all tokens, one for each repetition; the ways take turns.
#[derive(Default, Serialize)]
pub(crate) struct Scored {
    tokens: usize,
    plain: Vec<f64>,
    statistics: Vec<f64>,
    truncated: Vec<f64>,
}

pub(crate) fn measure(model: &Path, reps: usize, tokens: usize) -> Result<Scored> {
    let mut settings = TrainingSettings::default();
    settings.compute.threads = THREADS;
    let learner = match model.to_str() {
        Some("smollm2") => Learner::new(smollm2(), Parameters::random(&smollm2(), 1, 0.02, &Device::Cpu)?, settings)?,
        _ => Learner::open(model, settings)?,
    };
    let vocabulary = learner.config().vocab_size;
    let ids =
        |number: usize, count: usize| (0..count).map(move |at| ((number * 7919 + at * 104_729) % vocabulary) as u32);
    let sequences: Vec<[Vec<u32>; 2]> = (0..tokens.div_ceil(LENGTHS[1]))
        .map(|number| [ids(2 * number, LENGTHS[0]).collect(), ids(2 * number + 1, LENGTHS[1]).collect()])
        .collect();
    let pairs: Vec<_> = sequences.iter().map(|[prompt, response]| (&prompt[..], &response[..])).collect();
    let mut scored = Scored { tokens: pairs.len() * LENGTHS[1], ..Scored::default() };
    let from = |truncation| SampledFrom { temperature: 1.0, truncation, end_tokens: &[0] };
    for rep in 0..=reps {
        let times = [
            timed(|| Ok(learner.score(&pairs, 1.0)?.len()))?,
            timed(|| Ok(learner.score_sampled(&pairs, from(Truncation::NONE))?.len()))?,
            timed(|| Ok(learner.score_sampled(&pairs, from(Truncation { top_p: 0.95, ..Truncation::NONE }))?.len()))?,
        ];
        // The first one warms up.
        if rep > 0 {
            let lists = [&mut scored.plain, &mut scored.statistics, &mut scored.truncated];
            lists.into_iter().zip(times).for_each(|(list, time)| list.push(time));
        }
    }
    Ok(scored)
}

fn timed(work: impl FnOnce() -> Result<usize>) -> Result<f64> {
    let began = Instant::now();
    work()?;
    Ok(began.elapsed().as_secs_f64())
}

pub(crate) fn smollm2() -> Config {
    Config {
        architecture: Architecture::QWEN2,
        query_key_norm: false,
        vocab_size: 49_152,
        hidden_size: 576,
        intermediate_size: 1_536,
        num_layers: 30,
        num_heads: 9,
        num_kv_heads: 3,
        head_dim: 64,
        max_position_embeddings: 2_048,
        rms_norm_eps: 1e-5,
        rope: Rope::plain(1e5),
        layers_without_rope: Vec::new(),
        biases: Biases::QKV,
        tie_word_embeddings: true,
        eos_token_ids: vec![0],
    }
}
