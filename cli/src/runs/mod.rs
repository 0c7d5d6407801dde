//! `evenkeel runs`: the runs of a folder, each in a line; or their removal.

mod prune;

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use evenkeel_data::read::printable;
use evenkeel_host::Size;
use evenkeel_proto::FieldError;
use evenkeel_proto::Label;
use evenkeel_run::RUN_FILE;
use evenkeel_run_report::{RunOverview, SkippedDirectory, overviews};

use crate::arguments::RunsOptions;
use crate::columns::aligned;
use crate::terminal::{note, print_result};

pub(crate) fn list(options: &RunsOptions) -> Result<ExitCode> {
    let folder = &options.folder;
    if folder.join(RUN_FILE).exists() {
        let allowed = "a folder of runs, such as the one that it is in";
        return Err(FieldError::new(folder.display().to_string(), "a run", allowed).into());
    }
    if !folder.exists() {
        let found = format!("{}, which does not exist", folder.display());
        return Err(FieldError::new("DIR", found, "a folder with the directories of runs").into());
    }
    let (runs, skipped) = overviews(folder)?;
    for SkippedDirectory { name, reason } in &skipped {
        note(&format!("skipped: {}: {}", printable(name), printable(reason)));
    }
    if let Some(names) = &options.prune {
        return prune::prune(options, names, &runs);
    }
    if runs.is_empty() {
        note(&format!("{} has no run", folder.display()));
        return Ok(ExitCode::SUCCESS);
    }
    print_result(&table(&runs))?;
    Ok(ExitCode::SUCCESS)
}

/// Names the argument where there is no such directory.
///
/// # Errors
/// It does not exist.
pub(crate) fn require_run(path: &Path) -> Result<(), FieldError> {
    if path.exists() {
        Ok(())
    } else {
        let found = format!("{}, which does not exist", path.display());
        Err(FieldError::new("RUN", found, "the directory of a run (evenkeel runs lists them)"))
    }
}

fn table(runs: &[RunOverview]) -> String {
    let header = ["run", "state", "steps", "reward", "accuracy", "size", "rule"].map(str::to_owned).to_vec();
    let row = |run: &RunOverview| {
        let unknown = || "–".to_owned();
        vec![
            printable(&run.name),
            run.state.label().to_owned(),
            format!("{}/{}", run.steps, run.total_steps),
            run.reward().map_or_else(unknown, |reward| format!("{reward:.3}")),
            run.evaluated_in_words().unwrap_or_else(unknown),
            Size(prune::size_of(&run.path)).to_string(),
            run.aggregation.as_ref().map_or_else(unknown, printable),
        ]
    };
    aligned(&std::iter::once(header).chain(runs.iter().map(row)).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_does_not_exist_is_named() {
        let options = RunsOptions { folder: "/nowhere/runs".into(), prune: None, yes: false };
        let error = list(&options).unwrap_err().to_string();
        assert_eq!(error, "DIR is /nowhere/runs, which does not exist, allowed: a folder with the directories of runs");
    }
}
