//! Dry runs: whether a run can start, what is missing if not, and what it will cost.
//!
//! Nothing is written, but that a model of the hub comes into its cache, and no service is started. Whatever is wrong
//! is collected, so that one look shows all of it.

mod cost;
mod data;
mod findings;
mod flops;
mod memory;
mod model;
mod plan;
mod print;
mod proof;
mod published;
mod report;
mod services;
mod sets;
mod start;
mod time;
mod trial;
mod units;
mod volumes;

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use evenkeel_config::{Loaded, human};
use evenkeel_data::Purpose;
use evenkeel_host::{Size, check_writable};
use evenkeel_learner::RunFolders;
use evenkeel_orchestrator::{Descriptions, TrialRows};
use evenkeel_proto::FieldError;
use evenkeel_proto::shown::with_causes;
use evenkeel_run::{RunManifest, has_finished_step};

use crate::named_model::Say;
use crate::preconditions;
use crate::recipe::{Recipe, notes_on, stem};
use findings::Findings;
use model::ModelFacts;
pub use plan::{Card, Plan, PlanRequest};
pub use report::DryRunReport;
use sets::DataFacts;
pub use time::{MeasuredTimes, RunTime};

/// Parts of a run that the caller of a dry run has started, or why they do not start.
#[derive(Debug)]
pub struct StartedParts {
    /// What environments that do not come with the program say of themselves.
    pub environments: Result<Descriptions>,
    /// Addresses of the workers that play environments. They are needed until the dry run ends.
    pub environment_workers: Vec<String>,
    /// Addresses of the custom verifiers that the run starts itself, by their names. They are needed until the dry run
    /// ends.
    pub verifiers: BTreeMap<String, Result<Vec<String>>>,
}

/// Looks at everything that a run of these recipes in the directory `out` needs, and collects what is wrong. `say` is
/// told how far the download of a model is.
///
/// # Errors
/// Recipes that cannot be read, and settings that cannot be written down.
pub async fn dry_run(
    loaded: &Loaded<Recipe>,
    recipes: &[String],
    out: Option<&Path>,
    started: &StartedParts,
    say: Say,
) -> Result<DryRunReport> {
    let mut findings = Findings::default();
    let mut recipe = loaded.settings.clone();
    let unavailable = recipe.model.pin(say).err();
    let recipe = &recipe;
    let resolved = recipe.resolved_for_this_process()?;
    for missing in preconditions::unnamed_model_and_data(loaded) {
        // Nothing else is meant by the model and the data that there would be.
        findings.data_problem(missing);
    }
    for note in notes_on(recipes, loaded)? {
        findings.note(note);
    }
    if let Some(out) = out {
        check_directory(out, &mut findings);
    }
    check_place(out, &mut findings);
    for note in &resolved.notes {
        findings.note(note);
    }
    findings.note(proof::foreseen(recipe));
    if let Some(note) = recipe.run.rollouts_note(&recipe.sampling) {
        findings.note(note);
    }
    let undescribed = Descriptions::default();
    let described = started.environments.as_ref().unwrap_or(&undescribed);
    // Why environments do not start is reported below, once.
    let mut without_environments = recipe.clone();
    (without_environments.data.environment, without_environments.data.environments) = (None, Vec::new());
    let readable = if started.environments.is_ok() { recipe } else { &without_environments };
    let model = match unavailable {
        None => model::look(readable, described, say, &mut findings),
        Some(error) => {
            findings.problem(with_causes(error.as_ref()));
            ModelFacts::unavailable(recipe)
        }
    };
    let data =
        if findings.is_data_incomplete { DataFacts::default() } else { data::look(recipe, &model, &mut findings) };
    let checked = match &started.environments {
        Ok(described) => start::look(recipe, &resolved, &model, described, &mut findings),
        Err(error) => {
            findings.problem(with_causes(error.as_ref()));
            None
        }
    };
    note_doubts(recipe, &model, &data, &mut findings);
    let costs = model.config.as_ref().map(|config| cost::of_run(recipe, config, &data));
    let memory = model.config.as_ref().map(|config| memory::of_run(recipe, config, &data));
    if let Some(memory) = &memory {
        memory::check(recipe, memory, &mut findings);
    }
    if let Some(config) = &model.config {
        let run = out.unwrap_or(Path::new("runs"));
        let [checkpoints, weights] = ["checkpoints", "weights"].map(|folder| run.join(folder));
        let folders = RunFolders { checkpoints: &checkpoints, weights: &weights, run };
        let missing = cost::disk(recipe, config).missing(folders);
        missing.into_iter().for_each(|sentence| findings.problem(format!("--out: {sentence}")));
    }
    if let Some(bytes) = model.config.as_ref().and_then(|config| cost::written_out_head(recipe, config)) {
        findings.note(format!(
            "the output head of the model is tied to its embedding: vLLM needs the untied copy that `evenkeel model \
             untie` makes, and the head takes {} more in each published folder and in the memory of each engine",
            Size(bytes)
        ));
    }
    let needs = checked.as_ref().map(|(needs, _)| needs);
    let all_answer = services::look(recipe, &data, needs, started, &mut findings).await;
    // A model that cannot be used does not hide what is wrong with the user's own code.
    let rows = match checked {
        Some((_, rows)) => Some(rows),
        None => TrialRows::without_model(&resolved).ok(),
    };
    if let Some(rows) = &rows {
        trial::look(recipe, rows, started, all_answer, &mut findings).await;
    }
    Ok(DryRunReport {
        recipe: stem(recipes),
        aggregation: recipe.learner.objective.aggregation.to_string(),
        can_start: findings.problems.is_empty(),
        steps: recipe.run.steps,
        prompts_per_step: recipe.sampling.prompts_per_step,
        group_size: recipe.sampling.group_size,
        model,
        data,
        costs,
        memory,
        time: RunTime::unknown("it was not measured"),
        findings,
    })
}

/// What a run would say at its start, and what a preemption costs.
fn note_doubts(recipe: &Recipe, model: &ModelFacts, data: &DataFacts, findings: &mut Findings) {
    let per_step = u64::from(recipe.sampling.prompts_per_step);
    let kept = &recipe.checkpoint;
    let training = data.sets.iter().filter(|set| set.part == Purpose::Training);
    let problems: u64 = training.map(|set| set.prompts).sum();
    if (1..per_step).contains(&problems) {
        findings.note(format!(
            "{problems} problems for {per_step} prompts a step: a step asks the same problem several times"
        ));
    }
    let unread = model.encoder.iter().flat_map(|encoder| encoder.plain().unread_arguments());
    unread.for_each(|note| findings.note(note));
    let grace = human(kept.grace);
    let every = kept.every;
    findings.note(format!(
        "a preemption (SIGTERM or SIGHUP) loses at most the step in progress, which is abandoned if it is not trained \
         after three quarters of checkpoint.grace = {grace}. A kill without notice, or a checkpoint that takes longer \
         than the rest, loses up to {every} steps (checkpoint.every)"
    ));
}

/// A run needs a directory of its own, or that of one which has finished no step.
fn check_directory(out: &Path, findings: &mut Findings) {
    let is = match RunManifest::read(out) {
        Ok(Some(_)) if matches!(has_finished_step(out), Ok(false)) => return,
        Err(_) if !out.is_dir() => return,
        Ok(Some(_)) | Err(_) => "the directory of a run",
        Ok(None) if std::fs::read_dir(out).is_ok_and(|mut entries| entries.next().is_some()) => "not empty",
        Ok(None) => return,
    };
    findings.problem(FieldError::new(format!("--out {}", out.display()), is, "an empty or a new directory"));
}

/// Reports an output directory that cannot be written. Without `--out`, the run's directory is in `runs`.
fn check_place(out: Option<&Path>, findings: &mut Findings) {
    let place = out.unwrap_or(Path::new("runs"));
    if let Err((in_the_way, error)) = check_writable(place) {
        let value = format!("a place that cannot be written ({}: {error})", in_the_way.display());
        let field = out.map_or_else(|| "--out, by default runs".to_owned(), |out| format!("--out {}", out.display()));
        findings.problem(FieldError::new(field, value, "a directory that this process can make and write"));
    }
}
