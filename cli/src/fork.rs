//! `evenkeel train --from RUN@N`: a new run that starts from a checkpoint of another one.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use evenkeel_learner::checkpoints_of;
use evenkeel_orchestrator::ResolvedRecipe;
use evenkeel_proto::FieldError;
use evenkeel_recipe::Recipe;
use evenkeel_run::{RunDirectory, RunRecord};

use crate::free_directory::free_directory;
use crate::terminal;

/// The step of another run, as the command line names it.
struct NamedCheckpoint {
    directory: PathBuf,
    /// Absent: its newest checkpoint.
    step: Option<u64>,
}

impl NamedCheckpoint {
    /// Reads `DIR` or `DIR@N`.
    fn parse(text: &str) -> Result<Self, FieldError> {
        let Some((directory, step)) = text.rsplit_once('@') else {
            return Ok(Self { directory: text.into(), step: None });
        };
        match step.parse() {
            Ok(step) => Ok(Self { directory: directory.into(), step: Some(step) }),
            // A folder may have such a name.
            Err(_) if Path::new(text).exists() => Ok(Self { directory: text.into(), step: None }),
            Err(_) => Err(FieldError::quoted("--from", text, "DIR or DIR@N, with a number of steps")),
        }
    }
}

/// Creates the directory of the new run, with the other run's lines and its checkpoint.
pub(crate) fn open(from: &str, out: Option<&Path>, set: &[String]) -> Result<(Recipe, ResolvedRecipe, RunDirectory)> {
    let NamedCheckpoint { directory, step } = NamedCheckpoint::parse(from)?;
    let RunRecord { path, run_id, .. } = RunRecord::read(&directory).context("--from")?;
    let (step, checkpoint) = choose(&path, &run_id, step)?;

    let origin = RunDirectory::settings_of(&path)?;
    let mut recipe = evenkeel_recipe::finish_fork(origin, RunDirectory::settings_for_fork(&path)?, set)?;
    if recipe.learner.rank_place().map_err(|error| error.within("learner"))?.is_some() {
        bail!("a fork cannot start with learner.ranks: fork without ranks, then resume with them");
    }
    recipe.model.pin(terminal::note)?;
    let resolved = recipe.resolved_for_this_process()?;
    let out = match out {
        Some(out) => out.to_owned(),
        None => free_directory(path.parent().unwrap_or(&path), &format!("{run_id}-from-{step}"))?,
    };
    let directory = RunDirectory::fork(&out, resolved.record(), &path, step)?;
    let target = directory.checkpoints().join(&run_id).join(checkpoint.file_name().unwrap_or_default());
    link(&checkpoint, &target).with_context(|| format!("the checkpoint {}", checkpoint.display()))?;
    Ok((recipe, resolved, directory))
}

/// The checkpoint of a step, or the newest one, with its step.
fn choose(directory: &Path, run_id: &str, step: Option<u64>) -> Result<(u64, PathBuf)> {
    let mut checkpoints = checkpoints_of(&directory.join("checkpoints"), run_id)?;
    let chosen = match step {
        Some(step) => checkpoints.remove_entry(&step),
        None => checkpoints.pop_last(),
    };
    match chosen {
        Some(chosen) => Ok(chosen),
        None => {
            let named = step.map_or_else(String::new, |step| format!(" after step {step}"));
            let exist: Vec<String> = checkpoints.keys().map(u64::to_string).collect();
            let allowed = if exist.is_empty() {
                "a run with a checkpoint".to_owned()
            } else {
                format!("a step with a checkpoint: {} (checkpoint.keep sets how many a run keeps)", exist.join(", "))
            };
            let value = format_args!("{}, which has no checkpoint{named}", directory.display()).to_string();
            Err(FieldError::new("--from", value, allowed).into())
        }
    }
}

/// Copies a folder of files. Where the file system allows both share the bytes: files of a checkpoint are never changed
/// in place.
fn link(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let from = entry.path();
        let to = to.join(entry.file_name());
        if std::fs::hard_link(&from, &to).is_err() {
            std::fs::copy(&from, &to)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_follows_the_directory() {
        let parsed = |text: &str| {
            NamedCheckpoint::parse(text).map(|origin| (origin.directory.display().to_string(), origin.step))
        };
        assert_eq!(parsed("runs/a@40"), Ok(("runs/a".to_owned(), Some(40))));
        assert_eq!(parsed("runs/a"), Ok(("runs/a".to_owned(), None)));
        let error = parsed("runs/a@last").unwrap_err().to_string();
        assert!(error.contains("--from is \"runs/a@last\", allowed: DIR or DIR@N"), "{error}");
    }
}
