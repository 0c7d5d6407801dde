//! The recorded verdicts of steps, given again.

use std::ops::RangeInclusive;
use std::path::Path;

use anyhow::Result;
use evenkeel_orchestrator::{EnvironmentOrigin, JudgedAgain, Repeats};
use evenkeel_proto::{FieldError, JudgeFailure};
use evenkeel_recipe::Recipe;
use evenkeel_run::{Rollout, read_rollouts, rollout_name};

use super::answer::Answer;
use crate::replay::Judges;

/// What became of the verdicts of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdicts {
    Repeated(Repeated),
    /// None was given again, and prompts and texts were not compared with the data either: why.
    Stand(String),
}

impl Verdicts {
    /// A line for people.
    pub(super) fn line(&self) -> String {
        match self {
            Self::Stand(why) => format!("verdicts, prompts and texts stand as they were recorded: {why}\n"),
            Self::Repeated(Repeated { verdicts, others: 0, .. }) => format!("{verdicts} verdicts of it are repeated\n"),
            Self::Repeated(Repeated { verdicts, others, .. }) => {
                format!("{verdicts} verdicts of it are repeated, {others} stand as they were recorded\n")
            }
        }
    }

    /// Why the steps cannot be recomputed even though nothing is different.
    pub(super) fn lacking(&self) -> Option<&str> {
        match self {
            Self::Repeated(Repeated { lacking, .. }) => lacking.as_deref(),
            Self::Stand(_) => None,
        }
    }
}

/// How many verdicts of a step were given again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Repeated {
    /// Verdicts that are the recorded ones.
    pub(super) verdicts: usize,
    /// Verdicts that stand as they were recorded, and samples without one.
    pub(super) others: usize,
    /// The first verdict of this step or an earlier one that the record of a judge lacks, in words.
    pub(super) lacking: Option<String>,
}

/// Gives the verdicts of steps again. Returns those of the last one; the inner error is the first difference.
///
/// # Errors
/// Data or verifiers that fail; with `repeats_all` an environment whose state was not recorded.
pub(super) async fn repeat_steps(
    run: &Path,
    recipe: &Recipe,
    steps: RangeInclusive<u64>,
    repeats_all: bool,
) -> Result<Result<Verdicts, Answer>> {
    if let Some(name) = own_environment(recipe)?.filter(|_| !repeats_all) {
        let why = format!("`{name}` is an environment of your own, which would have to run");
        return Ok(Ok(Verdicts::Stand(why)));
    }
    let repeats = if repeats_all { Repeats::All } else { Repeats::OfProgram };
    let mut settings = recipe.clone();
    // Recorded words of a judge are read again: nobody is asked, and nothing of the run is written.
    settings.reward.judge.iter_mut().for_each(|judge| judge.record_only = true);
    let judges = Judges::start(settings, run, repeats).await?;
    let mut last = Repeated::default();
    for step in steps {
        match repeat(&judges, step, read_rollouts(run, step)?, !recipe.reward.code.deterministic).await? {
            Ok(repeated) => last = Repeated { lacking: last.lacking.or(repeated.lacking), ..repeated },
            Err(different) => return Ok(Err(different)),
        }
    }
    Ok(Ok(Verdicts::Repeated(last)))
}

/// The first environment of the settings that is the user's own.
fn own_environment(recipe: &Recipe) -> Result<Option<&str>, FieldError> {
    for name in recipe.data.environment.iter().chain(&recipe.data.environments) {
        let origin = EnvironmentOrigin::of("data.environment", name)?;
        if !matches!(origin, EnvironmentOrigin::BuiltIn(_) | EnvironmentOrigin::Sandbox) {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

/// Compares the samples of a step with the data, their texts with their tokens, and their verdicts with those that they
/// get now. The inner error is the first difference. `time_decides`: whether verdicts that depend on a limit of time may
/// be others.
///
/// # Errors
/// Data or verifiers that fail.
async fn repeat(
    judges: &Judges,
    step: u64,
    rollouts: Vec<Rollout>,
    time_decides: bool,
) -> Result<Result<Repeated, Answer>> {
    let different = |rollout: &Rollout, what: &str| {
        let (sample, prompt) = (rollout.sample, rollout.group);
        Err(Answer::different(step, rollout_name(step), format!("sample {sample} of prompt {prompt} {what}")))
    };
    if let Some((place, what)) = judges.contradiction(&rollouts)? {
        return Ok(different(&rollouts[place], &what));
    }
    let judged = judges.judge(rollouts).await?;
    let mut repeated = Repeated::default();
    for sample in judged {
        let is_by_time = time_decides && sample.is_by_time();
        let unjudged = sample.judge_failure.filter(|_| sample.rollout.reward.is_some());
        let is_lacking = unjudged.is_some_and(|why| [JudgeFailure::NotRecorded, JudgeFailure::Record].contains(&why));
        if is_lacking {
            repeated.lacking.get_or_insert_with(|| lacking(&sample));
        } else if unjudged.is_some() || (sample.is_changed() && !is_by_time) {
            return Ok(different(&sample.rollout, &change(&sample)));
        }
        if sample.is_repeated && sample.has_both_verdicts() && !is_by_time {
            repeated.verdicts += 1;
        } else {
            repeated.others += 1;
        }
    }
    Ok(Ok(repeated))
}

/// That a judge's record does not have the verdict of a sample.
fn lacking(judged: &JudgedAgain) -> String {
    let Rollout { step, group, sample, .. } = judged.rollout;
    let reason = &judged.reason;
    format!(
        "the judge's record has no verdict on sample {sample} of prompt {group} in step {step} by this judge, rubric \
         and template ({reason})"
    )
}

fn change(judged: &JudgedAgain) -> String {
    let JudgedAgain { rollout, verdict, reason, reward, shaped_reward, .. } = judged;
    let number = |value: Option<f64>| value.map_or_else(|| "none".to_owned(), |value| format!("{value:?}"));
    format!(
        "has verdict {} (reward {}, shaped {}), and now {verdict} ({reason}; reward {}, shaped {})",
        rollout.verdict.label(),
        number(rollout.reward),
        number(rollout.shaped_reward),
        number(*reward),
        number(*shaped_reward),
    )
}
