//! The repository's goldens: logits, log-probabilities and gradients of transformers, and three training steps of
//! PyTorch.

use std::collections::HashMap;
use std::path::Path;

use anyhow::{Context, Result};
use candle_core::{DType, Device, Tensor};
use evenkeel_learner::{
    BaseType, ComputeType, Learner, LoraSettings, OldLogp, OptimizerSettings, Response, ResponseGroup, TrainingSettings,
};
use evenkeel_model::folder::load_parameters;
use evenkeel_model::{BoxError, Coefficients, Config, LinearModule, Packed, Scores, TokenLoss};
use serde::Deserialize;

use crate::path::KernelPath;
use crate::report::ReportPart;

const FAMILIES: [&str; 2] = ["qwen2", "qwen3"];

struct AllowedErrors {
    logit: f64,
    /// Error of a log-probability, nats.
    logp: f64,
    /// Error of a parameter's gradient, as a part of its norm.
    gradient: f64,
    /// Error of all gradients together, as a part of their norm.
    gradients: f64,
}

/// The limits of the CPU's tests.
const F32: AllowedErrors = AllowedErrors { logit: 1e-5, logp: 1e-5, gradient: 1e-5, gradients: 1e-5 };
/// About twice what candle's bf16 operations show on a CPU, where each product is rounded once from fp32: 0.081, 0.046,
/// 0.043 and 0.028.
const BF16: AllowedErrors = AllowedErrors { logit: 0.16, logp: 0.09, gradient: 0.08, gradients: 0.055 };

pub(crate) fn all(part: &mut ReportPart<'_>, goldens: &Path, device: &Device) -> Result<()> {
    forward_only(part, goldens, device)?;
    for family in FAMILIES {
        training(part, &goldens.join(family), device).with_context(|| format!("training steps of {family}"))?;
    }
    for base_type in [BaseType::F32, BaseType::Bf16] {
        adapters(part, goldens, device, base_type)
            .with_context(|| format!("adapters beside a base in {base_type:?}"))?;
    }
    Ok(())
}

/// One forward and backward pass of each family in each compute type.
pub(crate) fn forward_only(part: &mut ReportPart<'_>, goldens: &Path, device: &Device) -> Result<()> {
    for family in FAMILIES {
        for (dtype, limits) in [(DType::F32, F32), (DType::BF16, BF16)] {
            for &path in KernelPath::on(device) {
                forward(part, path, &goldens.join(family), device, dtype, &limits)
                    .with_context(|| format!("{family} in {} on the {} path", dtype.as_str(), path.name()))?;
            }
        }
    }
    Ok(())
}

fn family_of(folder: &Path) -> String {
    folder.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

struct Weighted(Vec<f32>);

impl TokenLoss for Weighted {
    fn coefficients(&self, _: usize, _: &Packed, scores: &Scores) -> Result<Coefficients, BoxError> {
        Ok(Coefficients { logp: self.0.clone(), entropy: vec![0.0; scores.logp.len()] })
    }
}

fn forward(
    part: &mut ReportPart<'_>,
    path: KernelPath,
    folder: &Path,
    device: &Device,
    dtype: DType,
    limits: &AllowedErrors,
) -> Result<()> {
    let family = family_of(folder);
    let name = |what: &str| format!("{family} {} {} {what}", dtype.as_str(), path.name());
    let (config, _) = Config::load(folder)?;
    let wanted: HashMap<String, Tensor> =
        candle_core::safetensors::load(folder.join("forward.safetensors"), &Device::Cpu)?;
    let get =
        |name: &str| -> Result<Vec<f32>> { host(wanted.get(name).with_context(|| format!("no golden `{name}`"))?) };
    let ids: Vec<u32> = get("tokens")?.into_iter().map(|id| id as u32).collect();
    let mut batch = Packed::default();
    batch.push(&config, &ids, 1..ids.len())?;

    let parameters = load_parameters(folder, &config, device)?;
    let mut network = path.network(config, parameters, dtype)?;
    part.check(name("logits"), largest(&network.logits(&ids)?, &get("logits")?), limits.logit);
    for (temperature, golden) in [(1.0, "logp"), (0.6, "logp_t06")] {
        let scores = network.score(std::slice::from_ref(&batch), temperature)?;
        part.check(name(golden), largest(&scores[0].logp, &get(golden)?), limits.logp / f64::from(temperature));
    }
    network.accumulate(&[batch], 1.0, &Weighted(get("weight")?))?;
    let gradients = network.take_gradients()?;
    let mut worst = 0.0f64;
    let mut all = Vec::new();
    let mut all_wanted = Vec::new();
    for (spec, gradient) in network.parameters().specs().iter().zip(&gradients) {
        let found = host(gradient)?;
        let wanted = get(&format!("grad.{}", spec.name))?;
        // A NaN must not be lost.
        let error = relative(&found, &wanted);
        worst = if error > worst || error.is_nan() { error } else { worst };
        all.extend(found);
        all_wanted.extend(wanted);
    }
    part.check(name("worst gradient"), worst, limits.gradient);
    part.check(name("all gradients"), relative(&all, &all_wanted), limits.gradients);
    Ok(())
}

#[derive(Deserialize)]
struct Steps {
    settings: Settings,
    steps: Vec<GoldenStep>,
}

/// What PEFT says of an adapter.
#[derive(Deserialize)]
struct Adapter {
    r: usize,
    lora_alpha: f64,
    target_modules: Vec<String>,
    base_model_name_or_path: String,
}

#[derive(Deserialize)]
struct Settings {
    advantage: String,
    aggregation: String,
    policy: String,
    clip_low: f64,
    clip_high: f64,
    learning_rate: f64,
    betas: [f64; 2],
    eps: f64,
    weight_decay: f64,
    max_grad_norm: f64,
}

#[derive(Deserialize)]
struct GoldenStep {
    groups: Vec<Vec<Sample>>,
    loss: f64,
    grad_norm: f64,
}

#[derive(Deserialize)]
struct Sample {
    prompt: Vec<u32>,
    response: Vec<u32>,
    reward: f64,
    valid: bool,
    mask: Vec<u8>,
    old_logp: Vec<f32>,
}

fn steps_in(folder: &Path) -> Result<Steps> {
    Ok(serde_json::from_slice(&std::fs::read(folder.join("steps.json"))?)?)
}

/// Three steps in fp32, at the limits of the CPU's test.
fn training(part: &mut ReportPart<'_>, folder: &Path, device: &Device) -> Result<()> {
    let golden = steps_in(folder)?;
    let learner = Learner::open(folder, golden.settings.learner(device)?)?;
    follow(part, &family_of(folder), learner, golden, folder)
}

/// PEFT's three steps of adapters beside a model that is stored in bf16.
fn adapters(part: &mut ReportPart<'_>, goldens: &Path, device: &Device, base_type: BaseType) -> Result<()> {
    let folder = goldens.join("lora").join("smollm2");
    let described: Adapter = serde_json::from_slice(&std::fs::read(folder.join("adapter_config.json"))?)?;
    let targets = described.target_modules.iter().map(|name| name.parse::<LinearModule>());
    let lora = LoraSettings {
        rank: described.r,
        alpha: described.lora_alpha,
        targets: targets.collect::<Result<_, _>>()?,
        start: Some(folder.clone()),
        base_type,
        ..LoraSettings::default()
    };
    let golden = steps_in(&folder)?;
    let settings = TrainingSettings { lora: Some(lora), ..golden.settings.learner(device)? };
    let learner = Learner::open(&goldens.join(&described.base_model_name_or_path), settings)?;
    let name = format!("smollm2, adapters beside {}", if base_type == BaseType::Bf16 { "bf16" } else { "fp32" });
    follow(part, &name, learner, golden, &folder)
}

fn follow(part: &mut ReportPart<'_>, family: &str, mut learner: Learner, golden: Steps, folder: &Path) -> Result<()> {
    for (number, step) in golden.steps.into_iter().enumerate() {
        let loss = step.loss;
        let norm = step.grad_norm;
        let report = learner.train(step.groups.into_iter().enumerate().map(|(at, samples)| group(at, samples)))?;
        let update = report.updates.first().context("the step made no update")?;
        part.check(format!("{family} step {number} loss"), (update.loss - loss).abs(), 2e-6);
        part.check(format!("{family} step {number} gradient norm"), (update.grad_norm / norm - 1.0).abs(), 1e-5);
    }
    let after = candle_core::safetensors::load(folder.join("after.safetensors"), &Device::Cpu)?;
    let mut worst = 0.0;
    let mut sum = 0.0;
    let mut count = 0usize;
    for (spec, found) in learner.parameters().trained_specs().iter().zip(learner.parameters().trained_values()) {
        let wanted = host(after.get(&spec.name).with_context(|| format!("no golden `{}`", spec.name))?)?;
        let found = host(found)?;
        worst = f64::max(worst, largest(&found, &wanted));
        sum += found.iter().zip(&wanted).map(|(a, b)| f64::from((a - b).abs())).sum::<f64>();
        count += found.len();
    }
    part.check(format!("{family} weights after the steps, worst"), worst, 1e-4);
    part.check(format!("{family} weights after the steps, mean"), sum / count as f64, 2e-6);
    Ok(())
}

impl Settings {
    fn learner(&self, device: &Device) -> Result<TrainingSettings> {
        let mut settings = TrainingSettings {
            old_logp: OldLogp::Rollout,
            optimizer: OptimizerSettings {
                learning_rate: self.learning_rate,
                betas: self.betas,
                epsilon: self.eps,
                weight_decay: self.weight_decay,
                max_grad_norm: Some(self.max_grad_norm),
                warmup_updates: 0,
                ..OptimizerSettings::default()
            },
            ..TrainingSettings::default()
        };
        let objective = &mut settings.objective;
        objective.advantage = self.advantage.parse()?;
        objective.aggregation = self.aggregation.parse()?;
        objective.policy = self.policy.parse()?;
        (objective.clip_low, objective.clip_high) = (self.clip_low, self.clip_high);
        settings.compute.device = if device.is_cuda() { "cuda".into() } else { "cpu".into() };
        settings.compute.dtype = ComputeType::F32;
        Ok(settings)
    }
}

fn group(at: usize, samples: Vec<Sample>) -> ResponseGroup {
    let prompt = samples.first().map(|sample| sample.prompt.clone()).unwrap_or_default();
    let responses = samples.into_iter().map(|sample| Response {
        tokens: sample.response,
        mask: sample.mask.into_iter().map(|m| m == 1).collect(),
        rollout_logp: sample.old_logp,
        raw_reward: sample.reward,
        reward: sample.reward,
        valid: sample.valid,
        ..Response::default()
    });
    ResponseGroup { id: at.to_string(), prompt, hinted_prompt: None, responses: responses.collect() }
}

pub(crate) fn host(tensor: &Tensor) -> Result<Vec<f32>> {
    Ok(tensor.to_dtype(DType::F32)?.flatten_all()?.to_vec1()?)
}

/// The largest difference; NaN if there is one.
pub(crate) fn largest(found: &[f32], wanted: &[f32]) -> f64 {
    if found.len() != wanted.len() {
        return f64::NAN;
    }
    let differences = found.iter().zip(wanted).map(|(a, b)| f64::from((a - b).abs()));
    differences.fold(0.0, |worst, x| if x > worst || x.is_nan() { x } else { worst })
}

/// |a - b| / |b|, Euclidean; infinite where b is 0 and a is not.
pub(crate) fn relative(found: &[f32], wanted: &[f32]) -> f64 {
    let squares = |values: &mut dyn Iterator<Item = f64>| values.map(|x| x * x).sum::<f64>();
    let error = squares(&mut found.iter().zip(wanted).map(|(a, b)| f64::from(*a) - f64::from(*b)));
    if error == 0.0 && found.len() == wanted.len() {
        return 0.0;
    }
    (error / squares(&mut wanted.iter().map(|b| f64::from(*b)))).sqrt()
}
