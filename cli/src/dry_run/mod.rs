//! `evenkeel train --dry-run`: whether a run can start, what is missing if not, and what it will cost.
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
mod units;

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use evenkeel_config::{Loaded, human};
use evenkeel_host::{Size, check_writable};
use evenkeel_run::RunDirectory;

use crate::cluster::Environments;
use crate::preconditions;
use crate::recipe::Recipe;
use evenkeel_data::Purpose;
use evenkeel_proto::FieldError;
use findings::Findings;
use model::ModelFacts;
pub(crate) use plan::plan;
use report::Report;
use sets::DataFacts;

/// Looks at everything that a run needs. The exit code is a failure if the run cannot start.
pub(crate) async fn dry_run(
    loaded: &Loaded<Recipe>,
    recipes: &[String],
    out: Option<&Path>,
    json: bool,
) -> Result<ExitCode> {
    let mut findings = Findings::default();
    let (mut recipe, name) = (loaded.settings.clone(), &crate::recipe::stem(recipes));
    let unavailable = recipe.model.pin().err();
    let recipe = &recipe;
    let resolved = recipe.resolved_for_this_process()?;
    if let Err(missing) = preconditions::names_model_and_data(loaded) {
        findings.problem(missing);
    }
    for note in crate::recipe::without_effect(recipes)? {
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
    let environments = Environments::start(recipe).await;
    let described = environments.as_ref().map(|started| started.described.clone()).unwrap_or_default();
    let model = match unavailable {
        None => model::look(recipe, &described, &mut findings),
        Some(error) => {
            findings.problem(crate::terminal::in_words(&error));
            ModelFacts::unavailable(recipe)
        }
    };
    let data = data::look(recipe, &model, &mut findings);
    let needs = match environments {
        Ok(_started) => start::look(recipe, &resolved, &model, &described, &mut findings),
        Err(error) => {
            findings.problem(crate::terminal::in_words(&error));
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
        let missing = cost::disk(recipe, config).missing(&run.join("checkpoints"), &run.join("weights"));
        missing.into_iter().for_each(|sentence| findings.problem(format!("--out: {sentence}")));
    }
    if let Some(bytes) = model.config.as_ref().and_then(|config| cost::written_out_head(recipe, config)) {
        findings.note(format!(
            "the head of the model is its embedding: for vLLM, which is started on a copy by `evenkeel model untie`, \
             it is written out and takes {} more in each published folder and in the memory of each engine",
            Size(bytes)
        ));
    }
    services::look(recipe, &data, needs.as_ref(), &mut findings).await;
    let report = Report::new(recipe, name, model, data, costs, memory, findings);
    print::print(&report, json)?;
    Ok(if report.can_start { ExitCode::SUCCESS } else { ExitCode::FAILURE })
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
        "a preemption (SIGTERM or SIGHUP) costs at most the step in progress: what is not trained after three quarters \
         of checkpoint.grace = {grace} is given up. If it is killed without notice, or the checkpoint takes longer \
         than the rest, up to {every} steps (checkpoint.every)"
    ));
}

/// A run needs a directory of its own.
fn check_directory(out: &Path, findings: &mut Findings) {
    let is = if RunDirectory::settings_of(out).is_ok() {
        "the directory of a run"
    } else if std::fs::read_dir(out).is_ok_and(|mut entries| entries.next().is_some()) {
        "not empty"
    } else {
        return;
    };
    findings.problem(FieldError::new(format!("--out {}", out.display()), is, "an empty or a new directory"));
}

/// Its directory must be one that can be written; without `--out` it is in `runs`.
fn check_place(out: Option<&Path>, findings: &mut Findings) {
    let place = out.unwrap_or(Path::new("runs"));
    if let Err((in_the_way, error)) = check_writable(place) {
        let value = format!("a place that cannot be written ({}: {error})", in_the_way.display());
        let field = out.map_or_else(|| "--out, by default runs".to_owned(), |out| format!("--out {}", out.display()));
        findings.problem(FieldError::new(field, value, "a directory that this process can make and write"));
    }
}
