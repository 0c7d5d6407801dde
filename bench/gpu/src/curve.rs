//! GRPO steps of the arithmetic recipe on the device against the same steps on the CPU.
//!
//! The CPU's learner samples, and each step on the device begins with the CPU's weights and moments and the same
//! groups. So a difference is one of the arithmetic of a single step. Learners that go on from their own weights drift
//! apart by orders of magnitude in 50 steps, whatever the first rounding was: 2e-7 of the gradient's norm became 3.5
//! times it.

use std::io::Write;

use anyhow::{Context, Result};
use candle_core::{Device, Tensor};
use evenkeel_learner::{ComputeType, Learner, OptimizerSettings, Schedule, StepReport, TrainingSettings};
use evenkeel_model::{Config, Parameters, cuda_device};
use serde_json::json;

use crate::goldens::{host, relative};
use crate::report::ReportPart;
use crate::sampling::Recipe;

/// Supervised steps on the CPU before: enough that some answers are right.
const WARM_START: u64 = 300;
/// Steps that are compared.
const STEPS: u64 = 50;
/// Where the "device" is the CPU too, only the comparison is tried.
const STEPS_ON_CPU: u64 = 4;
const WARM_START_ON_CPU: u64 = 60;

/// Largest differences in a step: of the loss, of the norm of the gradient (relative), of the entropy, of the change of
/// the weights (relative).
type Differences = [f64; 4];

const NAMES: [&str; 4] = ["loss", "gradient norm, relative", "entropy", "change of the weights, relative"];
const F32: Differences = [1e-6, 1e-4, 1e-6, 1e-2];
const BF16: Differences = [1e-6, 0.15, 1e-2, 0.5];

pub(crate) fn compare(part: &mut ReportPart<'_>, device: &str) -> Result<()> {
    let on_cpu = device == "cpu";
    let (warm_start, steps) = if on_cpu { (WARM_START_ON_CPU, STEPS_ON_CPU) } else { (WARM_START, STEPS) };
    let recipe = Recipe::new()?;
    let (config, fresh) = Recipe::model()?;
    let cpu = settings("cpu", ComputeType::F32, 0, warm_start);
    let threads = cpu.compute.resolved_threads();
    let mut warm = Learner::new(config.clone(), fresh, cpu.clone())?;
    for step in 0..warm_start {
        warm.supervised_step(&recipe.examples(step)?)?;
    }
    let start = warm.parameters().deep_copy()?;

    // Where both are the CPU, one block adds in another order than eight.
    let on_device = |dtype| -> Result<Learner> {
        let parameters = on(&config, &start, device)?;
        let mut settings = settings(device, dtype, threads, warm_start);
        settings.compute.gradient_blocks = if device == "cpu" { 1 } else { cpu.compute.gradient_blocks };
        Ok(Learner::new(config.clone(), parameters, settings)?)
    };
    let mut reference = Learner::new(config.clone(), start.deep_copy()?, cpu.clone())?;
    let mut compared = [("f32", F32, on_device(ComputeType::F32)?), ("bf16", BF16, on_device(ComputeType::Bf16)?)];
    let mut table = part.table("curve.jsonl")?;
    let mut worst = [Differences::default(); 2];
    for step in 0..steps {
        let folder = part.scratch()?;
        let state = folder.path().join("state");
        reference.save_checkpoint(&state, b"")?;
        let groups = recipe.sample(step, &config, reference.parameters(), threads)?;
        let before = flat(reference.parameters())?;
        let wanted = Numbers::of(&reference.train(groups.clone())?)?;
        let wanted_change = change(&reference, &before)?;
        let mut line = json!({"step": step + 1, "cpu": wanted.json()});
        for ((name, _, learner), worst) in compared.iter_mut().zip(&mut worst) {
            learner.restore_checkpoint(&state)?;
            let found = Numbers::of(&learner.train(groups.clone())?)?;
            let of_change = relative(&change(learner, &before)?, &wanted_change);
            line[*name] = found.json();
            line[*name]["change_error"] = json!(of_change);
            let [loss, norm, entropy] = found.differences(&wanted);
            for (worst, difference) in worst.iter_mut().zip([loss, norm, entropy, of_change]) {
                *worst = if difference > *worst || difference.is_nan() { difference } else { *worst };
            }
        }
        writeln!(table, "{line}")?;
    }
    for ((name, limits, _), worst) in compared.iter().zip(worst) {
        for ((what, limit), worst) in NAMES.iter().zip(limits).zip(worst) {
            part.check(format!("{name}: {what} in each of {steps} steps"), worst, *limit);
        }
    }
    Ok(())
}

/// What a step reports.
struct Numbers {
    reward: f64,
    loss: f64,
    norm: f64,
    entropy: f64,
}

impl Numbers {
    fn of(report: &StepReport) -> Result<Self> {
        let update = report.updates.first().context("the step made no update")?;
        Ok(Self {
            reward: report.raw_reward.context("the step has no reward")?,
            loss: update.loss,
            norm: update.grad_norm,
            // A step whose groups have no advantage trains no token.
            entropy: update.entropy.unwrap_or(0.0),
        })
    }

    fn differences(&self, wanted: &Self) -> [f64; 3] {
        let norm = if wanted.norm == 0.0 { self.norm } else { (self.norm / wanted.norm - 1.0).abs() };
        [(self.loss - wanted.loss).abs(), norm, (self.entropy - wanted.entropy).abs()]
    }

    fn json(&self) -> serde_json::Value {
        json!({"reward": self.reward, "loss": self.loss, "grad_norm": self.norm, "entropy": self.entropy})
    }
}

pub(crate) fn settings(device: &str, dtype: ComputeType, threads: usize, warm_start: u64) -> TrainingSettings {
    let mut settings = TrainingSettings {
        optimizer: OptimizerSettings {
            learning_rate: 1.5e-4,
            betas: [0.9, 0.95],
            weight_decay: 0.0,
            warmup_updates: 0,
            ..OptimizerSettings::default()
        },
        supervised: OptimizerSettings {
            learning_rate: 2e-3,
            weight_decay: 0.0,
            warmup_updates: 20.min(warm_start / 2),
            schedule: Schedule::Cosine,
            total_updates: warm_start,
            ..OptimizerSettings::default()
        },
        ..TrainingSettings::default()
    };
    settings.compute.device = device.into();
    settings.compute.dtype = dtype;
    settings.compute.threads = threads;
    settings
}

fn on(config: &Config, parameters: &Parameters, device: &str) -> Result<Parameters> {
    let device = if device == "cpu" { Device::Cpu } else { cuda_device(0)? };
    Ok(Parameters::new(config, parameters.deep_copy()?.values().to_vec(), &device)?)
}

fn flat(parameters: &Parameters) -> Result<Vec<f32>> {
    Ok(parameters.values().iter().map(host).collect::<Result<Vec<Vec<f32>>>>()?.concat())
}

fn change(learner: &Learner, origin: &[f32]) -> Result<Vec<f32>> {
    let values: Vec<&Tensor> = learner.parameters().values().iter().collect();
    let now = values.into_iter().map(host).collect::<Result<Vec<_>>>()?.concat();
    Ok(now.iter().zip(origin).map(|(now, origin)| now - origin).collect())
}
