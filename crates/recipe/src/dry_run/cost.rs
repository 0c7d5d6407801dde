//! What steps and evaluations cost, before anything is measured: tokens, floating-point operations and bytes.
//! docs/recipes.md states the formulas.

use evenkeel_data::Purpose;
use evenkeel_learner::{DiskPlan, OldLogp, PublishType, TrainingSettings};
use evenkeel_model::Config;
use serde::Serialize;

use super::flops::Passes;
use super::model::trained;
use super::sets::{DataFacts, EvaluationVolume};
use crate::recipe::Recipe;

/// The length of a prompt where it is unknown, in tokens.
const UNKNOWN_PROMPT: f64 = 256.0;

/// What a run costs.
#[derive(Debug, Serialize)]
pub(super) struct Costs {
    /// The mean prompt of the training data in tokens, or a guess.
    pub(super) prompt_tokens: f64,
    pub(super) prompt_tokens_are_known: bool,
    /// A step whose responses are half as long as they may be.
    pub(super) step_at_half: StepCost,
    /// A step whose responses are all as long as they may be.
    pub(super) step_at_most: StepCost,
    /// Absent without problems for evaluation.
    pub(super) evaluation_at_half: Option<EvaluationCost>,
    pub(super) evaluation_at_most: Option<EvaluationCost>,
    /// How many evaluations there are.
    pub(super) evaluations: u64,
    pub(super) run: RunCost,
    /// Bytes of a published version of the weights.
    pub(super) published_bytes: u64,
    /// Bytes of a checkpoint: weights and two moments.
    pub(super) checkpoint_bytes: u64,
    /// Bytes of all checkpoints and versions that there are at a time; absent where all are kept.
    pub(super) disk_bytes: Option<u64>,
}

#[derive(Debug, Serialize)]
pub(super) struct StepCost {
    pub(super) samples: u64,
    /// Samples that dynamic sampling may draw.
    pub(super) samples_at_most: u64,
    pub(super) answer_tokens_each: f64,
    /// Prompts and responses, as the learner sees them.
    pub(super) tokens: f64,
    pub(super) generation_flops: f64,
    /// Passes for old and reference log-probabilities.
    pub(super) scoring_flops: f64,
    pub(super) training_flops: f64,
    /// Token ids, log-probabilities and masks of the batch: 9 bytes a token.
    pub(super) batch_bytes: f64,
    /// Keys and values of all samples at their full length, in the type of the weights that engines get.
    pub(super) cache_bytes: f64,
}

#[derive(Debug, Default, Serialize)]
pub(super) struct EvaluationCost {
    pub(super) problems: u64,
    pub(super) samples: u64,
    pub(super) answer_tokens: f64,
    pub(super) tokens: f64,
    pub(super) flops: f64,
}

/// All steps and evaluations, with responses half as long as they may be.
#[derive(Debug, Serialize)]
pub(super) struct RunCost {
    pub(super) training_samples: u64,
    pub(super) evaluation_samples: u64,
    pub(super) flops: f64,
}

/// Everything that a run will cost, as far as it is known before.
pub(super) fn of_run(recipe: &Recipe, config: &Config, data: &DataFacts) -> Costs {
    let passes = Passes::of(config);
    let known = data.mean_tokens(Purpose::Training);
    let prompt = known.unwrap_or(UNKNOWN_PROMPT);
    let longest = f64::from(recipe.sampling.max_tokens);
    let step = |answer: f64| step_cost(recipe, config, passes, prompt, answer);
    let step_at_half = step(longest / 2.0);
    let step_at_most = step(longest);

    let evaluation = |share: f64| evaluation_cost(passes, data, share);
    let evaluation_at_half = evaluation(0.5);
    let evaluation_at_most = evaluation(1.0);
    let evaluations = if evaluation_at_half.is_some() { recipe.evaluation.count(recipe.run.steps) } else { 0 };

    let steps = recipe.run.steps;
    let per_step = step_at_half.generation_flops + step_at_half.scoring_flops + step_at_half.training_flops;
    let per_evaluation = evaluation_at_half.as_ref().map_or(0.0, |cost| cost.flops);
    let run = RunCost {
        training_samples: steps * step_at_half.samples,
        evaluation_samples: evaluations * evaluation_at_half.as_ref().map_or(0, |cost| cost.samples),
        flops: steps as f64 * per_step + evaluations as f64 * per_evaluation,
    };
    let disk = disk(recipe, config);
    Costs {
        prompt_tokens: prompt,
        prompt_tokens_are_known: known.is_some(),
        step_at_half,
        step_at_most,
        evaluation_at_half,
        evaluation_at_most,
        evaluations,
        run,
        published_bytes: disk.published,
        checkpoint_bytes: disk.checkpoint,
        disk_bytes: disk.total(),
    }
}

/// Room on disks, as the run asks for it before its first step.
pub(super) fn disk(recipe: &Recipe, config: &Config) -> DiskPlan {
    let Recipe { model, run, sampling, .. } = recipe;
    let at_once = recipe.checkpoint.at_once(run, &recipe.warm_start, &recipe.pipeline);
    let plan = DiskPlan::new(trained(&recipe.learner, config), model.checkpoint_type, model.publish_type, at_once);
    let head = written_out_head(recipe, config).unwrap_or(0);
    DiskPlan { published: plan.published + head, rollouts: run.rollouts_bytes(sampling), ..plan }
}

/// What a tied head takes once more where engines of the user's own load it, in bytes; `None` where none is written
/// out.
pub(super) fn written_out_head(recipe: &Recipe, config: &Config) -> Option<u64> {
    let values = (config.vocab_size * config.hidden_size) as u64;
    let is_model = recipe.learner.lora.is_none();
    let loaded = is_model && config.tie_word_embeddings && !recipe.generation.endpoints.is_empty();
    loaded.then(|| values * type_bytes(recipe.model.publish_type))
}

/// What a step costs, with prompts and responses of these lengths.
pub(super) fn step_cost(recipe: &Recipe, config: &Config, passes: Passes, prompt: f64, answer: f64) -> StepCost {
    let sampling = &recipe.sampling;
    let prompts = u64::from(sampling.prompts_per_step);
    let group = u64::from(sampling.group_size);
    let samples = prompts * group;
    let forward = samples as f64 * passes.forward(prompt + answer);
    let tokens = samples as f64 * (prompt + answer);
    StepCost {
        samples,
        samples_at_most: sampling.prompts_limit() * group,
        answer_tokens_each: answer,
        tokens,
        generation_flops: prompts as f64 * passes.group(group as f64, prompt, answer),
        scoring_flops: scored_share(&recipe.learner, prompts) * forward,
        training_flops: 3.0 * recipe.learner.epochs as f64 * forward,
        batch_bytes: 9.0 * tokens,
        cache_bytes: tokens * cache_bytes_a_token(config, type_bytes(recipe.model.publish_type)) as f64,
    }
}

/// Forward passes over the batch without a backward one: for old log-probabilities of all mini-batches but the first,
/// and under the frozen network of each term of the loss, such as a KL term.
fn scored_share(learner: &TrainingSettings, prompts: u64) -> f64 {
    let size = learner.mini_batch_groups as u64;
    let old = match learner.old_logp {
        OldLogp::Recompute if size > 0 => 1.0 - size as f64 / prompts as f64,
        _ => 0.0,
    };
    old + learner.other_logps() as f64
}

/// All sets of an evaluation, with responses of that share of their longest ones; `None` where nothing is evaluated.
fn evaluation_cost(passes: Passes, data: &DataFacts, share: f64) -> Option<EvaluationCost> {
    let mut cost = EvaluationCost::default();
    for set in data.of(Purpose::Evaluation) {
        let Some(EvaluationVolume { problems, samples, answer_tokens }) = set.asked else { continue };
        let prompt = set.mean_tokens.unwrap_or(UNKNOWN_PROMPT);
        let answer = share * f64::from(answer_tokens);
        let all = problems * u64::from(samples);
        cost.problems += problems;
        cost.samples += all;
        cost.answer_tokens += all as f64 * answer;
        cost.tokens += all as f64 * (prompt + answer);
        cost.flops += problems as f64 * passes.group(samples.into(), prompt, answer);
    }
    (cost.samples > 0).then_some(cost)
}

/// Keys and values of one token in all layers.
pub(super) fn cache_bytes_a_token(config: &Config, type_bytes: u64) -> u64 {
    2 * (config.num_layers * config.num_kv_heads * config.head_dim) as u64 * type_bytes
}

pub(super) fn type_bytes(of: PublishType) -> u64 {
    match of {
        PublishType::F32 => 4,
        PublishType::Bf16 | PublishType::F16 => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::super::flops::shapes::small;
    use super::*;

    fn recipe(names: &[&str], set: &[&str]) -> Recipe {
        let owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        crate::recipe::load(&owned(names), &owned(set)).unwrap().settings
    }

    #[test]
    fn a_run_of_the_paper_trains_on_a_million_samples_and_is_evaluated_26_times() {
        let recipe = recipe(&["paper/qwen3-1.7b-dapo-balanced"], &[]);
        let costs = of_run(&recipe, &small(), &DataFacts::default());
        assert_eq!((costs.step_at_most.samples, costs.run.training_samples), (2048, 1_024_000));
        assert_eq!(recipe.evaluation.count(recipe.run.steps), 26);
        assert_eq!(costs.evaluations, 0, "no problem is known");
        assert_eq!(costs.step_at_half.answer_tokens_each, 4096.0);
        let share = costs.step_at_half.scoring_flops / costs.step_at_half.training_flops;
        assert!((share - 0.25).abs() < 1e-12, "three of four mini-batches are scored: {share}");
        // vLLM loads a tied head from a tensor of its own.
        assert_eq!(costs.published_bytes, 2 * (1_720_574_976 + 151_936 * 2048));
    }

    #[test]
    fn evaluations_are_counted_with_the_first_and_the_last() {
        let count = |set: &[&str]| {
            let recipe = recipe(&["arithmetic"], set);
            recipe.evaluation.count(recipe.run.steps)
        };
        assert_eq!(count(&["run.steps=10", "evaluation.every=0"]), 2);
        assert_eq!(count(&["run.steps=10", "evaluation.every=4"]), 4);
        assert_eq!(count(&["run.steps=10", "evaluation.every=5"]), 3);
        assert_eq!(count(&["run.steps=10", "evaluation.before=false", "evaluation.after=false"]), 0);
    }
}
