//! What has the right type and still cannot be: ranges, and what does not go together.

use evenkeel_config::Settings;
use evenkeel_proto::FieldError;

use super::Task;
use crate::recipe::Recipe;

/// Of a fresh model; more is no tiny model, and not written by a process that has other things to do.
const MAX_PARAMETERS: u64 = 1_000_000_000;
const MAX_LAYERS: usize = 1024;

fn require(
    field: &str,
    value: impl std::fmt::Display,
    holds: bool,
    allowed: impl Into<String>,
) -> Result<(), FieldError> {
    if holds { Ok(()) } else { Err(FieldError::new(field, value, allowed)) }
}

fn positive(field: &str, value: u64) -> Result<(), FieldError> {
    require(field, value, value > 0, "at least 1")
}

/// Checks the sections that are the orchestrator's own.
pub(crate) fn check_own<L, E, G, R>(recipe: &Recipe<L, E, G, R>) -> Result<(), FieldError> {
    run(recipe)?;
    sampling(recipe)?;
    sources(recipe)?;
    services(recipe)
}

/// Whether a name can name a run, and with it a directory.
pub(crate) fn is_run_name(name: &str) -> bool {
    let good = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    !name.is_empty() && name.len() <= 128 && name.bytes().all(good) && !name.bytes().all(|byte| byte == b'.')
}

fn run<L, E, G, R>(recipe: &Recipe<L, E, G, R>) -> Result<(), FieldError> {
    let run = &recipe.run;
    let named = run.name.is_empty() || is_run_name(&run.name);
    require("run.name", format_args!("{:?}", run.name), named, "letters, digits, `-`, `_` and `.`, at most 128")?;
    require("run.seed", run.seed, i64::try_from(run.seed).is_ok(), "0 to 2^63 - 1")?;
    positive("run.steps", run.steps)?;
    positive("warm_start.examples_per_step", recipe.warm_start.examples_per_step.into())?;
    positive("checkpoint.every", recipe.checkpoint.every)?;
    let keep = recipe.checkpoint.keep_weights;
    let allowed = "0 (all), or at least 2, since engines may still read the version before";
    require("checkpoint.keep_weights", keep, keep != 1, allowed)
}

fn sampling<L, E, G, R>(recipe: &Recipe<L, E, G, R>) -> Result<(), FieldError> {
    let sampling = &recipe.sampling;
    positive("sampling.prompts_per_step", sampling.prompts_per_step.into())?;
    positive("sampling.group_size", sampling.group_size.into())?;
    if sampling.dynamic {
        let group = sampling.group_size;
        require(
            "sampling.group_size",
            group,
            group >= 2,
            "at least 2 with sampling.dynamic, since one reward is no signal",
        )?;
        let (limit, prompts) = (sampling.max_prompts_per_step, sampling.prompts_per_step);
        let allowed = format!("0, or at least sampling.prompts_per_step, which is {prompts}");
        require("sampling.max_prompts_per_step", limit, limit == 0 || limit >= prompts, allowed)?;
    } else {
        let limit = sampling.max_prompts_per_step;
        require("sampling.max_prompts_per_step", limit, limit == 0, "0 without sampling.dynamic")?;
    }
    let t = sampling.temperature;
    require("sampling.temperature", t, t.is_finite() && t > 0.0, "a finite number above 0")?;
    require("sampling.top_p", sampling.top_p, sampling.top_p > 0.0 && sampling.top_p <= 1.0, "above 0, at most 1")?;
    require("sampling.min_p", sampling.min_p, (0.0..=1.0).contains(&sampling.min_p), "0 to 1")?;
    positive("sampling.max_tokens", sampling.max_tokens.into())?;
    let allowed = format!("0 to sampling.max_tokens, which is {}", sampling.max_tokens);
    require("sampling.min_tokens", sampling.min_tokens, sampling.min_tokens <= sampling.max_tokens, allowed)?;

    let (buffer, most) = (recipe.shaping.overlong_buffer_tokens, sampling.max_tokens);
    let allowed = format!("0 to sampling.max_tokens, which is {most}");
    require("shaping.overlong_buffer_tokens", buffer, buffer <= most, allowed)?;
    let penalty = recipe.shaping.overlong_penalty;
    require("shaping.overlong_penalty", penalty, penalty.is_finite() && penalty >= 0.0, "a finite number, at least 0")?;

    let evaluation = &recipe.evaluation;
    positive("evaluation.samples", evaluation.samples.into())?;
    let t = evaluation.temperature;
    require("evaluation.temperature", t, t.is_finite() && t >= 0.0, "a finite number, at least 0")?;
    let same = t > 0.0 || evaluation.samples == 1;
    require(
        "evaluation.samples",
        evaluation.samples,
        same,
        "1 with evaluation.temperature 0, where all samples are the same",
    )?;
    require(
        "evaluation.top_p",
        evaluation.top_p,
        evaluation.top_p > 0.0 && evaluation.top_p <= 1.0,
        "above 0, at most 1",
    )
}

fn sources<L, E, G, R>(recipe: &Recipe<L, E, G, R>) -> Result<(), FieldError> {
    let data = &recipe.data;
    match (data.task, &data.path) {
        (Task::Jsonl, None) => return Err(FieldError::missing("data.path", "a file, with data.task = \"jsonl\"")),
        (Task::Arithmetic, Some(path)) => {
            let allowed = "absent with data.task = \"arithmetic\", which makes its own problems";
            return Err(FieldError::new("data.path", path.display(), allowed));
        }
        _ => {}
    }
    if let (Task::Arithmetic, Some(path)) = (data.task, &data.held_out_path) {
        let allowed = "absent with data.task = \"arithmetic\", which makes its own problems";
        return Err(FieldError::new("data.held_out_path", path.display(), allowed));
    }
    let fields = [("data.prompt_field", &data.prompt_field), ("data.answer_field", &data.answer_field)];
    for (field, value) in fields {
        require(field, "empty", !value.is_empty(), "the name of a field")?;
    }
    // A name with a slash would make other metric names than those that are documented.
    let plain = !data.source.contains(['/', '\n']);
    require("data.source", format_args!("{:?}", data.source), plain, "a name without `/`")?;

    let fresh = &recipe.model.fresh;
    let tokens = crate::model::CHARACTER_TOKENS;
    let allowed = format!("at least {tokens}, the tokens of the character tokenizer");
    require("model.fresh.vocabulary_size", fresh.vocabulary_size, fresh.vocabulary_size >= tokens, allowed)?;
    // Neither is a matter of taste: layers have a price of their own beside their parameters.
    let parameters = crate::load::parameters_of(fresh);
    require(
        "model.fresh",
        format_args!("{parameters} parameters"),
        parameters <= MAX_PARAMETERS,
        "at most 1000000000",
    )?;
    require("model.fresh.layers", fresh.layers, fresh.layers <= MAX_LAYERS, "at most 1024")?;
    let deviation = fresh.deviation;
    require("model.fresh.deviation", deviation, deviation.is_finite() && deviation > 0.0, "a finite number above 0")?;
    if recipe.model.path.is_none() {
        let (context, most) = (fresh.context_tokens, recipe.sampling.max_tokens as usize);
        let allowed = format!("above sampling.max_tokens, which is {most}");
        require("model.fresh.context_tokens", context, context > most, allowed)?;
    }
    Ok(())
}

fn services<L, E, G, R>(recipe: &Recipe<L, E, G, R>) -> Result<(), FieldError> {
    let services = &recipe.services;
    let positives = [
        ("services.wait_ms", services.wait_ms),
        ("services.backoff_initial_ms", services.backoff_initial_ms),
        ("services.rollout_deadline_ms", services.rollout_deadline_ms),
        ("services.verify_deadline_ms", services.verify_deadline_ms),
        ("services.call_deadline_ms", services.call_deadline_ms),
        ("services.sample_attempts", services.sample_attempts.into()),
        ("services.verify_attempts", services.verify_attempts.into()),
        ("services.max_rollouts", services.max_rollouts as u64),
        ("services.max_verifications", services.max_verifications as u64),
    ];
    positives.into_iter().try_for_each(|(field, value)| positive(field, value))?;
    let share = services.max_late_share;
    require("services.max_late_share", share, (0.0..=1.0).contains(&share), "0 to 1")?;
    let (first, longest) = (services.backoff_initial_ms, services.backoff_max_ms);
    let allowed = format!("at least services.backoff_initial_ms, which is {first}");
    require("services.backoff_max_ms", longest, longest >= first, allowed)?;
    services.client.validate().map_err(|error| error.within("services.client"))
}

/// What the learner's section must agree on with the others, as far as it says it in plain words.
pub(crate) fn check_learner<L: serde::Serialize, E, G, R>(recipe: &Recipe<L, E, G, R>) -> Result<(), FieldError> {
    let learner = toml::Value::try_from(&recipe.learner);
    let number = |key: &str| match learner.as_ref().ok()?.get(key)? {
        toml::Value::Float(value) => Some(*value as f32),
        toml::Value::Integer(value) => Some(*value as f32),
        _ => None,
    };
    match number("temperature") {
        Some(temperature) if temperature != recipe.sampling.temperature => {
            let allowed = format!(
                "sampling.temperature, which is {}: the learner scores what was sampled",
                recipe.sampling.temperature
            );
            Err(FieldError::new("learner.temperature", temperature, allowed))
        }
        _ => Ok(()),
    }
}
