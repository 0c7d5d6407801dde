//! GRPO steps of the arithmetic recipe on the device against the same steps on the CPU.
//!
//! The CPU's learner samples, and both learn from the same groups. So a difference is one of arithmetic, and other samples do not
//! amplify it.

use std::io::Write;

use anyhow::{Context, Result};
use candle_core::{Device, Tensor};
use evenkeel_learner::{ComputeType, Learner, OptimizerSettings, Schedule, StepReport, TrainingSettings};
use evenkeel_model::{Config, Parameters, cuda_device};
use serde_json::json;

use crate::goldens::{host, relative};
use crate::report::Part;
use crate::sampling::Recipe;

/// Supervised steps on the CPU before: enough that some answers are right.
const WARM_START: u64 = 300;
/// Steps that are compared.
const STEPS: u64 = 50;
/// Where the "device" is the CPU too, only the comparison is tried.
const STEPS_ON_CPU: u64 = 4;
const WARM_START_ON_CPU: u64 = 60;

/// Largest differences in a step, and of the whole change of the weights after all steps.
struct Limits {
    loss: f64,
    norm: f64,
    entropy: f64,
    change: f64,
}

const F32: Limits = Limits { loss: 1e-3, norm: 1e-2, entropy: 1e-3, change: 2e-2 };
const BF16: Limits = Limits { loss: 2e-2, norm: 0.15, entropy: 2e-2, change: 0.35 };

pub(crate) fn compare(part: &mut Part<'_>, device: &str) -> Result<()> {
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
    let origin = flat(&start)?;

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
    let mut worst = [[0.0f64; 3]; 2];
    for step in 0..steps {
        let groups = recipe.sample(step, &config, reference.parameters(), threads)?;
        let wanted = Numbers::of(&reference.train(groups.clone())?)?;
        let mut line = json!({"step": step, "cpu": wanted.json()});
        for ((name, _, learner), worst) in compared.iter_mut().zip(&mut worst) {
            let found = Numbers::of(&learner.train(groups.clone())?)?;
            line[*name] = found.json();
            for (worst, difference) in worst.iter_mut().zip(found.differences(&wanted)) {
                *worst = if difference > *worst || difference.is_nan() { difference } else { *worst };
            }
        }
        writeln!(table, "{line}")?;
    }
    let wanted = change(&reference, &origin)?;
    for ((name, limits, learner), worst) in compared.iter().zip(worst) {
        let name = |what: &str| format!("{name}: {what} in {steps} steps");
        part.check(name("loss"), worst[0], limits.loss);
        part.check(name("gradient norm, relative"), worst[1], limits.norm);
        part.check(name("entropy"), worst[2], limits.entropy);
        part.check(
            name("change of the weights, relative"),
            relative(&change(learner, &origin)?, &wanted),
            limits.change,
        );
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

/// The recipe's settings.
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
