//! Whether and how the tokens of a run can be drawn again.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Result;
use evenkeel_learner::{Drawing, PublishType, TrainingSettings};
use evenkeel_model::kernels::cpu::ARITHMETIC;
use evenkeel_orchestrator::{EarlierTurns, EnvironmentOrigin, StepOrder, Tokenizer};
use evenkeel_proto::FieldError;
use evenkeel_recipe::Recipe;
use evenkeel_run::metric::table as metric;
use evenkeel_run::{MetricsLine, RunRecord};

/// How the run drew its tokens, or why that cannot be repeated.
///
/// # Errors
/// A tokenizer that cannot be read; an environment that does not exist.
pub(super) fn drawing(
    record: &RunRecord,
    recipe: &Recipe,
    recomputed: &TrainingSettings,
    model: &Path,
) -> Result<Result<Drawing, String>> {
    if let Some(why) = why_not(record, recipe, recomputed) {
        return Ok(Err(why));
    }
    let Some(counts_sampled) = counts_sampled(recipe)? else {
        return Ok(Err("some environments are agents, and others are not".to_owned()));
    };
    let tokenizer = Tokenizer::load(model)?;
    let sampling = recipe.sampling.of_response();
    let ends = tokenizer.ends().iter().copied().chain(tokenizer.end_of_turn());
    let end_tokens: BTreeSet<u32> = ends.chain(sampling.stop_token_ids.iter().copied()).collect();
    let segment_tokens = recipe.pipeline.segment_tokens(sampling.max_tokens);
    let end_tokens = end_tokens.into_iter().collect();
    Ok(Ok(Drawing { sampling, seed: recipe.run.seed, segment_tokens, counts_sampled, end_tokens }))
}

/// Why seed and logits do not give the tokens here.
fn why_not(record: &RunRecord, recipe: &Recipe, recomputed: &TrainingSettings) -> Option<String> {
    if ARITHMETIC.is_empty() {
        return Some("engine and learner are not known to have equal bits on this kind of processor".to_owned());
    }
    if !recipe.sampling.seeded {
        return Some("the engines used their own random numbers (sampling.seeded = false)".to_owned());
    }
    if recipe.pipeline.order == StepOrder::Completion {
        return Some("with pipeline.order = \"completion\" time decides which weights draw a token".to_owned());
    }
    if recipe.model.publish_type != PublishType::F32 {
        return Some("the engines had rounded weights (model.publish_type)".to_owned());
    }
    if !recipe.learner.compute.is_fp32_on_cpu() || !recomputed.compute.is_fp32_on_cpu() {
        return Some("equal bits need a learner that computes in f32 on a CPU (learner.compute)".to_owned());
    }
    // A run that is not one process has its weights elsewhere, and its engines may be any.
    let weights = std::fs::symlink_metadata(record.path.join("weights"));
    let is_one_process = recipe.generation.endpoints.is_empty() && weights.is_ok_and(|found| found.is_dir());
    let has_equal_tokens =
        |line: &MetricsLine| line.get(metric::PROOF_EQUAL_TOKENS.name).is_some_and(|tokens| tokens > 0.0);
    let is_known = is_one_process || record.steps.iter().any(has_equal_tokens);
    (!is_known).then(|| "the run's engines are not known to compute as this program does".to_owned())
}

/// Whether the places of turns count sampled tokens alone; `None` where environments differ in that.
fn counts_sampled(recipe: &Recipe) -> Result<Option<bool>, FieldError> {
    let data = &recipe.data;
    let names = data.environment.iter().chain(&data.environments);
    let are_agents = names.map(|name| Ok(EnvironmentOrigin::of("data.environment", name)?.is_agent()));
    let are_agents = are_agents.collect::<Result<BTreeSet<bool>, FieldError>>()?;
    Ok(match (recipe.turns.earlier_turns == EarlierTurns::Rewrite, are_agents.len()) {
        (true, _) => Some(true),
        (false, 0 | 1) => Some(are_agents.contains(&true)),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Why the tokens of a run in one process cannot be drawn again; `None` where nothing keeps them from it.
    fn why(set: &[&str]) -> Option<String> {
        let run = tempfile::tempdir().unwrap();
        std::fs::create_dir(run.path().join("weights")).unwrap();
        let record = RunRecord {
            path: run.path().to_owned(),
            run_id: "run".to_owned(),
            program_version: String::new(),
            forked_from: None,
            warm_start: Vec::new(),
            steps: Vec::new(),
            evaluations: Vec::new(),
            data: None,
        };
        let set: Vec<String> = set.iter().map(|&setting| setting.to_owned()).collect();
        let recipe = evenkeel_recipe::load(&["arithmetic".to_owned()], &set).unwrap().settings;
        why_not(&record, &recipe, &recipe.learner)
    }

    #[test]
    fn tokens_that_engines_drew_with_their_own_random_numbers_are_not_drawn_again() {
        if ARITHMETIC.is_empty() {
            return;
        }
        assert_eq!(why(&[]), None);
        let unseeded = why(&["sampling.seeded=false"]).unwrap();
        assert_eq!(unseeded, "the engines used their own random numbers (sampling.seeded = false)");
    }
}
