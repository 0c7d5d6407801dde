//! What the sections of a recipe must satisfy, each by itself and together.

use evenkeel_config::{Settings, human};
use evenkeel_engine::EngineSettings;
use evenkeel_learner::BatchShape;
use evenkeel_model::ModelError;
use evenkeel_objective::Advantage;
use evenkeel_proto::FieldError;

use super::{Recipe, lag};

/// Validates every section by its own crate, then what several sections must satisfy together.
pub(super) fn validate(recipe: &Recipe) -> Result<(), FieldError> {
    recipe.loop_settings().validate()?;
    recipe.page.address(None)?;
    recipe.model.name().transpose()?;
    if let Err(ModelError::Input(error)) = recipe.model.fresh.validate() {
        return Err(error.within("model.fresh"));
    }
    recipe.learner.validate().map_err(|error| error.within("learner"))?;
    recipe.generation.validate().map_err(|error| error.within("generation"))?;
    recipe.reward.validate().map_err(|error| error.within("reward"))?;
    if let Some(name) = recipe.reward.functions.keys().next() {
        let allowed = format!("absent in a recipe, which declares reward functions in data.verifiers.{name}");
        return Err(FieldError::new(format!("reward.functions.{name}"), "present", allowed));
    }
    validate_judge(recipe)?;
    recipe.environment.validate().map_err(|error| error.within("environment"))?;
    // The engine's model is the run's.
    let engine = EngineSettings { model: "model".into(), ..recipe.engine.clone() };
    engine.validate().map_err(|error| error.within("engine"))?;
    validate_lengths(recipe)?;
    validate_batch(recipe)?;
    validate_advantage(recipe)?;
    validate_distillation(recipe)?;
    lag::validate(recipe)
}

/// Refuses a judge that nothing needs, one that is needed and absent, and a deadline that it cannot keep.
fn validate_judge(recipe: &Recipe) -> Result<(), FieldError> {
    let named: Vec<&String> =
        recipe.data.verifiers.iter().filter(|(_, verifier)| verifier.judge).map(|(name, _)| name).collect();
    if let Some(second) = named.get(1) {
        let allowed = format!("false, since the judge is {} already", named[0]);
        return Err(FieldError::new(format!("data.verifiers.{second}.judge"), true, allowed));
    }
    let Some(judge) = &recipe.reward.judge else {
        let absent =
            |name: &&String| FieldError::missing("reward.judge", format!("a judge, which data.verifiers.{name} is"));
        return named.first().map(absent).map_or(Ok(()), Err);
    };
    if !judge.verifier.is_empty() {
        let allowed = format!("absent in a recipe, which declares data.verifiers.{}.judge = true", judge.verifier);
        return Err(FieldError::quoted("reward.judge.verifier", &judge.verifier, allowed));
    }
    let allowed =
        "present where a verifier is it (data.verifiers.NAME.judge = true), or with reward.judge.undecided = true";
    FieldError::ensure(!named.is_empty() || judge.undecided, "reward.judge", "a judge of no answer", allowed)?;
    let needed = judge.timeout.saturating_add(judge.retry_for);
    let deadline = recipe.services.verify_deadline;
    let allowed = format!("at least {}, what a call of the judge and its retries may take", human(needed));
    FieldError::ensure(deadline >= needed, "services.verify_deadline", human(deadline), allowed)
}

/// Refuses contexts that are too short for a response.
fn validate_lengths(recipe: &Recipe) -> Result<(), FieldError> {
    let answers = [
        ("sampling.max_tokens", recipe.sampling.max_tokens as usize),
        ("evaluation.max_tokens", recipe.evaluation.max_tokens as usize),
    ];
    let above = |field: &str, context: usize| match answers.iter().find(|(_, most)| context <= *most) {
        None => Ok(()),
        Some((answer, most)) => Err(FieldError::new(field, context, format!("above {answer}, which is {most}"))),
    };
    if recipe.model.path.is_none() {
        above("model.fresh.context_tokens", recipe.model.fresh.context_tokens)?;
    }
    match recipe.engine.max_model_len {
        Some(context) if recipe.generation.endpoints.is_empty() => above("engine.max_model_len", context),
        _ => Ok(()),
    }
}

/// Refuses what the learner would refuse in every step of the run.
fn validate_batch(recipe: &Recipe) -> Result<(), FieldError> {
    let mut bounds = recipe.shaping.bounds();
    let batch = BatchShape {
        group_size: recipe.sampling.group_size as usize,
        largest_reward: bounds.iter().map(|(_, _, most)| most).sum(),
    };
    bounds.sort_by(|(_, _, a), (_, _, b)| b.total_cmp(a));
    let (setting, value, _) = bounds.swap_remove(0);
    recipe.learner.validate_batch(batch).map_err(|error| match error.field.as_str() {
        "group_size" => error.within("sampling"),
        _ => FieldError::new(setting, value, error.allowed),
    })?;
    let groups = recipe.sampling.prompts_per_step as usize;
    recipe.learner.validate_groups(groups).map_err(|error| error.within("learner"))
}

/// Refuses to leave out groups that a teacher would score, and hints that nobody reads or that are nowhere.
fn validate_distillation(recipe: &Recipe) -> Result<(), FieldError> {
    let leaves_out = recipe.sampling.dynamic && recipe.learner.distillation.is_some();
    let allowed = "false with learner.distillation: a teacher scores groups with equal rewards, too";
    FieldError::ensure(!leaves_out, "sampling.dynamic", true, allowed)?;
    let reads_hints = recipe.learner.distillation.as_ref().is_some_and(|distillation| distillation.hints);
    match &recipe.data.hint {
        None if reads_hints => Err(FieldError::missing("data.hint", "a text with {hint}, with distillation.hints")),
        Some(hint) if !reads_hints => {
            Err(FieldError::quoted("data.hint", hint, "absent without learner.distillation.hints = true"))
        }
        _ => Ok(()),
    }
}

/// Refuses rewards that the advantages are not made for.
fn validate_advantage(recipe: &Recipe) -> Result<(), FieldError> {
    let advantage = recipe.learner.objective.advantage;
    match advantage {
        Advantage::MaxRl => match recipe.shaping.below_zero() {
            Some((setting, value)) => {
                let allowed = "a value with which no reward is below 0, with learner.objective.advantage = maxrl";
                Err(FieldError::new(setting, value, allowed))
            }
            None => Ok(()),
        },
        Advantage::Gdpo if recipe.shaping.counted_components() < 2 => {
            let allowed = "another one where the reward has a single component (shaping.weights gives weights to \
                several, such as format)";
            Err(FieldError::quoted("learner.objective.advantage", advantage.name(), allowed))
        }
        _ => Ok(()),
    }
}
