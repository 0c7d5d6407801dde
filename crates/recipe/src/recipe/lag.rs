//! What a recipe must satisfy whose engines sample ahead of the learner: what is kept of weights, which
//! log-probabilities engines give, and what the learner can train on.

use evenkeel_generation::LogProbabilitySetting;
use evenkeel_learner::{OldLogp, SampledVersions, VersionMix};
use evenkeel_objective::Correction;
use evenkeel_orchestrator::StepOrder;
use evenkeel_proto::FieldError;

use super::Recipe;

/// Refuses what contradicts the lag.
pub(super) fn validate(recipe: &Recipe) -> Result<(), FieldError> {
    let max_lag = recipe.pipeline.max_lag;
    validate_retention(max_lag, recipe.checkpoint.keep_weights)?;
    validate_log_probabilities(recipe)?;
    let mix = version_mix(recipe);
    recipe.learner.validate_versions(SampledVersions { max_lag, mix }).map_err(|error| error.within("learner"))
}

/// What the user should know about the lag before the run starts.
pub(super) fn note(recipe: &Recipe) -> Option<String> {
    let max_lag = recipe.pipeline.max_lag;
    let learner = &recipe.learner;
    let is_bare = learner.old_logp == OldLogp::Proximal && learner.objective.correction == Correction::None;
    (max_lag > 0 && is_bare).then(|| {
        format!(
            "samples of weights up to {max_lag} steps old (pipeline.max_lag) are treated like samples of the step's \
             own weights: without learner.objective.correction the gradient is biased"
        )
    })
}

/// Engines may have to be brought back to every version from which samples are drawn: the newest and `max_lag` before
/// it.
fn validate_retention(max_lag: u32, keep_weights: u32) -> Result<(), FieldError> {
    match keep_weights.checked_sub(1) {
        Some(most) if max_lag > most => {
            let allowed = format!(
                "at most {most} with checkpoint.keep_weights = {keep_weights}: the weights that sample must be kept (0 \
                keeps all)"
            );
            Err(FieldError::new("pipeline.max_lag", max_lag, allowed))
        }
        Some(_) | None => Ok(()),
    }
}

/// Refuses a loss with the engines' log-probabilities where these are not those of the distribution that is sampled
/// from.
fn validate_log_probabilities(recipe: &Recipe) -> Result<(), FieldError> {
    let sampling = &recipe.sampling;
    let learner = &recipe.learner;
    let is_used = if learner.objective.correction != Correction::None {
        format!("learner.objective.correction = {}", learner.objective.correction)
    } else if learner.old_logp == OldLogp::Rollout {
        "learner.old_logp = rollout".to_owned()
    } else {
        return Ok(());
    };
    let changed = [
        ("temperature", sampling.temperature != 1.0, sampling.temperature.to_string()),
        ("top_p", sampling.top_p != 1.0, sampling.top_p.to_string()),
        ("top_k", sampling.top_k != 0, sampling.top_k.to_string()),
        ("min_p", sampling.min_p != 0.0, sampling.min_p.to_string()),
    ];
    let changed = changed.into_iter().find(|(_, is_changed, _)| *is_changed);
    match (recipe.generation.log_probabilities, changed) {
        (LogProbabilitySetting::Raw, Some((name, _, value))) => {
            let allowed = format!(
                "processed with sampling.{name} = {value} and {is_used}: raw ones are not those of the distribution \
                that is sampled from"
            );
            Err(FieldError::new("generation.log_probabilities", "raw", allowed))
        }
        _ => Ok(()),
    }
}

/// How the samples of a step divide among versions.
fn version_mix(recipe: &Recipe) -> VersionMix {
    let pipeline = &recipe.pipeline;
    let groups = recipe.sampling.prompts_per_step as usize;
    match pipeline.split as usize {
        _ if pipeline.order == StepOrder::Completion => VersionMix::Any("pipeline.order = \"completion\""),
        _ if pipeline.partial => VersionMix::Any("pipeline.partial = true"),
        0 => VersionMix::One,
        // Which groups of a step are the later ones depends on those that are filtered.
        _ if recipe.sampling.dynamic => VersionMix::Any("pipeline.split with sampling.dynamic = true"),
        split => VersionMix::SplitAt(groups.saturating_sub(split)),
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_config::Loader;

    use super::*;

    fn resolve(text: &str) -> Result<Recipe, String> {
        let loaded = Loader::new().text("test", text).and_then(super::super::resolve);
        loaded.map(|loaded| loaded.settings).map_err(|error| error.to_string())
    }

    #[test]
    fn a_lag_is_refused_with_the_setting_that_it_contradicts() {
        for (text, words) in [
            (
                "[pipeline]\nmax_lag = 1",
                "`learner.old_logp` is recompute in defaults, allowed: proximal or rollout with pipeline.max_lag = 1",
            ),
            (
                "[pipeline]\nmax_lag = 3\n[checkpoint]\nkeep_weights = 3\n[learner]\nold_logp = \"proximal\"",
                "`pipeline.max_lag` is 3 in test, allowed: at most 2 with checkpoint.keep_weights = 3",
            ),
            (
                "[pipeline]\nmax_lag = 1\norder = \"completion\"\n[learner]\nold_logp = \"proximal\"",
                "`learner.objective.correction` is none in defaults, allowed: a correction, or learner.old_logp = \
                 rollout, where mini-batches (learner.mini_batch_groups = 0) take samples of several versions: \
                 pipeline.order = \"completion\" mixes them",
            ),
            (
                "[pipeline]\norder = \"completion\"",
                "`pipeline.order` is \"completion\" in test, allowed: \"data\" with pipeline.max_lag = 0",
            ),
            (
                "[generation]\nlog_probabilities = \"raw\"\n[sampling]\ntemperature = 0.5\n[learner.objective]\n\
                correction = \"tis\"",
                "`generation.log_probabilities` is raw in test, allowed: processed with sampling.temperature = 0.5 and \
                 learner.objective.correction = token-truncate",
            ),
            (
                "[pipeline]\nmax_lag = 1\nsplit = 2\n[sampling]\nprompts_per_step = 8\n[learner]\n\
                old_logp = \"proximal\"\nmini_batch_groups = 4",
                "`learner.objective.correction` is none in defaults, allowed: a correction, or learner.old_logp = \
                 rollout, where mini-batches (learner.mini_batch_groups = 4) take samples of several versions: \
                 pipeline.split divides a step after 6 groups",
            ),
            (
                "[pipeline]\nmax_lag = 1\nsplit = 4\n[sampling]\nprompts_per_step = 8\ndynamic = true\n[learner]\n\
                 old_logp = \"proximal\"\n\
                 mini_batch_groups = 4",
                "`learner.objective.correction` is none in defaults, allowed: a correction, or learner.old_logp = \
                 rollout, where mini-batches (learner.mini_batch_groups = 4) take samples of several versions: \
                 pipeline.split with sampling.dynamic = true mixes them",
            ),
            (
                "[pipeline]\nmax_lag = 1\npartial = true\n[learner]\nold_logp = \"proximal\"",
                "`learner.objective.correction` is none in defaults, allowed: a correction, or learner.old_logp = \
                 rollout, where mini-batches (learner.mini_batch_groups = 0) take samples of several versions: \
                 pipeline.partial = true mixes them",
            ),
            (
                "[generation]\nlog_probabilities = \"raw\"\n[sampling]\ntop_k = 5\n[learner]\nold_logp = \"rollout\"",
                "`generation.log_probabilities` is raw in test, allowed: processed with sampling.top_k = 5 and \
                learner.old_logp = rollout",
            ),
        ] {
            let error = resolve(text).unwrap_err();
            assert!(error.starts_with(words), "{error}");
        }
    }

    #[test]
    fn what_goes_together_passes() {
        for text in [
            "[pipeline]\nmax_lag = 1\n[learner]\nold_logp = \"proximal\"",
            "[pipeline]\nmax_lag = 1\norder = \"completion\"\n[learner]\nold_logp = \"rollout\"",
            "[pipeline]\nmax_lag = 16\n[checkpoint]\nkeep_weights = 0\n[learner]\nold_logp = \"rollout\"",
            "[pipeline]\nmax_lag = 1\nsplit = 4\n[sampling]\nprompts_per_step = 8\n[learner]\nold_logp = \"proximal\"\n\
            mini_batch_groups = 4",
            "[pipeline]\nmax_lag = 1\nsplit = 2\n[sampling]\nprompts_per_step = 8\n[learner]\nold_logp = \"rollout\"",
            "[generation]\nlog_probabilities = \"raw\"\n[learner.objective]\ncorrection = \"tis\"",
            "[generation]\nlog_probabilities = \"raw\"\n[sampling]\ntemperature = 0.5",
        ] {
            resolve(text).unwrap();
        }
    }

    #[test]
    fn a_lag_without_a_correction_is_said_at_the_start() {
        let notes = |more: &str| {
            let text = format!("[pipeline]\nmax_lag = 1\n[learner]\nold_logp = \"proximal\"\n{more}");
            resolve(&text).unwrap().resolved().unwrap().notes
        };
        let is_said = |notes: &[String]| notes.iter().any(|note| note.contains("without learner.objective.correction"));
        assert!(is_said(&notes("")));
        let corrected = notes("[learner.objective]\ncorrection = \"icepop\"");
        assert!(!is_said(&corrected));
        assert!(corrected[0].starts_with("objective: loss = - sum of w c phi"), "{corrected:?}");
        assert!(corrected[0].ends_with("whichever version sampled [proximal]"), "{corrected:?}");
    }
}
