//! The memory of the embedded engine, which is the host's.

use std::collections::BTreeMap;

use evenkeel_data::Purpose;
use evenkeel_learner::{ComputeType, PublishType};
use evenkeel_model::kernels::cpu::reads_weights_by_rows;
use evenkeel_model::{Config, Parameters};

use super::super::cost::cache_bytes_a_token;
use super::super::sets::DataFacts;
use super::{Need, need};
use crate::recipe::Recipe;

/// Tokens by which the cache of a sequence grows, as the engine rounds them up.
const CACHE_BLOCK: u64 = 32;
/// Copies of the logits of sequences that are drawn from: in the thread that computes them, and where tokens are drawn.
const LOGITS: u64 = 2;

/// What the embedded engine of a recipe takes.
pub(super) struct EngineMemory {
    weights: Need,
    step: Samples,
    evaluation: Samples,
}

/// Samples that are drawn at a time.
#[derive(Clone, Copy, Default)]
struct Samples {
    cache_bytes: u64,
    logits_bytes: u64,
}

impl EngineMemory {
    pub(super) fn of(recipe: &Recipe, config: &Config, data: &DataFacts) -> Self {
        let sampling = &recipe.sampling;
        let samples = |lengths: &BTreeMap<u64, u64>, count: u64, answer: u64| {
            // Many are drawn at a time, so that together they take what as many prompts do on average.
            let longest = mean(lengths, |prompt| prompt + answer);
            let engine = &recipe.engine;
            let fitting = (engine.kv_cache_tokens as f64 / longest.max(1.0)).max(1.0) as u64;
            let at_once = count.min(engine.max_sequences as u64).min(fitting);
            let tokens = mean(lengths, |prompt| capacity(prompt, prompt + answer));
            Samples {
                cache_bytes: (at_once as f64 * tokens * cache_bytes_a_token(config, 4) as f64) as u64,
                logits_bytes: LOGITS * 4 * at_once * config.vocab_size as u64,
            }
        };
        let of_step = u64::from(sampling.prompts_per_step) * u64::from(sampling.group_size);
        let asked = data.sets.iter().filter_map(|set| Some((&set.lengths, set.asked?)));
        let evaluation = asked.map(|(lengths, asked)| {
            samples(lengths, asked.problems * u64::from(asked.samples), u64::from(asked.answer_tokens))
        });
        Self {
            weights: weights(recipe, config),
            step: samples(&data.lengths(Purpose::Training), of_step, u64::from(sampling.max_tokens)),
            evaluation: evaluation.max_by_key(|samples| samples.cache_bytes).unwrap_or_default(),
        }
    }

    pub(super) fn while_training(&self) -> Vec<Need> {
        self.with(self.step)
    }

    pub(super) fn while_evaluating(&self) -> Vec<Need> {
        self.with(self.evaluation)
    }

    fn with(&self, samples: Samples) -> Vec<Need> {
        vec![
            need(self.weights.what.clone(), self.weights.bytes),
            need("embedded engine: keys and values", samples.cache_bytes),
            need("embedded engine: logits", samples.logits_bytes),
        ]
    }
}

/// The mean of `of` over the lengths of prompts, each with its count; `of(0)` where none is known.
fn mean(lengths: &BTreeMap<u64, u64>, of: impl Fn(u64) -> u64) -> f64 {
    match lengths.values().sum::<u64>() {
        0 => of(0) as f64,
        prompts => lengths.iter().map(|(&length, &count)| (count * of(length)) as f64).sum::<f64>() / prompts as f64,
    }
}

/// Tokens for which a sequence of `longest` has room: it begins with those of its prompt and doubles.
fn capacity(prompt: u64, longest: u64) -> u64 {
    let first = (prompt + 1).next_multiple_of(CACHE_BLOCK);
    std::iter::successors(Some(first), |tokens| Some(2 * tokens)).find(|&tokens| tokens >= longest).unwrap_or(longest)
}

/// The weights of the engine, or what it has beside those that the learner shares with it.
fn weights(recipe: &Recipe, config: &Config) -> Need {
    let compute = &recipe.learner.compute;
    let on_cpu = compute.device == "cpu";
    // Published weights are the learner's own, until an update makes new ones beside them.
    let is_lent = on_cpu && recipe.learner.lora.is_none() && recipe.model.publish_type == PublishType::F32;
    if is_lent && recipe.pipeline.max_lag == 0 && reads_weights_by_rows() {
        return need("embedded engine: weights, which are the learner's", 0);
    }
    let shares = recipe.learner.lora.is_some() && on_cpu && compute.dtype == ComputeType::F32;
    let lora = recipe.learner.lora_shape().filter(|_| shares);
    // Adapters that this model cannot have are refused elsewhere.
    let Ok(all) = Parameters::described_with(config, lora.as_ref()) else { return need("embedded engine: weights", 0) };
    let scalars: usize = all.trained_specs().iter().map(|spec| spec.shape.iter().product::<usize>()).sum();
    // Where kernels read columns, a tied head is held by them.
    let head = if all.ids().is_tied() && !reads_weights_by_rows() { config.vocab_size * config.hidden_size } else { 0 };
    let what =
        if shares { "embedded engine: adapters, beside the learner's weights" } else { "embedded engine: weights" };
    need(what, 4 * (scalars + head) as u64)
}

#[cfg(test)]
mod tests {
    use super::super::super::flops::shapes::small;
    use super::super::super::sets::{EvaluationVolume, PromptSet, Refused};
    use super::super::tests::recipe;
    use super::*;
    use crate::marked_prompts::MarkedPrompts;

    fn set(part: Purpose, lengths: &[(u64, u64)]) -> PromptSet {
        let prompts = lengths.iter().map(|(_, count)| count).sum();
        PromptSet {
            name: String::new(),
            part,
            rows: prompts,
            prompts,
            too_long: 0,
            asked: None,
            mean_tokens: None,
            longest_tokens: lengths.iter().map(|(length, _)| *length).max(),
            longest_hinted: None,
            lengths: lengths.iter().copied().collect(),
            kinds: Vec::new(),
            has_hints: false,
            refused: Refused::default(),
            marked: MarkedPrompts::default(),
        }
    }

    #[test]
    fn a_cache_begins_with_its_prompt_and_doubles() {
        for (prompt, longest, tokens) in [(31, 32, 32), (32, 33, 64), (45, 64, 64), (45, 85, 128), (100, 1000, 1024)] {
            assert_eq!(capacity(prompt, longest), tokens, "{prompt} {longest}");
        }
    }

    #[test]
    fn no_more_samples_have_a_cache_than_are_drawn_at_a_time() {
        let cache_bytes = |set: &[&str]| {
            let set = [&["sampling.group_size=4", "sampling.max_tokens=31"][..], set].concat();
            EngineMemory::of(&recipe("smollm2", &set), &small(), &DataFacts::default()).step.cache_bytes
        };
        let each = 32 * cache_bytes_a_token(&small(), 4);
        assert_eq!(cache_bytes(&["sampling.prompts_per_step=8"]), 32 * each);
        assert_eq!(cache_bytes(&["sampling.prompts_per_step=200"]), 256 * each, "engine.max_sequences");
        assert_eq!(cache_bytes(&["sampling.prompts_per_step=8", "engine.kv_cache_tokens=310"]), 10 * each);
    }

    #[test]
    fn caches_take_what_prompts_of_these_lengths_take_on_average() {
        // 64 tokens for each of three, 128 for the fourth; each benchmark has its own.
        let asked = |problems| Some(EvaluationVolume { problems, samples: 1, answer_tokens: 24 });
        let long = PromptSet { asked: asked(2), ..set(Purpose::Evaluation, &[(1000, 9)]) };
        let short = PromptSet { asked: asked(9), ..set(Purpose::Evaluation, &[(40, 9)]) };
        let data = DataFacts { sets: vec![set(Purpose::Training, &[(40, 3), (100, 1)]), long, short] };
        let settings = ["sampling.group_size=4", "sampling.max_tokens=24", "sampling.prompts_per_step=2"];
        let found = EngineMemory::of(&recipe("smollm2", &settings), &small(), &data);
        let each = cache_bytes_a_token(&small(), 4);
        assert_eq!(found.step.cache_bytes, 8 * (3 * 64 + 128) / 4 * each);
        assert_eq!(found.evaluation.cache_bytes, 2 * 1024 * each);
    }

    #[test]
    fn an_engine_beside_a_learner_of_adapters_has_these_alone() {
        let weight_bytes = |set: &[&str]| weights(&recipe("smollm2", set), &small()).bytes;
        let own = weight_bytes(&["model.publish_type=bf16"]);
        let shared = weight_bytes(&["learner.lora.rank=4"]);
        assert!(shared * 2 < own, "{shared} of {own}");
        assert_eq!(weight_bytes(&["learner.lora.rank=4", "learner.compute.dtype=bf16"]), own);
        let lent = if reads_weights_by_rows() { 0 } else { own };
        assert_eq!(weight_bytes(&[]), lent, "the learner lends what it publishes in its own type");
    }
}
