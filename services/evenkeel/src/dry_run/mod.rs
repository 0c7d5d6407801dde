//! `evenkeel train --dry-run`: whether a run can start, what is missing if not, and what it will cost.
//!
//! Nothing is written and no service is started. Whatever is wrong is collected, so that one look shows all of it.

mod cost;
mod data;
mod findings;
mod flops;
mod memory;
mod model;
mod print;
mod published;
mod report;
mod services;
mod sets;
mod units;

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use evenkeel_orchestrator::RunDirectory;

use crate::recipe::Recipe;
use evenkeel_proto::FieldError;
use findings::Findings;
use report::Report;

/// Looks at everything that a run needs. The exit code is a failure if the run cannot start.
pub(crate) async fn dry_run(recipe: &Recipe, name: &str, out: Option<&Path>, json: bool) -> Result<ExitCode> {
    let mut findings = Findings::default();
    if let Some(out) = out {
        check_directory(out, &mut findings);
    }
    for note in recipe.notes() {
        findings.note(note);
    }
    let model = model::look(recipe, &mut findings);
    let data = data::look(recipe, &model, &mut findings);
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
    services::look(recipe, &data, &mut findings).await;
    let report = Report::new(recipe, name, model, data, costs, memory, findings);
    print::print(&report, json)?;
    Ok(if report.can_start { ExitCode::SUCCESS } else { ExitCode::FAILURE })
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
