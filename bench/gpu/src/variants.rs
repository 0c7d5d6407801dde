//! Changes to a pass that are off unless they are asked for, beside the pass as it is: how far their results are apart,
//! and how long both take.

use anyhow::{Context, Result};
use candle_core::{DType, Device};
use evenkeel_model::kernels::Variants;
use evenkeel_model::{Config, NetworkOptions, Parameters, TrainableModel, empty_cache};
use serde_json::json;

use crate::goldens::{host, largest, relative};
use crate::model::{Even, fastest};
use crate::path::KernelPath;
use crate::report::ReportPart;
use crate::shapes::{Case, PEAK, cases, random};

/// Rows of logits at a time where they are computed once: as many as fill a card, and no more than it has room for.
const CHUNK: usize = 4096;
/// Bytes of a card for weights that are kept in bf16 and larger chunks of logits, which no plan knows.
const ROOM: u64 = 9 << 30;
/// How far log-probabilities may be apart, nats, and gradients, as a part of their norm: less than bf16 itself changes.
const LIMITS: [f64; 2] = [0.05, 0.03];

/// A variant beside the pass as it is.
pub(crate) fn compare(part: &mut ReportPart<'_>, device: &Device, name: &str, variants: Variants) -> Result<()> {
    let [case, ..] = cases();
    let case = case.on_with_room(device, ROOM)?;
    let config = Config { num_layers: 2, ..case.config.clone() };
    let few = Case { config, sequences: 2, length: case.length.min(512), ..case.clone() };
    let weights = random(&few.config, device)?;
    let wanted = numbers(&few, weights.clone(), Variants::default())?;
    let found = numbers(&few, weights, variants)?;
    part.check(format!("{name}: log-probabilities off those without"), largest(&found.0, &wanted.0), LIMITS[0]);
    part.check(format!("{name}: gradients off those without"), relative(&found.1, &wanted.1), LIMITS[1]);
    let before = seconds(&case, Variants::default(), device)?;
    let after = seconds(&case, variants, device)?;
    part.fact(json!({
        "what": "variant", "variant": name, "model": case.name, "sequences": case.sequences, "length": case.length,
        "recompute": case.recomputed(), "seconds_without": before, "seconds": after, "saved_ms": 1e3 * (before - after),
        "tokens_per_second": case.tokens() as f64 / after, "share_without": case.flops() / before / PEAK,
        "share_of_989_tflops": case.flops() / after / PEAK,
    }));
    Ok(())
}

fn network(case: &Case, weights: Parameters, variants: Variants) -> Result<Box<dyn TrainableModel>> {
    let path = *KernelPath::on(weights.device()).first().context("every device has kernels")?;
    let defaults = NetworkOptions::default();
    let head_chunk_rows = if variants.one_pass_head { CHUNK } else { defaults.head_chunk_rows };
    let options =
        NetworkOptions { recompute: case.recompute, attention: case.attention, head_chunk_rows, variants, ..defaults };
    path.network_by(case.config.clone(), weights, DType::BF16, options)
}

/// Log-probabilities and all gradients.
fn numbers(case: &Case, weights: Parameters, variants: Variants) -> Result<(Vec<f32>, Vec<f32>)> {
    let mut network = network(case, weights, variants)?;
    let batches = [case.batch()?];
    let scores = network.score(&batches, 1.0)?.remove(0);
    network.accumulate(&batches, 1.0, &Even)?;
    let gradients = network.take_gradients()?;
    let all = gradients.iter().map(host).collect::<Result<Vec<_>>>()?;
    Ok((scores.logp, all.concat()))
}

fn seconds(case: &Case, variants: Variants, device: &Device) -> Result<f64> {
    // What networks before have left behind.
    empty_cache(device)?;
    let mut network = network(case, random(&case.config, device)?, variants)?;
    let batches = [case.batch()?];
    fastest(device, || Ok(network.accumulate(&batches, 1.0, &Even)?))
}
