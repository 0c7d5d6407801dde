//! Whole models of the recipes' shapes with random weights: a pass over a micro-batch, an update, and weights published to a waiting reader.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use candle_core::{DType, Device, Tensor};
use evenkeel_learner::{ComputeType, Learner, LearnerSettings, PublishOptions};
use evenkeel_model::kernels::{AdamW, UpdateArrays};
use evenkeel_model::{BoxError, Coefficients, Packed, Scores, TokenLoss, Train};
use serde_json::json;

use crate::path::KernelPath;
use crate::report::Part;
use crate::shapes::{Case, PEAK, cases, random};

const RUNS: usize = 3;

/// Each token counts the same.
pub(crate) struct Even;

impl TokenLoss for Even {
    fn coefficients(&self, _: usize, _: &Packed, scores: &Scores) -> Result<Coefficients, BoxError> {
        let count = scores.logp.len();
        Ok(Coefficients { logp: vec![-1.0 / count as f32; count], entropy: vec![0.0; count] })
    }
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

/// Passes over every case, and an update of each model.
pub(crate) fn passes(part: &mut Part<'_>, device: &Device) -> Result<()> {
    for case in cases() {
        let case = case.on(device);
        one(part, &case, device).with_context(|| case.name)?;
    }
    Ok(())
}

fn one(part: &mut Part<'_>, case: &Case, device: &Device) -> Result<()> {
    let path = *KernelPath::on(device).first().context("every device has kernels")?;
    let parameters = random(&case.config, device)?;
    let mut network = path.network_with(case.config.clone(), parameters, DType::BF16, case.recompute)?;
    let batches = [case.batch()?];
    let seconds = fastest(device, || Ok(network.accumulate(&batches, 1.0, &Even)?))?;
    part.fact(json!({
        "what": "pass", "by": path.name(), "model": case.name, "sequences": case.sequences, "length": case.length,
        "recompute": case.recomputes(), "seconds": seconds, "tokens_per_second": case.tokens() as f64 / seconds,
        "share_of_989_tflops": case.flops() / seconds / PEAK,
    }));
    // What is left of a large model's memory may not hold its moments.
    if !case.recomputes() {
        match update(network.as_mut(), device)? {
            Some(update) => part.fact(json!({
                "what": "update", "by": path.name(), "model": case.name, "seconds": update, "share_of_one_pass": update / seconds,
            })),
            None => part.fact(json!({"what": "update", "by": path.name(), "skipped": "the device has no kernels for it"})),
        }
    }
    Ok(())
}

/// Seconds of the norm and AdamW; none where the device has no kernels for them.
fn update(network: &mut dyn Train, device: &Device) -> Result<Option<f64>> {
    let gradients = network.take_gradients()?;
    let (kernels, parameters) = network.for_update();
    let Some(kernels) = kernels else { return Ok(None) };
    let zeros = || gradients.iter().map(Tensor::zeros_like).collect::<candle_core::Result<Vec<_>>>();
    let (first, second) = (zeros()?, zeros()?);
    let numbers = AdamW { betas: [0.9, 0.999], step: 1e-6, second_root: 1.0, epsilon: 1e-8, shrink: 1.0 };
    let numbers = vec![numbers; gradients.len()];
    let seconds = fastest(device, || {
        let norm = kernels.norm(&gradients)?;
        let arrays =
            UpdateArrays { weights: parameters.values(), first: &first, second: &second, gradients: &gradients };
        Ok(kernels.update(arrays, 1.0 / (norm + 1e-6), &numbers)?)
    })?;
    Ok(Some(seconds))
}

/// How long a reader waits for published weights, with the files on a memory disk if one is large enough.
pub(crate) fn publish(part: &mut Part<'_>, device: &Device) -> Result<()> {
    let [case, ..] = cases();
    let case = case.on(device);
    let mut settings = LearnerSettings::default();
    settings.compute.device = if device.is_cuda() { "cuda".into() } else { "cpu".into() };
    settings.compute.dtype = if device.is_cuda() { ComputeType::Bf16 } else { ComputeType::F32 };
    let learner = Learner::new(case.config.clone(), random(&case.config, device)?, settings)?;
    let aside = part.scratch()?;
    let memory = Path::new("/dev/shm").join(format!("evenkeel-bench-{}", std::process::id()));
    let on_memory = to_reader(&learner, &memory);
    // Gone in any case: it would keep memory.
    let removed = std::fs::remove_dir_all(&memory);
    let (folder, published, read, bytes) = match on_memory {
        Ok((published, read, bytes)) => {
            removed.with_context(|| memory.display().to_string())?;
            ("/dev/shm".to_owned(), published, read, bytes)
        }
        Err(error) => {
            part.fact(json!({"what": "publish", "folder": "/dev/shm", "error": format!("{error:#}")}));
            let (published, read, bytes) = to_reader(&learner, aside.path())?;
            (aside.path().display().to_string(), published, read, bytes)
        }
    };
    part.fact(json!({
        "what": "publish", "model": case.name, "folder": folder, "bytes": bytes, "published_seconds": published, "read_seconds": read,
    }));
    Ok(())
}

/// Seconds until the weights are published, until a reader that waited has read them, and their bytes.
fn to_reader(learner: &Learner, folder: &Path) -> Result<(f64, f64, u64)> {
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let target = folder.join(format!("step-{}", learner.version()));
    let (began, failed) = (Instant::now(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| wait_and_read(&target, &failed));
        let published = learner.publish(folder, PublishOptions::new(DType::BF16, None)).map(|_| began.elapsed());
        failed.store(published.is_err(), Ordering::Relaxed);
        let read = reader.join().map_err(|_| anyhow::anyhow!("the reader panicked"))?;
        Ok((published?.as_secs_f64(), began.elapsed().as_secs_f64(), read?))
    })
}

/// Reads every file of a folder as soon as it exists.
fn wait_and_read(folder: &Path, failed: &AtomicBool) -> Result<u64> {
    while !folder.exists() {
        if failed.load(Ordering::Relaxed) {
            bail!("{} was not published", folder.display());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder)? {
        bytes += std::fs::read(entry?.path())?.len() as u64;
    }
    Ok(bytes)
}
