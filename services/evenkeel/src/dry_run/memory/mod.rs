//! Memory of the learner and of the embedded engine compared with what the machine has: on a GPU the learner's own plan, on a CPU an
//! estimate.

mod check;

use std::process::Command;

use evenkeel_files::available_memory;
use evenkeel_learner::{ComputeType, MemoryPart, MemoryPlan, MemoryUse};
use evenkeel_model::{Config, ModelError, Recompute};
use evenkeel_orchestrator::EnginesWhileTraining;
use serde::Serialize;

use super::cost::cache_bytes_a_token;
use super::model::{parameters, trained};
use super::sets::DataFacts;
use crate::recipe::Recipe;
pub(super) use check::check;

/// Weights and two moments in fp32.
const STATE_BYTES: u64 = 12;
/// A gradient in fp32.
const GRADIENT_BYTES: u64 = 4;
/// What a step of several updates keeps of weights and moments until it is complete.
const COPY_BYTES: u64 = 12;
/// What the samples of a step take, by its name in the table.
const BATCH: &str = "the batch";
/// What an engine keeps of a GPU while it sleeps, for its context and libraries: an estimate.
const ASLEEP: u64 = 2 << 30;

/// Bytes by what they are for.
#[derive(Debug, Serialize)]
pub(super) struct Memory {
    /// `cpu`, `cuda` or `cuda:N`.
    pub(super) device: String,
    /// Tokens of the largest micro-batch whose gradient is summed: scoring keeps no activations.
    pub(super) micro_batch_tokens: u64,
    /// What the device holds at a time.
    pub(super) parts: Vec<Need>,
    /// The sum of those parts.
    pub(super) needed_bytes: u64,
    /// What the device has; absent where that is unknown.
    pub(super) available_bytes: Option<u64>,
    /// What host memory holds in addition to a GPU's.
    pub(super) host_parts: Vec<Need>,
    /// What the host has; absent where that is unknown.
    pub(super) host_available_bytes: Option<u64>,
    /// On a GPU: what stays there between steps, when engines that share it are awake.
    pub(super) resident_bytes: Option<u64>,
    #[serde(skip)]
    plan: Option<Result<MemoryPlan, ModelError>>,
    /// The model and its longest sequence, which the plan is for.
    #[serde(skip)]
    planned_for: Option<(Config, usize)>,
}

/// What something takes.
#[derive(Debug, Serialize)]
pub(super) struct Need {
    pub(super) what: String,
    pub(super) bytes: u64,
    /// Whether it grows with the tokens of a micro-batch.
    #[serde(skip)]
    pub(super) is_activations: bool,
}

impl From<&MemoryPart> for Need {
    fn from(part: &MemoryPart) -> Self {
        Self { is_activations: part.what == MemoryUse::Activations, ..need(part.what.to_string(), part.bytes) }
    }
}

fn need(what: impl Into<String>, bytes: u64) -> Need {
    Need { what: what.into(), bytes, is_activations: false }
}

/// The memory that a recipe takes.
pub(super) fn of_run(recipe: &Recipe, config: &Config, data: &DataFacts) -> Memory {
    let compute = &recipe.learner.compute;
    let longest = data.longest_tokens() + u64::from(recipe.sampling.max_tokens);
    let size = |tokens: u64| usize::try_from(tokens).unwrap_or(usize::MAX);
    let micro_batch_tokens = compute.most_gradient_tokens(size(data.longest_tokens()), size(longest)) as u64;
    let mut memory = Memory {
        device: compute.device.clone(),
        micro_batch_tokens,
        parts: Vec::new(),
        needed_bytes: 0,
        available_bytes: None,
        host_parts: beside(recipe, config, longest),
        host_available_bytes: available_memory(),
        resident_bytes: None,
        plan: None,
        planned_for: None,
    };
    match compute.device == "cpu" {
        true => memory.on_cpu(recipe, config),
        false => memory.on_gpu(recipe, config, longest),
    }
    memory.needed_bytes = memory.parts.iter().map(|part| part.bytes).sum();
    memory
}

/// The batch, and the embedded engine: in host memory wherever the learner computes.
fn beside(recipe: &Recipe, config: &Config, longest: u64) -> Vec<Need> {
    let sampling = &recipe.sampling;
    let tokens = u64::from(sampling.prompts_per_step) * u64::from(sampling.group_size) * longest;
    let has_reference = recipe.learner.objective.kl_coefficient > 0.0;
    // What arrives, and what passes work on: see docs/learner.md.
    let mut parts = vec![need(BATCH, tokens * (9 + if has_reference { 17 } else { 13 }))];
    if recipe.generation.endpoints.is_empty() {
        let cache = recipe.engine.kv_cache_tokens as u64 * cache_bytes_a_token(config, 4);
        let weights = if shares_base(recipe) {
            // Adapters, and a tied head by its columns.
            let head = if config.tie_word_embeddings { config.vocab_size * config.hidden_size } else { 0 };
            trained(&recipe.learner, config) + head as u64
        } else {
            parameters(config)
        };
        parts.push(need("embedded engine", 4 * weights + cache));
    }
    parts
}

/// Whether an engine of the recipe sleeps on the learner's GPU while it trains.
fn shares_its_gpu(recipe: &Recipe) -> bool {
    recipe.sampling.engines_while_training != EnginesWhileTraining::Awake && !recipe.generation.endpoints.is_empty()
}

/// Whether learner and embedded engine have one base between them.
fn shares_base(recipe: &Recipe) -> bool {
    let compute = &recipe.learner.compute;
    recipe.learner.lora.is_some() && compute.device == "cpu" && compute.dtype == ComputeType::F32
}

impl Memory {
    fn on_gpu(&mut self, recipe: &Recipe, config: &Config, longest: u64) {
        let longest = usize::try_from(longest).unwrap_or(usize::MAX);
        let plan = MemoryPlan::of(config, &recipe.learner, longest);
        if let Ok(plan) = &plan {
            self.parts = plan.parts.iter().map(Need::from).collect();
            self.host_parts.extend(plan.host.iter().map(Need::from));
            self.resident_bytes = Some(plan.resident());
        }
        if shares_its_gpu(recipe) {
            self.parts.push(need("an engine that sleeps (estimate)", ASLEEP));
        }
        self.available_bytes = gpu_memory(&self.device);
        (self.plan, self.planned_for) = (Some(plan), Some((config.clone(), longest)));
    }

    fn on_cpu(&mut self, recipe: &Recipe, config: &Config) {
        let (learner, compute) = (&recipe.learner, &recipe.learner.compute);
        let (all, parameters) = (parameters(config), trained(learner, config));
        let at_once = compute.resolved_threads() as u64;
        let type_bytes = if compute.dtype == ComputeType::F32 { 4 } else { 2 };
        let layer = layer_values(config);
        let values = match compute.recompute {
            // The input of each layer, and everything of the layer that is recomputed.
            Recompute::Full => (config.num_layers * config.hidden_size) as u64 + layer,
            Recompute::Selective => config.num_layers as u64 * (layer - cheap_values(config)),
            Recompute::None => config.num_layers as u64 * layer,
        };
        let tokens = self.micro_batch_tokens;
        // Logits and their gradient in fp32.
        let logits = (compute.head_chunk_rows as u64).min(tokens) * config.vocab_size as u64 * 8;
        self.parts = match &learner.lora {
            None => vec![need("weights and moments", STATE_BYTES * parameters)],
            Some(_) => vec![need("frozen weights, and adapters with moments", 4 * all + STATE_BYTES * parameters)],
        };
        if !learner.is_single_update() {
            self.parts.push(need("old weights and moments until a step is complete", COPY_BYTES * parameters));
        }
        if learner.objective.kl_coefficient > 0.0 {
            self.parts.push(need("reference of the KL term", 4 * parameters));
        }
        let activations = need("activations", at_once * tokens * values * type_bytes);
        self.parts.push(Need { is_activations: true, ..activations });
        self.parts.push(need("logits", at_once * logits));
        self.parts.append(&mut self.host_parts);
        self.available_bytes = self.host_available_bytes;
        let others: u64 = self.parts.iter().map(|part| part.bytes).sum();
        let free = self.available_bytes.map(|available| available.saturating_sub(others));
        let gradients = compute.gradients_at_once(usize::try_from(parameters).unwrap_or(usize::MAX), free) as u64;
        let bytes = gradients * GRADIENT_BYTES * parameters;
        self.parts.insert(1, need(format!("gradients, {gradients} at a time"), bytes));
        if config.tie_word_embeddings && learner.lora.is_none() {
            // Summed apart from the head in each block that a thread has begun.
            let embedding = GRADIENT_BYTES * (config.vocab_size * config.hidden_size) as u64;
            self.parts.insert(2, need("gradients of the tied embedding", at_once.min(gradients) * embedding));
        }
    }
}

/// Values that a layer keeps for its backward pass, for each token: two norms, queries, keys and values before and after rotation, the
/// output of attention, both residual sums, and three times the width of the feed-forward block.
fn layer_values(config: &Config) -> u64 {
    let (hidden, query, kv) = (config.hidden_size, config.query_width(), config.kv_width());
    (4 * hidden + (query + 2 * kv) + (query + kv) + query + 3 * config.intermediate_size) as u64
}

/// Those of them that norms and the gated activation make.
fn cheap_values(config: &Config) -> u64 {
    (2 * config.hidden_size + config.query_width() + config.kv_width() + config.intermediate_size) as u64
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
    use super::super::flops::shapes::small;
    use super::*;

    pub(super) fn recipe(name: &str, set: &[&str]) -> Recipe {
        let set: Vec<String> = set.iter().map(|&text| text.to_owned()).collect();
        crate::recipe::load(&[name.to_owned()], &set).unwrap().settings
    }

    fn memory(name: &str, config: &Config, set: &[&str]) -> Memory {
        of_run(&recipe(name, set), config, &DataFacts::default())
    }

    fn bytes_of(memory: &Memory, what: &str) -> u64 {
        let all = memory.parts.iter().chain(&memory.host_parts);
        all.filter(|part| part.what.starts_with(what)).map(|part| part.bytes).sum()
    }

    pub(super) const SMALL: &str = "paper/qwen3-1.7b-dapo-balanced";
    pub(super) const ON_CPU: [&str; 2] = ["learner.compute.device=cpu", "learner.compute.dtype=f32"];

    #[test]
    fn on_a_gpu_the_learners_own_plan_counts() {
        let found = memory(SMALL, &small(), &[]);
        let plan = MemoryPlan::of(&small(), &recipe(SMALL, &[]).learner, 8192).unwrap();
        assert_eq!(found.needed_bytes, plan.total() + ASLEEP, "the engine sleeps on the same GPU");
        assert_eq!(bytes_of(&found, "weights and moments before the step"), 12 * 1_720_574_976);
        assert_eq!(found.resident_bytes, Some(plan.resident()));
        let single = memory(SMALL, &small(), &["learner.mini_batch_groups=0"]);
        assert_eq!(bytes_of(&single, "weights and moments before the step"), 0, "one update is in place");
        assert_eq!(bytes_of(&single, "embedded engine"), 0, "the engines are elsewhere");
    }

    #[test]
    fn on_a_cpu_there_are_four_gradients_for_one_thread_and_activations_are_those_of_the_micro_batches_at_once() {
        let of = |set: &[&str]| memory(SMALL, &small(), &[&ON_CPU[..], &["learner.compute.threads=1"], set].concat());
        let kept = of(&["learner.compute.micro_batch_tokens=32768"]);
        assert_eq!(bytes_of(&kept, "weights and moments"), 12 * 1_720_574_976);
        assert_eq!(bytes_of(&kept, "gradients, 4 at a time"), 4 * 4 * 1_720_574_976);
        assert_eq!(kept.micro_batch_tokens, 8192, "a sequence is never split");
        let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
        let of_activations = |memory: &Memory| gib(bytes_of(memory, "activations"));
        assert!((27.0..38.0).contains(&of_activations(&kept)), "{}", of_activations(&kept));
        let full = of(&["learner.compute.recompute=full"]);
        assert!((1.7..3.5).contains(&of_activations(&full)), "{}", of_activations(&full));
        let one = of(&["learner.compute.gradient_blocks=1"]);
        assert_eq!(bytes_of(&one, "gradients, 1 at a time"), 4 * 1_720_574_976);
    }
}
