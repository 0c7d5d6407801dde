//! An update of adapters beside one of all weights, on the same batch and in turns: CPU time, which other programs do
//! not change.

use std::path::Path;

use anyhow::{Context, Result};
use candle_core::Device;
use evenkeel_learner::{Learner, LoraSettings, PublishOptions, Response, ResponseGroup, TrainingSettings};
use evenkeel_model::Parameters;
use serde::Serialize;

use super::THREADS;
use super::score::smollm2;

/// Tokens of a prompt and of a response, and responses to a prompt.
const SHAPE: [usize; 3] = [40, 80, 8];
/// What a proof of an engine that computes in f32 scores: sequences, and tokens of each.
const PROOF: [usize; 2] = [32, 12];
/// How often what is shorter than a few ticks is done.
const OFTEN: usize = 10;

/// Seconds of CPU time, one for each repetition.
#[derive(Default, Serialize)]
pub(crate) struct Updates {
    tokens: usize,
    trained: usize,
    full: Vec<f64>,
    lora: Vec<f64>,
    publish: Vec<f64>,
    /// The learner's scores for a proof, of the current version and of two that are suspected.
    proof: Vec<f64>,
    /// lora / full, of the medians.
    ratio: f64,
    /// (publish + proof) / lora, of the medians.
    handover: f64,
}

pub(crate) fn measure(model: &Path, reps: usize, tokens: usize) -> Result<Updates> {
    let open = |settings| match model.to_str() {
        Some("smollm2") => {
            Ok(Learner::new(smollm2(), Parameters::random(&smollm2(), 1, 0.02, &Device::Cpu)?, settings)?)
        }
        _ => anyhow::Ok(Learner::open(model, settings)?),
    };
    let mut full = open(settings(None))?;
    let mut lora = open(settings(Some(LoraSettings::default())))?;
    let vocabulary = full.config().vocab_size;
    let groups = groups(vocabulary, tokens);
    let folder = std::env::temp_dir().join(format!("evenkeel-bench-lora-{}", std::process::id()));
    let proof: Vec<[Vec<u32>; 2]> =
        (0..PROOF[0]).map(|number| [ids(vocabulary, number, 1), ids(vocabulary, number + 9, PROOF[1])]).collect();
    let pairs: Vec<_> = proof.iter().map(|[prompt, response]| (&prompt[..], &response[..])).collect();
    let trained = lora.parameters().trained_count();
    let mut found = Updates { tokens: groups.len() * SHAPE[1] * SHAPE[2], trained, ..Updates::default() };
    for rep in 0..=reps {
        let times = [
            timed(1, || full.train(groups.clone()).map(drop).map_err(Into::into))?,
            timed(1, || lora.train(groups.clone()).map(drop).map_err(Into::into))?,
            timed(OFTEN, || lora.publish(&folder, PublishOptions::default()).map(drop).map_err(Into::into))?,
            3.0 * timed(3, || lora.score(&pairs, 1.0).map(drop).map_err(Into::into))?,
        ];
        // The first one warms up.
        if rep > 0 {
            let lists = [&mut found.full, &mut found.lora, &mut found.publish, &mut found.proof];
            lists.into_iter().zip(times).for_each(|(list, time)| list.push(time));
        }
    }
    std::fs::remove_dir_all(&folder).context("the folder of published adapters")?;
    let [full, lora, publish, proof] = [&found.full, &found.lora, &found.publish, &found.proof].map(|all| median(all));
    (found.ratio, found.handover) = (lora / full, (publish + proof) / lora);
    Ok(found)
}

/// The learner's settings, with adapters or without.
pub(crate) fn settings(lora: Option<LoraSettings>) -> TrainingSettings {
    let mut settings = TrainingSettings { lora, ..TrainingSettings::default() };
    settings.compute.threads = THREADS;
    settings.optimizer.warmup_updates = 0;
    settings
}

/// Token ids without a pattern.
fn ids(vocabulary: usize, number: usize, count: usize) -> Vec<u32> {
    (0..count).map(|at| ((number * 7919 + at * 104_729) % vocabulary) as u32).collect()
}

/// Groups with that many tokens of responses, half of which are right.
pub(crate) fn groups(vocabulary: usize, tokens: usize) -> Vec<ResponseGroup> {
    let [prompt, response, size] = SHAPE;
    (0..tokens.div_ceil(response * size))
        .map(|group| {
            let responses = (0..size).map(|number| Response {
                tokens: ids(vocabulary, 1 + group * size + number, response),
                mask: vec![true; response],
                rollout_logp: vec![-3.0; response],
                raw_reward: (number % 2) as f64,
                reward: (number % 2) as f64,
                valid: true,
                ..Response::default()
            });
            ResponseGroup {
                id: group.to_string(),
                prompt: ids(vocabulary, 1000 + group, prompt),
                hinted_prompt: None,
                responses: responses.collect(),
            }
        })
        .collect()
}

/// Seconds of CPU time that work takes on all threads of this process, as a mean over so many times.
pub(crate) fn timed(times: usize, mut work: impl FnMut() -> Result<()>) -> Result<f64> {
    let before = cpu_seconds()?;
    for _ in 0..times {
        work()?;
    }
    Ok((cpu_seconds()? - before) / times as f64)
}

/// CPU time of all threads, ended ones included, from ticks of a hundredth of a second.
fn cpu_seconds() -> Result<f64> {
    let text = std::fs::read_to_string("/proc/self/stat")?;
    // The name of the program, in brackets, may have spaces.
    let (_, fields) = text.rsplit_once(')').context("stat names no program")?;
    let ticks = |at: usize| anyhow::Ok(fields.split_whitespace().nth(at).context("stat is short")?.parse::<u64>()?);
    Ok((ticks(11)? + ticks(12)?) as f64 / 100.0)
}

pub(crate) fn median(all: &[f64]) -> f64 {
    let mut sorted = all.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}
