//! A few steps of the run on this machine, timed: with its model, its data and its services, in a folder of their own.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use evenkeel_config::human;
use evenkeel_orchestrator::{
    AuditMode, Descriptions, Endpoints, Event, KeptRollouts, LoadLimits, PipelineSettings, RunOptions, StopWhen,
    start_run,
};
use evenkeel_proto::v1::StepKind;
use evenkeel_recipe::{MeasuredTimes, Recipe, RunTime};
use evenkeel_run::{MetricsLine, RunDirectory};
use tokio::time::{timeout, timeout_at};

use crate::cluster::{Cluster, Environments};

/// How long the trial may take.
const LIMIT: Duration = Duration::from_secs(18);
/// How long it may take to end.
const END: Duration = Duration::from_secs(2);

/// Supervised and GRPO steps, at most.
const WARM_STEPS: u64 = 12;
const STEPS: u64 = 3;

/// Share of the limit after which no further step begins. A step that would take longer is tried with shorter answers.
const STEP_SHARE: f64 = 0.4;
/// Share of the limit that a step of shorter answers is to take: how fast the machine is is guessed.
const CUT_SHARE: f64 = 0.25;
/// The shortest answers. What takes longer with them is tried with fewer prompts.
const LEAST_TOKENS: f64 = 8.0;
/// Without a signal, as at a first step, a group is not trained: with this coefficient every group is.
const ANY_ENTROPY: f64 = 1e-9;

/// Parts of the run that were started before.
pub(super) struct StartedServices {
    pub(super) described: Descriptions,
    pub(super) environment: Vec<String>,
    pub(super) verifiers: std::collections::BTreeMap<String, Vec<String>>,
}

/// Times a few steps of a recipe. `flops` are the floating-point operations of a step of it.
///
/// # Errors
/// Why nothing could be measured.
pub(super) async fn measure(recipe: &Recipe, flops: f64, services: StartedServices) -> Result<MeasuredTimes, String> {
    if !recipe.generation.endpoints.is_empty() {
        return Err("engines of other processes sample (generation.endpoints)".to_owned());
    }
    if recipe.learner.rank_place().is_ok_and(|place| place.is_some()) {
        return Err("the learner has several ranks (learner.ranks)".to_owned());
    }
    if recipe.run.steps == 0 {
        return Err("the run has no step".to_owned());
    }
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let trial = trial_of(recipe, flops);
    let is_cut = trial.sampling.max_tokens < recipe.sampling.max_tokens;
    match timeout(LIMIT + END, run(&trial, folder.path(), services)).await {
        Ok(measured) => measured.map(|times| MeasuredTimes { is_cut, ..times }).map_err(|error| format!("{error:#}")),
        Err(_) => Err(format!("the services take longer than {} to start", human(LIMIT))),
    }
}

/// The run with few steps, of answers as long as are likely to be done in time, without what is besides them.
fn trial_of(recipe: &Recipe, flops: f64) -> Recipe {
    let mut trial = recipe.clone();
    let prompts = f64::from(recipe.sampling.prompts_per_step);
    let step_seconds = match RunTime::guessed(flops, 1) {
        RunTime::Estimated { step_seconds, .. } if recipe.learner.compute.device == "cpu" => step_seconds,
        _ => 0.0,
    };
    if step_seconds > LIMIT.as_secs_f64() * STEP_SHARE {
        let share = LIMIT.as_secs_f64() * CUT_SHARE / step_seconds;
        let tokens = f64::from(recipe.sampling.max_tokens) / 2.0 * share;
        trial.sampling.max_tokens = (tokens.max(LEAST_TOKENS) as u32).min(recipe.sampling.max_tokens);
        trial.sampling.min_tokens = trial.sampling.min_tokens.min(trial.sampling.max_tokens);
        if tokens < LEAST_TOKENS {
            trial.sampling.prompts_per_step = (prompts * tokens / LEAST_TOKENS).max(1.0) as u32;
            trial.learner.mini_batch_groups = 0;
        }
        trial.learner.objective.entropy_coefficient = ANY_ENTROPY;
    }
    trial.sampling.dynamic = false;
    trial.run.steps = STEPS;
    trial.run.rollouts = KeptRollouts::Off;
    trial.run.tensorboard = false;
    trial.warm_start.steps = recipe.warm_start.steps.min(WARM_STEPS);
    trial.pipeline = PipelineSettings::default();
    trial.evaluation.problems = 0;
    trial.evaluation.benchmarks = Vec::new();
    trial.checkpoint.keep_best = String::new();
    // They take a while before the first step, and a small part of each.
    trial.proof.every = 0;
    trial.sampler_audit.mode = AuditMode::Off;
    trial
}

async fn run(trial: &Recipe, folder: &Path, services: StartedServices) -> Result<MeasuredTimes> {
    let began = Instant::now();
    let resolved = trial.resolved_for_this_process()?;
    let directory = RunDirectory::create(&folder.join("trial"), resolved.record())?;
    let model = resolved.model_folder(directory.path(), &LoadLimits::unbounded())?;
    let environments = Environments { server: None, described: services.described };
    let options = RunOptions { keeps_checkpoints: false, ..RunOptions::default() };
    let cluster = Cluster::start(trial, &model, &directory, environments, options.keeps_checkpoints).await?;
    let endpoints =
        Endpoints { environment: services.environment, verifiers: services.verifiers, ..cluster.endpoints.clone() };
    let mut run = start_run(resolved, directory, endpoints, options)?;
    let mut lines = Vec::new();
    let deadline = tokio::time::Instant::from_std(began + LIMIT);
    while let Ok(Some(event)) = timeout_at(deadline, run.next_event()).await {
        match &*event {
            Event::Line(line) => {
                lines.push(line.clone());
                let next = Duration::from_secs_f64(value(line, "timing_s/step"));
                if line.kind == StepKind::Train && began.elapsed() + next > LIMIT.mul_f64(STEP_SHARE) {
                    break;
                }
            }
            Event::Failed { message } => anyhow::bail!("the trial failed: {message}"),
            _ => {}
        }
    }
    let elapsed = began.elapsed();
    run.stop(StopWhen::Now);
    let _ = timeout(END, run.join()).await;
    // The run is over before its services are.
    drop(cluster);
    measured(&lines, elapsed, trial).with_context(|| {
        let prompts = trial.sampling.prompts_per_step;
        let tokens = trial.sampling.max_tokens;
        format!("a step of {prompts} prompts with answers of {tokens} tokens did not finish within {}", human(LIMIT))
    })
}

/// What lines say; nothing without one of a GRPO step.
fn measured(lines: &[MetricsLine], elapsed: Duration, trial: &Recipe) -> Option<MeasuredTimes> {
    let of_kind = |kind: StepKind| lines.iter().filter(move |line| line.kind == kind);
    let last = of_kind(StepKind::Train).next_back()?;
    let mut supervised: Vec<f64> = of_kind(StepKind::WarmStart).map(|line| value(line, "timing_s/step")).collect();
    let steps: f64 = lines.iter().map(|line| value(line, "timing_s/step")).sum();
    supervised.sort_by(f64::total_cmp);
    let sampling = value(last, "timing_s/gen") + value(last, "timing_s/reward");
    let update_actor = value(last, "timing_s/update_actor");
    let optimizer = value(last, "timing_s/optimizer").min(update_actor);
    let training = update_actor - optimizer;
    let demonstrated = of_kind(StepKind::WarmStart).next_back().map_or(0.0, |line| value(line, "warm_start/tokens"));
    Some(MeasuredTimes {
        start: (elapsed.as_secs_f64() - steps).max(0.0),
        supervised_step: supervised.get(supervised.len() / 2).copied().unwrap_or_default(),
        demonstration_tokens: demonstrated / f64::from(trial.warm_start.examples_per_step),
        sampling,
        training,
        update: optimizer / trial.updates_per_step() as f64,
        other: (value(last, "timing_s/step") - sampling - update_actor).max(0.0),
        samples: value(last, "rollout/samples"),
        prompt_tokens: value(last, "prompt_length/mean"),
        answer_tokens: value(last, "response_length/mean"),
        is_cut: false,
    })
}

fn value(line: &MetricsLine, name: &str) -> f64 {
    line.get(name).unwrap_or_default()
}
