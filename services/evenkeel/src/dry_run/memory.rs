//! Memory of the learner and of the embedded engine, as an estimate, beside what the machine has.

use std::process::Command;

use evenkeel_learner::ComputeType;
use evenkeel_model::Config;
use serde::Serialize;

use super::cost::cache_bytes_a_token;
use super::findings::Findings;
use super::model::parameters;
use super::sets::DataFacts;
use super::units::gib;
use crate::recipe::Recipe;

/// Weights, two moments and a gradient in fp32.
const STATE_BYTES: u64 = 16;
/// What a step keeps of weights and moments until it is complete.
const COPY_BYTES: u64 = 12;

/// Bytes by what they are for.
#[derive(Debug, Serialize)]
pub(super) struct Memory {
    /// `cpu`, `cuda` or `cuda:N`.
    pub(super) device: String,
    /// Weights, moments and gradients.
    pub(super) state_bytes: u64,
    /// The old weights and moments, until a step is complete.
    pub(super) copy_bytes: u64,
    /// The weights of the reference of a KL term.
    pub(super) reference_bytes: u64,
    /// Tokens of the largest micro-batch.
    pub(super) micro_batch_tokens: u64,
    /// Activations of the micro-batches that are computed at once.
    pub(super) activation_bytes: u64,
    /// Logits of the rows that are computed at once.
    pub(super) head_bytes: u64,
    /// Tokens, masks and log-probabilities of a batch of the longest answers.
    pub(super) batch_bytes: u64,
    /// The embedded engine's weights, and its keys and values; 0 with engines of your own.
    pub(super) engine_bytes: u64,
    /// What the learner needs on its device, and on a CPU the engine beside it.
    pub(super) needed_bytes: u64,
    /// What the device has; absent where that is unknown.
    pub(super) available_bytes: Option<u64>,
}

/// The estimate for a recipe.
pub(super) fn of_run(recipe: &Recipe, config: &Config, data: &DataFacts) -> Memory {
    let (learner, compute) = (&recipe.learner, &recipe.learner.compute);
    let parameters = parameters(config);
    let is_cpu = compute.device == "cpu";
    let longest = data.longest_tokens() + u64::from(recipe.sampling.max_tokens);
    // A sequence is never split: a longer one is its own micro-batch.
    let micro_batch_tokens = (compute.resolved_micro_batch_tokens() as u64).max(longest);
    let at_once = compute.resolved_threads() as u64;
    let type_bytes = if compute.dtype == ComputeType::F32 { 4 } else { 2 };

    let layer = layer_values(config);
    let values = match compute.recompute {
        // The input of each layer, and everything of the one that is recomputed.
        true => (config.num_layers * config.hidden_size) as u64 + layer,
        false => config.num_layers as u64 * layer,
    };
    let reference = if learner.objective.kl_coefficient > 0.0 { 4 * parameters } else { 0 };
    let is_copied = !is_cpu || !learner.is_single_update();
    let sampling = &recipe.sampling;
    let tokens = u64::from(sampling.prompts_per_step) * u64::from(sampling.group_size) * longest;
    // What arrives, and what passes work on: see docs/learner.md.
    let batch_bytes = tokens * (9 + if reference > 0 { 17 } else { 13 });
    let engine_bytes = match recipe.generation.endpoints.is_empty() {
        true => 4 * parameters + recipe.engine.kv_cache_tokens as u64 * cache_bytes_a_token(config, 4),
        false => 0,
    };
    let mut memory = Memory {
        device: compute.device.clone(),
        state_bytes: STATE_BYTES * parameters,
        copy_bytes: if is_copied { COPY_BYTES * parameters } else { 0 },
        reference_bytes: reference,
        micro_batch_tokens,
        activation_bytes: at_once * micro_batch_tokens * values * type_bytes,
        // Logits and their gradient in fp32.
        head_bytes: at_once * (compute.head_chunk_rows as u64).min(micro_batch_tokens) * config.vocab_size as u64 * 8,
        batch_bytes,
        engine_bytes,
        needed_bytes: 0,
        available_bytes: if is_cpu { host_memory() } else { gpu_memory(&compute.device) },
    };
    memory.needed_bytes =
        memory.state_bytes + memory.copy_bytes + memory.reference_bytes + memory.activation_bytes + memory.head_bytes;
    if is_cpu {
        memory.needed_bytes += memory.batch_bytes + memory.engine_bytes;
    }
    memory
}

/// Values that a layer keeps for its backward pass, for each token: two norms, queries, keys and values before and after rotation, the
/// output of attention, both residual sums, and three times the width of the feed-forward block.
fn layer_values(config: &Config) -> u64 {
    let (hidden, query, kv) = (config.hidden_size, config.query_width(), config.kv_width());
    (4 * hidden + (query + 2 * kv) + (query + kv) + query + 3 * config.intermediate_size) as u64
}

/// What is wrong with the device, or with the memory that it has.
pub(super) fn check(recipe: &Recipe, memory: &Memory, findings: &mut Findings) {
    if let Err(error) = recipe.learner.compute.open() {
        findings.problem(format!("learner.{error}"));
    }
    let Some(available) = memory.available_bytes else {
        findings.note(format!(
            "the memory of {} is unknown here: {} are needed",
            memory.device,
            gib(memory.needed_bytes)
        ));
        return;
    };
    if memory.needed_bytes > available {
        let (needed, available) = (gib(memory.needed_bytes), gib(available));
        let way_out = match (recipe.learner.compute.recompute, memory.activation_bytes > memory.needed_bytes / 4) {
            (false, true) => {
                "learner.compute.recompute = true, fewer learner.compute.micro_batch_tokens, or more memory"
            }
            (true, true) => "fewer learner.compute.micro_batch_tokens, or more memory",
            _ => "a smaller model, or more memory",
        };
        findings.problem(format!(
            "learner.compute.device: about {needed} are needed, {} has {available}, allowed: {way_out}",
            memory.device
        ));
    }
}

/// Memory that programs can still get, of this machine or its control group.
fn host_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let free = 1024 * line.split_whitespace().next()?.parse::<u64>().ok()?;
    Some(free.min(control_group().unwrap_or(u64::MAX)))
}

/// What the control group of this process may still take; `None` without a limit.
fn control_group() -> Option<u64> {
    let number = |name: &str| {
        let text = std::fs::read_to_string(format!("/sys/fs/cgroup/{name}")).ok()?;
        text.trim().parse::<u64>().ok()
    };
    Some(number("memory.max")?.saturating_sub(number("memory.current")?))
}

/// The memory of a GPU as its driver's tool says; `None` where there is no such tool.
fn gpu_memory(device: &str) -> Option<u64> {
    let number = device.split_once(':').map_or("0", |(_, number)| number);
    let output = Command::new("nvidia-smi")
        .args(["--query-gpu=memory.total", "--format=csv,noheader,nounits", "-i", number])
        .output()
        .ok()?;
    let mib: u64 = String::from_utf8(output.stdout).ok()?.trim().parse().ok()?;
    Some(mib << 20)
}

#[cfg(test)]
mod tests {
    use super::super::flops::shapes::{large, small};
    use super::*;

    fn memory(name: &str, config: &Config, set: &[&str]) -> Memory {
        let set: Vec<String> = set.iter().map(|&text| text.to_owned()).collect();
        let recipe = crate::recipe::load(&[name.to_owned()], &set).unwrap().settings;
        of_run(&recipe, config, &DataFacts::default())
    }

    #[test]
    fn state_is_sixteen_bytes_a_parameter_and_activations_are_those_of_a_micro_batch() {
        let of = |set: &[&str]| memory("paper/qwen3-1.7b-dapo-balanced", &small(), set);
        let kept = of(&[]);
        assert_eq!(kept.state_bytes, 16 * 1_720_574_976);
        assert_eq!(kept.micro_batch_tokens, 32_768);
        let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
        assert!((55.0..75.0).contains(&gib(kept.activation_bytes)), "{}", gib(kept.activation_bytes));
        let recomputed = of(&["learner.compute.recompute=true"]);
        assert!((3.5..7.0).contains(&gib(recomputed.activation_bytes)), "{}", gib(recomputed.activation_bytes));
        assert_eq!(kept.needed_bytes - recomputed.needed_bytes, kept.activation_bytes - recomputed.activation_bytes);
        assert_eq!(kept.engine_bytes, 0, "the engines are elsewhere");
        let long = of(&["learner.compute.micro_batch_tokens=1000"]);
        assert_eq!(long.micro_batch_tokens, 8192, "a sequence is never split");
    }

    #[test]
    fn a_model_that_does_not_fit_is_a_problem_with_a_way_out() {
        let set = ["learner.compute.device=cpu", "learner.compute.dtype=f32"];
        let set: Vec<String> = set.iter().map(|&text| text.to_owned()).collect();
        let recipe = crate::recipe::load(&["paper/qwen2.5-math-7b-dapo-token".to_owned()], &set).unwrap().settings;
        let memory = Memory { available_bytes: Some(64 << 30), ..of_run(&recipe, &large(), &DataFacts::default()) };
        let mut findings = Findings::default();
        check(&recipe, &memory, &mut findings);
        let [problem] = &findings.problems[..] else { panic!("{findings:?}") };
        assert!(problem.contains("cpu has 64.0 GiB") && problem.contains("allowed:"), "{problem}");
        check(&recipe, &Memory { available_bytes: None, ..memory }, &mut findings);
        assert!(findings.notes[0].contains("the memory of cpu is unknown here"), "{findings:?}");
    }
}
