//! Whole models of the recipes' shapes with random weights: a pass over a micro-batch, and an update.

use std::time::Instant;

use anyhow::{Context, Result};
use candle_core::{DType, Device, Tensor};
use evenkeel_host::available_memory;
use evenkeel_learner::MomentsLocation;
use evenkeel_model::kernels::{AdamW, Clip, UpdateArrays};
use evenkeel_model::{BoxError, Coefficients, Packed, Scores, TokenLoss, TrainableModel, empty_cache};
use serde_json::json;

use crate::path::KernelPath;
use crate::report::ReportPart;
use crate::shapes::{Case, PEAK, cases, random};
use crate::torch::Peer;

const RUNS: usize = 3;
/// Responses of an update in the recipes of the paper: 32 groups of 16.
const RESPONSES: usize = 512;
/// The largest part of a training step that its update may take.
const UPDATE: f64 = 0.02;

/// Each token counts the same.
pub(crate) struct Even;

impl TokenLoss for Even {
    fn coefficients(&self, _: usize, _: &Packed, scores: &Scores) -> Result<Coefficients, BoxError> {
        Ok(even(scores.logp.len()))
    }

    fn known_coefficients(&self, _: usize, batch: &Packed) -> Option<Coefficients> {
        Some(even(batch.targets().len()))
    }
}

fn even(count: usize) -> Coefficients {
    Coefficients { logp: vec![-1.0 / count as f32; count], entropy: vec![0.0; count] }
}

/// Seconds of the fastest of some runs, after one that does not count.
pub(crate) fn fastest(device: &Device, mut run: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut fastest = f64::INFINITY;
    for number in 0..=RUNS {
        device.synchronize()?;
        let began = Instant::now();
        run()?;
        device.synchronize()?;
        if number > 0 {
            fastest = fastest.min(began.elapsed().as_secs_f64());
        }
    }
    Ok(fastest)
}

/// Passes over every case, and an update of each model; on a GPU with the speeds that they are to reach.
pub(crate) fn passes(part: &mut ReportPart<'_>, device: &Device, peer: &Peer) -> Result<()> {
    for case in cases() {
        part.attempt(case.title(), |part| {
            // What cases before have left behind.
            empty_cache(device)?;
            one(part, &case.on(device)?, device, peer)
        });
    }
    Ok(())
}

fn one(part: &mut ReportPart<'_>, case: &Case, device: &Device, peer: &Peer) -> Result<()> {
    let path = *KernelPath::on(device).first().context("every device has kernels")?;
    let parameters = random(&case.config, device)?;
    let mut network = path.network_with(case.config.clone(), parameters, DType::BF16, case.recompute)?;
    let batches = [case.batch()?];
    let seconds = fastest(device, || Ok(network.accumulate(&batches, 1.0, &Even)?))?;
    let tokens_per_second = case.tokens() as f64 / seconds;
    let share = case.flops() / seconds / PEAK;
    part.fact(json!({
        "what": "pass", "by": path.name(), "model": case.name, "sequences": case.sequences, "length": case.length,
        "recompute": case.recomputed(), "moments": case.moments.name(), "seconds": seconds,
        "tokens_per_second": tokens_per_second, "share_of_989_tflops": share,
    }));
    let update = match update(network.as_mut(), case, device)? {
        Ok(update) => {
            part.fact(json!({
                "what": "update", "by": path.name(), "model": case.name, "moments": case.moments.name(), "seconds": update,
                "share_of_a_step": share_of_a_step(update, seconds, case),
            }));
            Some(update)
        }
        Err(reason) => {
            part.fact(json!({"what": "update", "by": path.name(), "model": case.name, "skipped": reason}));
            None
        }
    };
    if device.is_cuda() {
        check(part, case, Measured { pass: seconds, update }, peer.tokens_per_second(case));
    }
    Ok(())
}

struct Measured {
    pass: f64,
    update: Option<f64>,
}

/// Compares speeds with what they are to be.
fn check(part: &mut ReportPart<'_>, case: &Case, measured: Measured, of_peer: Option<f64>) {
    let name = |what: &str| format!("{}: {what}", case.title());
    part.check_least(name("share of 989 TFLOP/s"), case.flops() / measured.pass / PEAK, case.aim);
    if let Some(of_peer) = of_peer {
        let ours = case.tokens() as f64 / measured.pass;
        part.check_least(name("tokens per second, by PyTorch's"), ours / of_peer, 1.0);
    }
    if let Some(update) = measured.update {
        part.check(name("update, as a part of a step"), share_of_a_step(update, measured.pass, case), UPDATE);
    }
}

/// What an update takes of a step with as many responses as the recipes', all of them as long as the case's.
fn share_of_a_step(update: f64, pass: f64, case: &Case) -> f64 {
    update / (update + pass * (RESPONSES as f64 / case.sequences as f64))
}

/// Seconds of the norm and AdamW, or why they are not measured.
fn update(network: &mut dyn TrainableModel, case: &Case, device: &Device) -> Result<Result<f64, String>> {
    let gradients = network.take_gradients()?;
    let (kernels, parameters) = network.for_update();
    let Some(kernels) = kernels else { return Ok(Err("the device has no kernels for it".into())) };
    let numbers = AdamW { betas: [0.9, 0.999], step: 1e-6, second_root: 1.0, epsilon: 1e-8, shrink: 1.0 };
    let numbers = vec![numbers; gradients.len()];
    let clip = Clip { scale: 1.0, limit: 1.0 };
    let weights = parameters.values();
    if case.moments == MomentsLocation::Device {
        // What the pass leaves to the pool has other sizes.
        empty_cache(device)?;
        let zeros = || gradients.iter().map(Tensor::zeros_like).collect::<candle_core::Result<Vec<_>>>();
        let first = zeros()?;
        let second = zeros()?;
        let arrays = UpdateArrays { weights, first: &first, second: &second, gradients: &gradients };
        return Ok(Ok(fastest(device, || Ok(kernels.update(arrays, clip, &numbers).map(drop)?))?));
    }
    let counts: Vec<usize> = weights.iter().map(Tensor::elem_count).collect();
    let needed = 8 * counts.iter().sum::<usize>() as u64;
    if let Some(available) = available_memory().filter(|&available| available < needed) {
        return Ok(Err(format!("the host has {available} bytes, the moments take {needed}")));
    }
    let mut moments = kernels.host_moments(&counts)?;
    let run = || Ok(kernels.update_from_host(weights, &gradients, &mut moments, clip, &numbers).map(drop)?);
    Ok(Ok(fastest(device, run)?))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Which of share, PyTorch and update are as they are to be.
    fn verdicts(measured: Measured, of_peer: Option<f64>) -> Vec<bool> {
        let [case, ..] = cases();
        let mut part = ReportPart::new(Path::new("."), "model");
        check(&mut part, &case, measured, of_peer);
        part.into_results().1
    }

    #[test]
    fn speeds_are_held_against_the_share_of_the_peak_pytorch_and_the_length_of_a_step() {
        let [case, ..] = cases();
        // Half of the peak, 42,100 tokens a second.
        let pass = case.flops() / PEAK / 0.5;
        assert_eq!(verdicts(Measured { pass, update: Some(0.5) }, Some(40_000.0)), [true, true, true]);
        assert_eq!(verdicts(Measured { pass, update: Some(1.5) }, Some(43_000.0)), [true, false, false]);
        assert_eq!(verdicts(Measured { pass: 1.2 * pass, update: None }, None), [false]);
        assert_eq!(verdicts(Measured { pass: f64::NAN, update: None }, Some(1.0)), [false, false]);
    }
}
