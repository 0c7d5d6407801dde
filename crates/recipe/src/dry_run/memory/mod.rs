//! Memory of the learner and of the embedded engine by the learner's own plan, compared with what the machine has.

mod check;
mod driver_tool;
mod engine;

use evenkeel_host::available_memory;
use evenkeel_learner::{CpuMemoryPlan, LargestBatch, MemoryPart, MemoryPlan, MemoryUse};
use evenkeel_model::{Config, ModelError};
use evenkeel_orchestrator::EnginesWhileTraining;
use evenkeel_rpc::exposure::is_loopback;
use serde::Serialize;

use super::model::trained;
use super::sets::DataFacts;
use crate::recipe::Recipe;
pub(super) use check::check;
use driver_tool::gpu_memory;
use engine::EngineMemory;

/// The program, its threads and what it has read besides the model: seen with the recipes that come with it.
pub(super) const PROGRAM: u64 = 80 << 20;
/// What the samples of a step take, by its name in the table.
const BATCH: &str = "the batch";
/// What an engine keeps of a GPU while it sleeps, for its context and libraries: an estimate.
const ASLEEP: u64 = 2 << 30;

/// Bytes by what they are for.
#[derive(Debug, Serialize)]
pub(super) struct Memory {
    /// `cpu`, `cuda` or `cuda:N`.
    pub(super) device: String,
    /// What a run on a CPU does when it needs the most.
    pub(super) phase: Option<&'static str>,
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
    /// What stays on a GPU between steps, when engines that share it are awake.
    pub(super) resident_bytes: Option<u64>,
    /// What to say of a GPU that does not answer.
    #[serde(skip)]
    no_answer: Option<String>,
    #[serde(skip)]
    plan: Option<Result<MemoryPlan, ModelError>>,
    /// The model and its longest sequence, which the plan is for.
    #[serde(skip)]
    planned_for: Option<(Config, usize)>,
}

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
    let size = |tokens: u64| usize::try_from(tokens).unwrap_or(usize::MAX);
    let prompt = data.longest_tokens();
    let longest = prompt + u64::from(recipe.sampling.max_tokens);
    let batch = LargestBatch::of(&recipe.learner, size(prompt), size(longest));
    let mut memory = Memory {
        device: compute.device.clone(),
        phase: None,
        micro_batch_tokens: batch.tokens as u64,
        parts: Vec::new(),
        needed_bytes: 0,
        available_bytes: None,
        host_parts: Vec::new(),
        host_available_bytes: available_memory(),
        resident_bytes: None,
        no_answer: None,
        plan: None,
        planned_for: None,
    };
    let samples = batch_of_samples(recipe, longest);
    let engine = recipe.generation.endpoints.is_empty().then(|| EngineMemory::of(recipe, config, data));
    if compute.device == "cpu" {
        memory.on_cpu(recipe, config, batch, samples, engine)
    } else {
        memory.host_parts.push(samples);
        memory.host_parts.extend(engine.into_iter().flat_map(|engine| engine.while_training()));
        memory.on_gpu(recipe, config, longest);
    }
    memory.needed_bytes = memory.parts.iter().map(|part| part.bytes).sum();
    memory
}

/// What the samples of a step take, in host memory wherever the learner computes.
pub(super) fn batch_of_samples(recipe: &Recipe, longest: u64) -> Need {
    let sampling = &recipe.sampling;
    let tokens = u64::from(sampling.prompts_per_step) * u64::from(sampling.group_size) * longest;
    let other_logps = 4 * recipe.learner.other_logps() as u64;
    // What arrives, and what passes work on: see docs/learner.md.
    need(BATCH, tokens * (9 + 13 + other_logps))
}

/// Bytes of the learner's GPU that an engine keeps which sleeps there while the learner trains. A single card is the
/// learner's and the engine's; of several the learner has one to itself. Where their number is not known, engines that
/// the recipe lets sleep are taken to be on it.
pub(super) fn asleep_bytes(recipe: &Recipe, cards: Option<u64>) -> u64 {
    let lets_sleep = recipe.sampling.engines_while_training != EnginesWhileTraining::Awake;
    let is_shared = cards.map_or(lets_sleep && !recipe.generation.endpoints.is_empty(), |cards| cards == 1);
    if is_shared { ASLEEP } else { 0 }
}

impl Memory {
    fn on_gpu(&mut self, recipe: &Recipe, config: &Config, longest: u64) {
        let longest = usize::try_from(longest).unwrap_or(usize::MAX);
        match gpu_memory(&self.device) {
            Ok(memory) => self.available_bytes = memory,
            Err(said) => self.no_answer = Some(said),
        }
        let learner = &recipe.learner;
        let device = self.no_answer.is_none().then(|| learner.compute.open().ok()).flatten();
        // Without a device attention counts as by cuDNN.
        let plan = device.map_or_else(
            || MemoryPlan::of(config, learner, longest),
            |device| MemoryPlan::on(&device, config, learner, longest),
        );
        if let Ok(plan) = &plan {
            self.parts = plan.parts.iter().map(Need::from).collect();
            self.host_parts.extend(plan.host.iter().map(Need::from));
            self.resident_bytes = Some(plan.resident());
        }
        let asleep = asleep_bytes(recipe, None);
        if asleep > 0 {
            self.parts.push(need("an engine that sleeps (estimate)", asleep));
        }
        (self.plan, self.planned_for) = (Some(plan), Some((config.clone(), longest)));
    }

    /// A step has activations and all gradients; an evaluation has neither, but may have more samples at a time.
    fn on_cpu(
        &mut self,
        recipe: &Recipe,
        config: &Config,
        batch: LargestBatch,
        samples: Need,
        engine: Option<EngineMemory>,
    ) {
        let learner = &recipe.learner;
        self.available_bytes = self.host_available_bytes;
        let parameters = usize::try_from(trained(learner, config)).unwrap_or(usize::MAX);
        let gradients = learner.compute.gradients_at_once(parameters, self.available_bytes);
        // Adapters that this model cannot have are refused elsewhere.
        let Ok(plan) = CpuMemoryPlan::of(config, learner, batch, gradients) else { return };
        let mut step: Vec<_> = plan.parts.iter().map(Need::from).chain([samples]).collect();
        let mut evaluation: Vec<_> = plan.parts.iter().filter(|part| part.stays).map(Need::from).collect();
        let others = other_ranks_here(recipe);
        if others > 0 {
            let what = "the other ranks on this machine";
            step.push(need(what, others * (plan.total() + PROGRAM)));
            evaluation.push(need(what, others * (plan.resident() + PROGRAM)));
        }
        if let Some(engine) = engine {
            step.extend(engine.while_training());
            evaluation.extend(engine.while_evaluating());
        }
        let total = |parts: &[Need]| parts.iter().map(|part| part.bytes).sum::<u64>();
        let (phase, mut parts) =
            if total(&evaluation) > total(&step) { ("evaluation", evaluation) } else { ("a step", step) };
        parts.push(need("the program", PROGRAM));
        (self.phase, self.parts) = (Some(phase), parts);
    }
}

/// Ranks that this machine's memory holds besides this one: all the others if rank 0 listens on loopback.
fn other_ranks_here(recipe: &Recipe) -> u64 {
    // What is wrong with ranks is reported where the run's settings are checked.
    let Ok(Some(place)) = recipe.learner.rank_place() else { return 0 };
    if is_loopback(&place.address) { place.division.ranks() as u64 - 1 } else { 0 }
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
        let memory_with =
            |set: &[&str]| memory(SMALL, &small(), &[&ON_CPU[..], &["learner.compute.threads=1"], set].concat());
        let kept = memory_with(&["learner.compute.micro_batch_tokens=32768"]);
        let of_gradients = |memory: &Memory| bytes_of(memory, "gradients");
        assert_eq!(bytes_of(&kept, "weights, fp32") + bytes_of(&kept, "moments"), 12 * 1_720_574_976);
        let embedding = 4 * (small().vocab_size * small().hidden_size) as u64;
        assert_eq!(of_gradients(&kept), 4 * 4 * 1_720_574_976 + embedding);
        assert_eq!(kept.micro_batch_tokens, 8192, "a sequence is never split");
        let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
        let of_activations = |memory: &Memory| gib(bytes_of(memory, "activations"));
        assert!((29.7..41.8).contains(&of_activations(&kept)), "{}", of_activations(&kept));
        let full = memory_with(&["learner.compute.recompute=full"]);
        assert!((4.4..5.5).contains(&of_activations(&full)), "{}", of_activations(&full));
        let one = memory_with(&["learner.compute.gradient_blocks=1"]);
        assert_eq!(of_gradients(&one), 4 * 1_720_574_976 + embedding);
    }

    #[test]
    fn ranks_on_one_machine_add_up_and_those_elsewhere_do_not_count() {
        let dir = tempfile::tempdir().unwrap();
        let token = dir.path().join("token");
        std::fs::write(&token, "0123456789abcdef0123456789abcdef\n").unwrap();
        let token = format!("learner.ranks.token_file={:?}", token.display().to_string());
        let others = |address: &str, count: usize| {
            let address = format!("learner.ranks.address={address}");
            let count = format!("learner.ranks.count={count}");
            let set = ["learner.ranks.rank=0", "learner.compute.gradient_blocks=8", &token, &address, &count];
            bytes_of(&memory(SMALL, &small(), &[&ON_CPU[..], &set].concat()), "the other ranks")
        };
        let one = others("127.0.0.1:29501", 2);
        assert!(one > 12 * 1_720_574_976, "weights and moments at least: {one}");
        assert_eq!(others("127.0.0.1:29501", 4), 3 * one);
        assert_eq!(others("10.0.0.1:29501", 4), 0);
    }
}
