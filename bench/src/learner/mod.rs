//! `evenkeel-bench learner train|decode FOLDER REPS TOKENS`: times the case in FOLDER and prints one JSON
//! line. `run.py` calls it beside PyTorch.
//!
//! `evenkeel-bench learner score MODEL REPS TOKENS`: times scoring of that many tokens, plain and with the statistics
//! of what was sampled. MODEL is a folder, or `smollm2` for random weights of that shape.
//!
//! `evenkeel-bench learner products MODEL REPS ROWS`: the rate of each matrix product of that model with that many
//! rows, as a part of that of a large square one.
//!
//! `evenkeel-bench learner lora MODEL REPS TOKENS`: times an update of adapters beside one of all weights, over that
//! many tokens of responses.
//!
//! `evenkeel-bench learner base MODEL REPS TOKENS`: the same beside a base that is held in bf16, which MODEL stores so,
//! and in fp32, with the memory that each takes.
//!
//! `evenkeel-bench learner teacher MODEL REPS TOKENS`: times an update with a teacher of the model's size beside one
//! without. MODEL is a folder.

mod base;
mod decode;
mod lora;
mod products;
mod score;
mod teacher;
mod train;

use std::path::Path;

use anyhow::{Context, Result, bail};
use evenkeel_learner::BaseType;
use serde::{Deserialize, Serialize};

/// The batch that both sides read.
#[derive(Deserialize)]
struct Batch {
    groups: Vec<BatchGroup>,
    /// Groups in an update, whose old log-probabilities are then recomputed; 0 is one update against the engine's.
    mini_batch: usize,
}

#[derive(Deserialize)]
struct BatchGroup {
    prompt: Vec<u32>,
    responses: Vec<BatchResponse>,
}

#[derive(Deserialize)]
struct BatchResponse {
    tokens: Vec<u32>,
    reward: f64,
    logp: Vec<f32>,
}

#[derive(Default, Serialize)]
struct Measured {
    seconds: Vec<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    loss: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    grad_norm: Option<f64>,
}

/// As many threads as the peer has.
const THREADS: usize = 2;

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let [what, folder, reps, tokens] = arguments else {
        bail!("usage: evenkeel-bench learner train|decode|score|products|lora|base|teacher FOLDER REPS TOKENS");
    };
    let folder = Path::new(folder);
    let reps = reps.parse().context("REPS is a whole number")?;
    let tokens = || tokens.parse().context("TOKENS is a whole number");
    let batch = || anyhow::Ok(serde_json::from_slice::<Batch>(&std::fs::read(folder.join("batch.json"))?)?);
    let measured = match what.as_str() {
        "train" => serde_json::to_string(&train::measure(folder, &batch()?, reps)?),
        "decode" => serde_json::to_string(&decode::measure(folder, &batch()?, reps, tokens()?)?),
        "score" => serde_json::to_string(&score::measure(folder, reps, tokens()?)?),
        "products" => serde_json::to_string(&products::measure(folder, reps, tokens()?)?),
        "lora" => serde_json::to_string(&lora::measure(folder, reps, tokens()?)?),
        "teacher" => serde_json::to_string(&teacher::measure(folder, reps, tokens()?)?),
        "base" => serde_json::to_string(&base::measure(folder, reps, tokens()?)?),
        "base-f32" => serde_json::to_string(&base::beside(folder, BaseType::F32, reps, tokens()?)?),
        "base-bf16" => serde_json::to_string(&base::beside(folder, BaseType::Bf16, reps, tokens()?)?),
        other => bail!("case is {other}, allowed: train, decode, score, products, lora, teacher, base"),
    };
    println!("{}", measured?);
    Ok(())
}
