//! Training that continues from a checkpoint has the bits of training that was never interrupted.

use anyhow::{Context, Result};
use candle_core::Device;
use evenkeel_learner::{ComputeType, Learner, ResponseGroup};
use evenkeel_model::{Config, Parameters, cuda_device};

use crate::curve::settings;
use crate::goldens::host;
use crate::report::ReportPart;
use crate::sampling::Recipe;

/// Steps before the checkpoint, and after it.
const BEFORE: usize = 2;
const AFTER: usize = 3;
const WARM_START: u64 = 10;

pub(crate) fn compare(part: &mut ReportPart<'_>, device: &str) -> Result<()> {
    let recipe = Recipe::new()?;
    let (config, fresh) = Recipe::model()?;
    let sampled = recipe.sample(0, &config, &fresh, 2)?;
    let steps: Vec<Vec<ResponseGroup>> = (0..BEFORE + AFTER).map(|step| rewarded(&sampled, step)).collect();
    let (before, after) = steps.split_at(BEFORE);
    for dtype in [ComputeType::F32, ComputeType::Bf16] {
        let folder = part.scratch()?;
        let checkpoint = folder.path().join("checkpoint");
        let mut whole = learner(&config, &fresh, device, dtype)?;
        for step in 0..WARM_START {
            whole.supervised_step(&recipe.examples(step)?)?;
        }
        train(&mut whole, before)?;
        whole.save_checkpoint(&checkpoint, b"place in the data")?;
        train(&mut whole, after)?;

        let mut resumed = learner(&config, &fresh, device, dtype)?;
        resumed.restore_checkpoint(&checkpoint)?;
        let count = whole.parameters().count();
        let name = |what: &str| format!("{dtype:?}: {what} in {AFTER} steps from a checkpoint");
        // Else the next check would compare what never changed.
        let unmoved = count - different(&whole, &resumed)?;
        part.check(name("weights that did not move"), unmoved as f64, count as f64 / 2.0);
        train(&mut resumed, after)?;
        part.check(name("weights with other bits"), different(&whole, &resumed)? as f64, 0.0);
    }
    Ok(())
}

/// The samples of a model that knows nothing yet, as if every other one were right.
fn rewarded(sampled: &[ResponseGroup], step: usize) -> Vec<ResponseGroup> {
    let mut groups = sampled.to_vec();
    for (at, response) in groups.iter_mut().flat_map(|group| &mut group.responses).enumerate() {
        response.reward = ((at + at / 7 + step) % 2) as f64;
        response.raw_reward = response.reward;
    }
    groups
}

fn learner(config: &Config, parameters: &Parameters, device: &str, dtype: ComputeType) -> Result<Learner> {
    let on = if device == "cpu" { Device::Cpu } else { cuda_device(0)? };
    let parameters = Parameters::new(config, parameters.deep_copy()?.values().to_vec(), &on)?;
    let mut settings = settings(device, dtype, 2, WARM_START);
    settings.compute.deterministic = true;
    Ok(Learner::new(config.clone(), parameters, settings)?)
}

fn train(learner: &mut Learner, steps: &[Vec<ResponseGroup>]) -> Result<()> {
    for groups in steps {
        let report = learner.train(groups.clone())?;
        report.updates.first().context("the step made no update")?;
    }
    Ok(())
}

fn different(a: &Learner, b: &Learner) -> Result<usize> {
    let mut count = 0;
    for (a, b) in a.parameters().values().iter().zip(b.parameters().values()) {
        count += host(a)?.iter().zip(host(b)?).filter(|(a, b)| a.to_bits() != b.to_bits()).count();
    }
    Ok(count)
}
