//! `evenkeel runs --prune`: removes runs, of which nothing is left.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use evenkeel_data::read::printable;
use evenkeel_host::Size;
use evenkeel_proto::FieldError;
use evenkeel_run::{Lock, is_locked};
use evenkeel_run_report::RunOverview;

use crate::arguments::RunsOptions;
use crate::terminal::{note, print_result};

/// Removes the runs that are named, or those that have done no step. Never one that a process writes to.
pub(super) fn prune(options: &RunsOptions, names: &[String], runs: &[RunOverview]) -> Result<ExitCode> {
    let chosen = chosen(names, runs)?;
    if chosen.is_empty() {
        note("nothing to remove: every run has done a step (give names to remove runs)");
        return Ok(ExitCode::SUCCESS);
    }
    for run in &chosen {
        let size = Size(size_of(&run.path));
        note(&format!("{}: {} of {} steps, {size}", printable(&run.name), run.steps, run.total_steps));
    }
    let count = chosen.len();
    let all = Size(chosen.iter().map(|run| size_of(&run.path)).sum::<u64>());
    let question = format!("remove {count} {}, {all}", if count == 1 { "run" } else { "runs" });
    if !options.yes && !confirmed(&question)? {
        note("nothing is removed");
        return Ok(ExitCode::FAILURE);
    }
    for run in &chosen {
        // Whoever would begin to write to it now finds it locked.
        let _lock = Lock::take(&run.path)?;
        std::fs::remove_dir_all(&run.path).with_context(|| run.path.display().to_string())?;
    }
    print_result(&format!("removed {count}, {all}\n"))?;
    Ok(ExitCode::SUCCESS)
}

/// The runs to remove.
fn chosen<'a>(names: &[String], runs: &'a [RunOverview]) -> Result<Vec<&'a RunOverview>, FieldError> {
    if names.is_empty() {
        return Ok(runs.iter().filter(|run| run.steps == 0 && !is_locked(&run.path)).collect());
    }
    let find = |name: &String| {
        let run = runs.iter().find(|run| run.name == *name);
        let known = || runs.iter().map(|run| run.name.as_str()).collect::<Vec<_>>().join(", ");
        let run = run.ok_or_else(|| FieldError::quoted("--prune", name, format!("one of {}", known())))?;
        if is_locked(&run.path) {
            Err(FieldError::new("--prune", format!("{name}, which is in progress"), "runs that nobody writes to"))
        } else {
            Ok(run)
        }
    };
    names.iter().map(find).collect()
}

/// Asks a person. Nobody is asked where standard input is no terminal.
fn confirmed(question: &str) -> Result<bool> {
    if !io::stdin().is_terminal() {
        return Err(
            FieldError::missing("--yes", "this flag, because standard input is not a terminal to ask on").into()
        );
    }
    note(&format!("{question}? [y/N]"));
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Bytes of all files below a folder; those that have several names there count once for each.
pub(super) fn size_of(folder: &Path) -> u64 {
    let mut folders = vec![PathBuf::from(folder)];
    let mut bytes = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            // Of the entry itself: a link leads elsewhere.
            match entry.metadata() {
                Ok(data) if data.is_dir() => folders.push(entry.path()),
                Ok(data) if data.is_file() => bytes += data.len(),
                _ => {}
            }
        }
    }
    bytes
}
