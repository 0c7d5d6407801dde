//! The memory of a learner on a CPU.

use evenkeel_model::{Config, ModelError, ParameterSpec, Parameters, Recompute};

use super::{MemoryPart, MemoryUse};
use crate::settings::{ComputeType, TrainingSettings};

/// Smaller sums of gradients are not kept for the next update.
const LEAST_KEPT_BYTES: u64 = 1 << 20;

/// Bytes of activations that a thread has by those that its largest pass needs: it keeps buffers of micro-batches of
/// other lengths. One thread keeps them for the policy and for published weights alike; several are others for each of
/// the two. With models of 54 and 135 million parameters up to 1.02 and 1.55 times was measured.
const fn kept_activations(threads: usize) -> f64 {
    if threads == 1 { 1.1 } else { 1.6 }
}

/// The memory of a learner on a CPU at its peak, which is a step in which every thread is in a pass over a full
/// micro-batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuMemoryPlan {
    /// The parts, which exist at once.
    pub parts: Vec<MemoryPart>,
}

/// The micro-batch with the most activations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LargestBatch {
    /// Tokens of the sequence, the prompt's included.
    pub tokens: usize,
    /// Tokens that are scored.
    pub scored: usize,
}

impl LargestBatch {
    /// Where prompts have up to `prompt` tokens and sequences up to `longest`.
    pub fn of(settings: &TrainingSettings, prompt: usize, longest: usize) -> Self {
        let tokens = settings.compute.most_gradient_tokens(prompt, longest);
        Self { tokens, scored: tokens.saturating_sub(prompt) }
    }
}

impl CpuMemoryPlan {
    /// `gradients` are in memory at a time: see [`Compute::gradients_at_once`](crate::Compute::gradients_at_once).
    ///
    /// # Errors
    /// Adapters that the model cannot have.
    pub fn of(
        config: &Config,
        settings: &TrainingSettings,
        batch: LargestBatch,
        gradients: usize,
    ) -> Result<Self, ModelError> {
        let lora = settings.lora_shape();
        let described = settings.described(config)?;
        let trained = described.trained_specs();
        let count = 4 * described.trained_count() as u64;
        let stays = |what, bytes| MemoryPart { what, bytes, stays: true };
        let passes = |what, bytes| MemoryPart { what, bytes, stays: false };
        let mut parts = Vec::new();
        if lora.is_some() {
            parts.push(stays(MemoryUse::FrozenWeights, described.bytes() - count));
        }
        parts.extend([stays(MemoryUse::Weights, count), stays(MemoryUse::Moments, 2 * count)]);
        for term in settings.loss_terms().iter() {
            parts.push(stays(MemoryUse::of_network(term), term.network_bytes(described.trained_count() as u64)?));
        }
        // The policy as its own teacher takes none.
        parts.retain(|part| part.bytes > 0);
        if !settings.is_single_update() {
            parts.push(passes(MemoryUse::StateBefore, 3 * count));
        }
        parts.push(passes(MemoryUse::Gradients, count));
        let threads = settings.compute.resolved_threads();
        let more = |spec: &ParameterSpec| {
            // The embedding has a sum of its own beside that of a tied head, in each block that a thread works on.
            let is_tied =
                lora.is_none() && described.ids().is_tied() && described.spec(described.ids().embedding) == spec;
            let of_embedding = if is_tied { threads.min(gradients) } else { 0 };
            ((gradients - 1 + of_embedding) as u64, bytes(spec))
        };
        let (kept, dropped): (Vec<_>, Vec<_>) =
            trained.iter().map(more).partition(|(_, bytes)| *bytes >= LEAST_KEPT_BYTES);
        let sum = |of: Vec<(u64, u64)>| of.into_iter().map(|(count, bytes)| count * bytes).sum::<u64>();
        parts.push(stays(MemoryUse::KeptGradients, sum(kept)));
        parts.push(passes(MemoryUse::Gradients, sum(dropped)));
        let scaled = scaled_bytes(&described);
        let pass =
            type_bytes(settings) * values(config, settings, batch) as u64 + logits_bytes(config, settings, batch);
        let kept = (kept_activations(threads) * pass as f64) as u64;
        parts.push(stays(MemoryUse::Activations, threads as u64 * (kept + scaled)));
        parts.retain(|part| part.bytes > 0);
        Ok(Self { parts: merged(parts) })
    }

    /// The bytes of all parts.
    pub fn total(&self) -> u64 {
        self.parts.iter().map(|part| part.bytes).sum()
    }

    /// The bytes of the parts that stay between steps.
    pub fn resident(&self) -> u64 {
        self.parts.iter().filter(|part| part.stays).map(|part| part.bytes).sum()
    }
}

/// Parts of the same kind as one.
fn merged(parts: Vec<MemoryPart>) -> Vec<MemoryPart> {
    let mut all: Vec<MemoryPart> = Vec::new();
    for part in parts {
        match all.iter_mut().find(|other| (other.what, other.stays) == (part.what, part.stays)) {
            Some(other) => other.bytes += part.bytes,
            None => all.push(part),
        }
    }
    all
}

fn bytes(spec: &ParameterSpec) -> u64 {
    4 * spec.shape.iter().product::<usize>() as u64
}

/// B of every adapter times the scale, of which each pass has its own.
fn scaled_bytes(described: &Parameters) -> u64 {
    match described.lora() {
        Some(lora) if lora.scale() != 1.0 => {
            described.trained_specs().iter().filter(|spec| spec.name.contains(".lora_B.")).map(bytes).sum()
        }
        _ => 0,
    }
}

fn type_bytes(settings: &TrainingSettings) -> u64 {
    if settings.compute.dtype == ComputeType::F32 { 4 } else { 2 }
}

/// Logits of as many tokens as have them at a time, in fp32; their gradients replace them.
fn logits_bytes(config: &Config, settings: &TrainingSettings, batch: LargestBatch) -> u64 {
    4 * (settings.compute.head_chunk_rows.min(batch.scored) * config.vocab_size) as u64
}

/// Values that a pass has in memory at a time, but for logits: what its layers keep for the backward pass, and what
/// this needs in the last layer, where nothing is given back yet.
fn values(config: &Config, settings: &TrainingSettings, batch: LargestBatch) -> usize {
    let hidden = config.hidden_size;
    let inner = config.intermediate_size;
    let query = config.query_width();
    let kv = config.kv_width();
    // Before and after their norms.
    let normed = if config.query_key_norm { query + kv } else { 0 };
    // Input, both norms and the sum between them; queries, keys, values, output and log-sums of attention; the
    // feed-forward block.
    let all = 4 * hidden + 2 * query + 2 * kv + normed + config.num_heads + 3 * inner;
    let of_layers = match settings.compute.recompute {
        Recompute::None => config.num_layers * all,
        Recompute::Selective => config.num_layers * (all - 2 * hidden - normed - inner),
        Recompute::Full => config.num_layers * hidden + all,
    };
    let backward = 3 * inner + 4 * hidden;
    batch.tokens * (of_layers + hidden + backward) + 4 * batch.scored * hidden
}

#[cfg(test)]
mod tests {
    use super::super::recorded_tests::models;
    use super::*;
    use crate::settings::{BaseType, LoraSettings};

    fn bytes_of(plan: &CpuMemoryPlan, what: MemoryUse) -> u64 {
        plan.parts.iter().filter(|part| part.what == what).map(|part| part.bytes).sum()
    }

    fn settings(lora: Option<LoraSettings>) -> TrainingSettings {
        let mut settings = TrainingSettings { lora, ..TrainingSettings::default() };
        settings.compute.threads = 2;
        settings
    }

    const BATCH: LargestBatch = LargestBatch { tokens: 300, scored: 256 };

    fn plan(settings: &TrainingSettings) -> CpuMemoryPlan {
        let [(_, config), ..] = models();
        CpuMemoryPlan::of(&config, settings, BATCH, 5).unwrap()
    }

    #[test]
    fn adapters_alone_have_moments_and_gradients_beside_weights_that_may_be_narrow() {
        let [(_, config), ..] = models();
        let all = 4 * Parameters::described(&config).unwrap().count() as u64;
        let full = plan(&settings(None));
        assert_eq!((bytes_of(&full, MemoryUse::Weights), bytes_of(&full, MemoryUse::Moments)), (all, 2 * all));
        assert_eq!(bytes_of(&full, MemoryUse::FrozenWeights), 0);
        let plan_with = |base_type| plan(&settings(Some(LoraSettings { base_type, ..LoraSettings::default() })));
        let wide = plan_with(BaseType::F32);
        let narrow = plan_with(BaseType::Bf16);
        assert_eq!(bytes_of(&wide, MemoryUse::FrozenWeights), all);
        let share = bytes_of(&narrow, MemoryUse::FrozenWeights) as f64 / all as f64;
        assert!((0.5..0.51).contains(&share), "norms are in fp32: {share}");
        let adapters = bytes_of(&wide, MemoryUse::Weights);
        assert_eq!(bytes_of(&wide, MemoryUse::Moments), 2 * adapters);
        assert!(adapters * 10 < all && wide.total() < full.total() / 3, "{adapters} of {all}");
    }

    #[test]
    fn threads_have_activations_of_their_own_and_recomputing_takes_less() {
        let activations = |threads, recompute| {
            let mut settings = settings(None);
            (settings.compute.threads, settings.compute.recompute) = (threads, recompute);
            bytes_of(&plan(&settings), MemoryUse::Activations)
        };
        let [kept, cheap, full] = Recompute::ALL.map(|recompute| activations(1, recompute));
        assert!(full < cheap && cheap < kept, "{full} {cheap} {kept}");
        assert_eq!(activations(4, Recompute::None), 2 * activations(2, Recompute::None));
        assert!(activations(2, Recompute::None) > 2 * kept, "each network has buffers for each thread");
    }

    #[test]
    fn several_updates_and_a_reference_have_their_own_parts() {
        let plain = plan(&settings(None));
        let mut more = settings(None);
        (more.epochs, more.objective.kl_coefficient) = (2, 0.1);
        let more = plan(&more);
        assert_eq!(more.total() - plain.total(), 4 * bytes_of(&plain, MemoryUse::Weights));
    }

    #[test]
    fn a_prompt_comes_once_before_the_responses_of_a_micro_batch() {
        let largest = |prompt, longest| LargestBatch::of(&settings(None), prompt, longest);
        assert_eq!(largest(45, 85), LargestBatch { tokens: 301, scored: 256 });
        assert_eq!(largest(10, 1000), LargestBatch { tokens: 1000, scored: 990 });
    }
}
