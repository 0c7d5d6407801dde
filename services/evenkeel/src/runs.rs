//! `evenkeel runs`: the runs of a folder, each in a line.
#![expect(clippy::print_stdout, reason = "this is the terminal")]

use std::process::ExitCode;

use anyhow::{Result, bail};
use evenkeel_orchestrator::{RunOverview, SkippedDirectory, overviews};

use crate::arguments::RunsOptions;
use crate::columns::{aligned, percent};
use crate::show::escaped;
use crate::terminal::note;

pub(crate) fn list(options: &RunsOptions) -> Result<ExitCode> {
    let folder = &options.folder;
    if folder.join("run.json").exists() {
        bail!("{} is a run, allowed: a folder of runs, such as the one that it is in", folder.display());
    }
    let (runs, skipped) = overviews(folder)?;
    for SkippedDirectory { name, reason } in &skipped {
        note(&format!("passed over: {}: {}", escaped(name), escaped(reason)));
    }
    if runs.is_empty() {
        note(&format!("{} has no run", folder.display()));
        return Ok(ExitCode::SUCCESS);
    }
    print!("{}", table(&runs));
    Ok(ExitCode::SUCCESS)
}

fn table(runs: &[RunOverview]) -> String {
    let header = ["run", "state", "steps", "reward", "accuracy", "rule"].map(str::to_owned).to_vec();
    let row = |run: &RunOverview| {
        let unknown = || "–".to_owned();
        vec![
            escaped(&run.name),
            run.state().to_owned(),
            format!("{}/{}", run.steps, run.total_steps()),
            run.reward().map_or_else(unknown, |reward| format!("{reward:.3}")),
            run.accuracy().map_or_else(unknown, |accuracy| format!("{} %", percent(accuracy, None))),
            run.aggregation().map_or_else(unknown, |rule| escaped(&rule)),
        ]
    };
    aligned(&std::iter::once(header).chain(runs.iter().map(row)).collect::<Vec<_>>())
}
