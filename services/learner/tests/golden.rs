//! Whole steps of PyTorch, one of them in verl's terms: `tests/golden`, and others outside the repository.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::ExitCode;

use candle_core::{Device, Tensor};
use evenkeel_learner::{
    BaseType, Learner, LoraSettings, OldLogp, OptimizerSettings, Response, ResponseGroup, TargetLoss, TargetSequence,
    TrainingSettings,
};
use evenkeel_model::Recompute;
use evenkeel_objective::{Advantage, Aggregation, PolicyTerm, RatioBounds};
use evenkeel_testkit::{GoldenCheck, golden, run, test};
use serde_json::Value;

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden");
/// Two updates of a batch with verl's settings.
const VERL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/qwen3/verl.json");
/// Models without larger golden files outside the repository.
const SMALL: [&str; 8] =
    ["llama", "mistral", "smollm2", "smollm3", "qwen2_yarn", "qwen2_dynamic", "qwen3_yarn", "qwen3_linear"];

fn main() -> ExitCode {
    let checks: [GoldenCheck; 2] = [
        ("steps_are_reproduced", by_default),
        ("steps_are_reproduced_in_small_micro_batches_with_recomputed_layers", in_small_micro_batches),
    ];
    let families = ["qwen2", "qwen3"].into_iter();
    let each = |family| checks.map(|(name, check)| golden(&format!("{family}::{name}"), family, check));
    let small = SMALL.into_iter().flat_map(|family| {
        let committed = Path::new(GOLDEN).join(family);
        checks.map(|(name, check)| {
            let committed = committed.clone();
            test(&format!("{family}::{name}"), move || check(&committed))
        })
    });
    let lora = ["qwen2", "qwen3", "llama", "smollm2", "head"].map(|name| {
        test(&format!("lora::{name}::three_steps_of_adapters_are_reproduced"), move || adapters(name, BaseType::F32))
    });
    let narrow = test("lora::smollm2::three_steps_of_adapters_beside_a_base_in_bf16_are_reproduced", || {
        adapters("smollm2", BaseType::Bf16);
    });
    let verl = test("verl::two_updates_a_batch_are_reproduced", || as_verl(Path::new(VERL)));
    let sums = test("accumulation::sums_over_two_calls_and_their_update_are_reproduced", accumulation);
    run(families.flat_map(each).flatten().chain(small).chain(lora).chain([narrow, verl, sums]).collect())
}

fn host(tensor: &Tensor) -> Vec<f32> {
    tensor.flatten_all().unwrap().to_vec1().unwrap()
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
}

fn ids(value: &Value) -> Vec<u32> {
    numbers(value).into_iter().map(|x| x as u32).collect()
}

fn settings(golden: &Value) -> TrainingSettings {
    let number = |name: &str| golden[name].as_f64().unwrap();
    let betas = numbers(&golden["betas"]);
    let mut settings = TrainingSettings {
        old_logp: OldLogp::Rollout,
        optimizer: OptimizerSettings {
            learning_rate: number("learning_rate"),
            betas: [betas[0], betas[1]],
            epsilon: number("eps"),
            weight_decay: number("weight_decay"),
            max_grad_norm: Some(number("max_grad_norm")),
            warmup_updates: 0,
            ..OptimizerSettings::default()
        },
        ..TrainingSettings::default()
    };
    let objective = &mut settings.objective;
    objective.advantage = golden["advantage"].as_str().unwrap().parse().unwrap();
    objective.aggregation = golden["aggregation"].as_str().unwrap().parse().unwrap();
    objective.policy = golden["policy"].as_str().unwrap().parse().unwrap();
    (objective.clip_low, objective.clip_high) = (number("clip_low"), number("clip_high"));
    settings.compute.device = if cfg!(feature = "cuda") { "cuda".into() } else { "cpu".into() };
    settings
}

fn groups(step: &Value) -> Vec<ResponseGroup> {
    let group = |(number, group): (usize, &Value)| {
        let responses = group.as_array().unwrap().iter().map(|x| Response {
            tokens: ids(&x["response"]),
            mask: numbers(&x["mask"]).into_iter().map(|m| m == 1.0).collect(),
            // The goldens' old log-probabilities carry noise and may be above 0, which no engine's may.
            rollout_logp: numbers(&x["old_logp"]).into_iter().map(|x| x as f32).collect(),
            raw_reward: x["reward"].as_f64().unwrap(),
            reward: x["reward"].as_f64().unwrap(),
            valid: x["valid"].as_bool().unwrap(),
            ..Response::default()
        });
        ResponseGroup {
            id: number.to_string(),
            prompt: ids(&group[0]["prompt"]),
            hinted_prompt: None,
            responses: responses.collect(),
        }
    };
    step["groups"].as_array().unwrap().iter().enumerate().map(group).collect()
}

fn reproduces(folder: &Path, change: impl Fn(&mut TrainingSettings)) {
    let golden: Value = serde_json::from_slice(&std::fs::read(folder.join("steps.json")).unwrap()).unwrap();
    let mut settings = settings(&golden["settings"]);
    change(&mut settings);
    follows(Learner::open(folder, settings).unwrap(), folder, &golden);
}

/// Sums of losses that are accumulated over two calls, and the update by them.
fn accumulation() {
    let file = Path::new(GOLDEN).join("accumulation.json");
    let golden: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let number = |value: &Value, name: &str| value[name].as_f64().unwrap();
    let bounds = RatioBounds { low: number(&golden, "clip_low"), high: number(&golden, "clip_high") };
    let adam = &golden["adam"];
    let adam = OptimizerSettings {
        learning_rate: number(adam, "learning_rate"),
        betas: [number(adam, "beta1"), number(adam, "beta2")],
        epsilon: number(adam, "epsilon"),
        weight_decay: 0.0,
        max_grad_norm: Some(number(adam, "max_gradient_norm")),
        ..OptimizerSettings::default()
    };
    for case in golden["cases"].as_array().unwrap() {
        let name = case["loss"].as_str().unwrap();
        let loss = TargetLoss { loss: name.parse().unwrap(), bounds };
        let folder = Path::new(GOLDEN).join(case["model"].as_str().unwrap());
        let mut learner = Learner::open(&folder, TrainingSettings::default()).unwrap();
        let near = |found: &[Vec<f32>], wanted: &Value, least: f64| {
            for (found, wanted) in found.iter().zip(wanted.as_array().unwrap()) {
                let wanted = numbers(wanted);
                assert_eq!(found.len(), wanted.len());
                let apart = found.iter().zip(&wanted).map(|(a, b)| (f64::from(*a) - b).abs()).fold(0.0, f64::max);
                assert!(apart < least, "{name} of {}: {apart:e}", folder.display());
            }
        };
        let mut first = None;
        for call in case["calls"].as_array().unwrap() {
            let data: Vec<_> = call["data"].as_array().unwrap().iter().map(target_sequence).collect();
            let scored = learner.score_targets(&data, loss).unwrap();
            let done = learner.accumulate(&data, loss).unwrap();
            near(&done.logp, &call["logp"], 1e-5);
            let wanted = number(call, "loss");
            assert!((done.stats.loss - wanted).abs() < 1e-4 * (1.0 + wanted.abs()), "{name}: {}", done.stats.loss);
            assert!((scored.stats.loss - done.stats.loss).abs() < 1e-5 * (1.0 + wanted.abs()), "{name}");
            first.get_or_insert(data);
        }
        let applied = learner.apply(&adam).unwrap();
        let norm = number(case, "gradient_norm");
        assert!((applied.grad_norm / norm - 1.0).abs() < 1e-4, "{name}: {} instead of {norm}", applied.grad_norm);
        // Adam moves each weight by about the rate, whatever the size of its gradient, so that tiny gradients count.
        near(&learner.score_targets(&first.unwrap(), loss).unwrap().logp, &case["logp_after"], 5e-3);
    }
}

fn target_sequence(value: &Value) -> TargetSequence {
    let list = |name: &str| match &value[name] {
        Value::Null => Vec::new(),
        list => numbers(list).into_iter().map(|x| x as f32).collect(),
    };
    TargetSequence {
        tokens: ids(&value["tokens"]),
        targets: ids(&value["targets"]),
        factors: list("factors"),
        sampler_logp: list("sampler_log_probabilities"),
        group: value["group"].as_i64(),
    }
}

/// PEFT's steps with an adapter beside a model of that name.
fn adapters(name: &str, base_type: BaseType) {
    let folder = Path::new(GOLDEN).join("lora").join(name);
    let golden: Value = serde_json::from_slice(&std::fs::read(folder.join("steps.json")).unwrap()).unwrap();
    let described: Value = serde_json::from_slice(&std::fs::read(folder.join("adapter_config.json")).unwrap()).unwrap();
    let targets = described["target_modules"].as_array().unwrap().iter();
    let lora = LoraSettings {
        rank: described["r"].as_u64().unwrap() as usize,
        alpha: described["lora_alpha"].as_f64().unwrap(),
        targets: targets.map(|name| name.as_str().unwrap().parse().unwrap()).collect(),
        start: Some(folder.clone()),
        base_type,
        ..LoraSettings::default()
    };
    let settings = TrainingSettings { lora: Some(lora), ..settings(&golden["settings"]) };
    let base = described["base_model_name_or_path"].as_str().unwrap();
    follows(Learner::open(&Path::new(GOLDEN).join(base), settings).unwrap(), &folder, &golden);
}

fn follows(mut learner: Learner, folder: &Path, golden: &Value) {
    for step in golden["steps"].as_array().unwrap() {
        let report = learner.train(groups(step)).unwrap();
        let update = &report.updates[0];
        let loss = step["loss"].as_f64().unwrap();
        let norm = step["grad_norm"].as_f64().unwrap();
        assert!((update.loss - loss).abs() < 2e-6, "loss {} for {loss}", update.loss);
        assert!((update.grad_norm / norm - 1.0).abs() < 1e-5, "gradient norm {} for {norm}", update.grad_norm);
    }
    assert_parameters(&learner, &folder.join("after.safetensors"));
}

fn assert_parameters(learner: &Learner, file: &Path) {
    let after = candle_core::safetensors::load(file, &Device::Cpu).unwrap();
    let mut sum = 0.0;
    let mut count = 0;
    for (spec, found) in learner.parameters().trained_specs().iter().zip(learner.parameters().trained_values()) {
        for (found, wanted) in host(found).iter().zip(host(&after[&spec.name])) {
            let error = f64::from((found - wanted).abs());
            assert!(error < 1e-4, "{}: {found} for {wanted}", spec.name);
            sum += error;
            count += 1;
        }
    }
    assert!(sum / f64::from(count) < 2e-6, "mean error {}", sum / f64::from(count));
}

fn by_default(folder: &Path) {
    reproduces(folder, |_| {});
}

fn in_small_micro_batches(folder: &Path) {
    reproduces(folder, |settings| {
        settings.compute.micro_batch_tokens = 16;
        settings.compute.head_chunk_rows = 7;
        settings.compute.recompute = Recompute::Full;
    });
}

/// Settings by verl's names. A divergence that is known: verl's AdamW decays norms and biases too.
fn verl_settings(golden: &Value) -> TrainingSettings {
    let number = |name: &str| golden[name].as_f64().unwrap();
    let betas = numbers(&golden["betas"]);
    let mut settings = TrainingSettings {
        mini_batch_groups: number("ppo_mini_batch_size") as usize,
        temperature: number("temperature") as f32,
        optimizer: OptimizerSettings {
            learning_rate: number("lr"),
            betas: [betas[0], betas[1]],
            epsilon: number("eps"),
            weight_decay: number("weight_decay"),
            max_grad_norm: Some(number("grad_clip")),
            warmup_updates: 0,
            warmup_steps: number("lr_warmup_steps") as u64,
            warmup_from_zero: true,
            ..OptimizerSettings::default()
        },
        ..TrainingSettings::default()
    };
    let objective = &mut settings.objective;
    objective.advantage = Advantage::GrpoSample;
    objective.aggregation = Aggregation::BatchToken;
    objective.policy = PolicyTerm::DualClip;
    objective.dual_clip = number("clip_ratio_c");
    (objective.clip_low, objective.clip_high) = (number("clip_ratio_low"), number("clip_ratio_high"));
    settings.compute.device = if cfg!(feature = "cuda") { "cuda".into() } else { "cpu".into() };
    settings
}

fn verl_groups(batch: &Value) -> Vec<ResponseGroup> {
    let group = |(number, group): (usize, &Value)| {
        let responses = group.as_array().unwrap().iter().map(|row| {
            let tokens = ids(&row["response"]);
            let reward = row["reward"].as_f64().unwrap();
            // The engine's log-probabilities are in no term.
            let mask = vec![true; tokens.len()];
            let rollout_logp = vec![-1.0; tokens.len()];
            Response { tokens, mask, rollout_logp, raw_reward: reward, reward, valid: true, ..Response::default() }
        });
        ResponseGroup {
            id: number.to_string(),
            prompt: ids(&group[0]["prompt"]),
            hinted_prompt: None,
            responses: responses.collect(),
        }
    };
    batch["groups"].as_array().unwrap().iter().enumerate().map(group).collect()
}

fn as_verl(file: &Path) {
    let golden: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let folder = file.parent().unwrap();
    let mut learner = Learner::open(folder, verl_settings(&golden["settings"])).unwrap();
    let mut capped = 0;
    for batch in golden["batches"].as_array().unwrap() {
        let report = learner.train(verl_groups(batch)).unwrap();
        let wanted = batch["updates"].as_array().unwrap();
        assert_eq!(report.updates.len(), wanted.len());
        for (update, wanted) in report.updates.iter().zip(wanted) {
            let number = |name: &str| wanted[name].as_f64().unwrap();
            let loss = number("loss");
            let norm = number("grad_norm");
            assert!((update.loss - loss).abs() < 5e-6, "loss {} for {loss}", update.loss);
            assert!((update.grad_norm / norm - 1.0).abs() < 1e-4, "gradient norm {} for {norm}", update.grad_norm);
            assert!((update.learning_rate - number("lr")).abs() < 1e-15, "{} for {wanted}", update.learning_rate);
            assert_eq!(update.policy.clipped_lower, number("clipped_lower") as usize);
            capped += update.policy.clipped_lower;
        }
    }
    assert!(capped > 0, "the dual clip never acted");
    assert_parameters(&learner, &folder.join("verl_after.safetensors"));
}
