//! `evenkeel train --from RUN@N`: a new run that starts from a checkpoint of another one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use evenkeel_config::ConfigError;
use evenkeel_learner::checkpoints_of;
use evenkeel_orchestrator::{ForkPoint, ResolvedRecipe, RunDirectory, RunRecord};
use evenkeel_proto::FieldError;
use toml::{Table, Value};

use crate::recipe::{self, Recipe};
use crate::train::free_directory;

/// The step of another run, as the command line names it.
struct Origin {
    directory: PathBuf,
    /// Absent: its newest checkpoint.
    step: Option<u64>,
}

impl Origin {
    /// Reads `DIR` or `DIR@N`.
    fn parse(text: &str) -> Result<Self, FieldError> {
        let Some((directory, step)) = text.rsplit_once('@') else {
            return Ok(Self { directory: text.into(), step: None });
        };
        match step.parse() {
            Ok(step) => Ok(Self { directory: directory.into(), step: Some(step) }),
            // A folder may have such a name.
            Err(_) if Path::new(text).exists() => Ok(Self { directory: text.into(), step: None }),
            Err(_) => Err(FieldError::new("--from", format_args!("`{text}`"), "DIR or DIR@N, with a number of steps")),
        }
    }
}

/// Creates the directory of the new run, with the other run's lines and its checkpoint.
pub(crate) fn open(from: &str, out: Option<&Path>, set: &[String]) -> Result<(Recipe, ResolvedRecipe, RunDirectory)> {
    let Origin { directory, step } = Origin::parse(from)?;
    let RunRecord { path, run_id, .. } = RunRecord::read(&directory).context("--from")?;
    let (step, checkpoint) = choose(&path, &run_id, step)?;

    let theirs = recipe::finish(RunDirectory::settings_of(&path)?, &[])?.settings;
    // The other run's name is not this one's.
    let unnamed = RunDirectory::settings_of(&path)?.text("--from", "[run]\nname = \"\"")?;
    let ours = recipe::finish(unnamed, set)?.settings;
    refuse_another_reference(&theirs, &ours)?;
    let changed = changes(&theirs, &ours)?;
    let mut resolved = ours.resolved()?;
    resolved.notes.extend(notes(&run_id, step, &changed, &theirs, &ours));

    let out = match out {
        Some(out) => out.to_owned(),
        None => free_directory(path.parent().unwrap_or(&path), &format!("{run_id}-from-{step}"))?,
    };
    let origin = ForkPoint { run_id: run_id.clone(), step, directory: path, changed };
    let directory = RunDirectory::fork(&out, &resolved, origin)?;
    let target = directory.checkpoints().join(&run_id).join(checkpoint.file_name().unwrap_or_default());
    link(&checkpoint, &target).with_context(|| format!("the checkpoint {}", checkpoint.display()))?;
    Ok((ours, resolved, directory))
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
            let allowed = match exist.is_empty() {
                true => "a run with a checkpoint".to_owned(),
                false => format!(
                    "a step with a checkpoint: {} (checkpoint.keep says how many a run keeps)",
                    exist.join(", ")
                ),
            };
            let value = format_args!("{}, which has no checkpoint{named}", directory.display()).to_string();
            Err(FieldError::new("--from", value, allowed).into())
        }
    }
}

/// The fresh model is also what a KL term refers to: with another seed it would be another one.
fn refuse_another_reference(theirs: &Recipe, ours: &Recipe) -> Result<(), FieldError> {
    let is_fresh = ours.model.path.is_none() && ours.learner.objective.kl_coefficient != 0.0;
    if is_fresh && theirs.run.seed != ours.run.seed {
        let allowed =
            format!("{} with learner.objective.kl_coefficient, whose reference is the fresh model", theirs.run.seed);
        return Err(FieldError::new("run.seed", ours.run.seed, allowed));
    }
    Ok(())
}

/// What a person should know at the start.
fn notes(run_id: &str, step: u64, changed: &[String], theirs: &Recipe, ours: &Recipe) -> Vec<String> {
    let settings = match changed.is_empty() {
        true => "with the same settings".to_owned(),
        false => format!("with other settings: {}", changed.join("; ")),
    };
    let mut notes = vec![format!("forked from run `{run_id}` after step {step}, {settings}")];
    let held_out = |recipe: &Recipe| (recipe.run.seed, recipe.data.clone(), recipe.evaluation.problems);
    if ours.evaluation.problems > 0 && held_out(theirs) != held_out(ours) {
        notes.push(format!(
            "the data, run.seed or evaluation.problems changed: run `{run_id}` may have trained on problems that are held out now"
        ));
    }
    notes
}

/// The settings that differ, as `section.key: theirs → ours`.
fn changes(theirs: &Recipe, ours: &Recipe) -> Result<Vec<String>> {
    let flat = |recipe: &Recipe| {
        let table = Table::try_from(recipe).map_err(|error| ConfigError::Write(error.to_string()))?;
        let mut values = BTreeMap::new();
        flatten(&mut values, "", &table);
        values.remove("run.name");
        Ok::<_, ConfigError>(values)
    };
    let (theirs, ours) = (flat(theirs)?, flat(ours)?);
    let mut keys: Vec<&String> = theirs.keys().chain(ours.keys()).collect();
    keys.sort_unstable();
    keys.dedup();
    let shown = |value: Option<&String>| value.map_or_else(|| "absent".to_owned(), String::clone);
    let changed = keys.into_iter().map(|key| (key, theirs.get(key), ours.get(key)));
    let changed = changed.filter(|(_, theirs, ours)| theirs != ours);
    Ok(changed.map(|(key, theirs, ours)| format!("{key}: {} → {}", shown(theirs), shown(ours))).collect())
}

/// All values of a table with their whole keys.
fn flatten(values: &mut BTreeMap<String, String>, prefix: &str, table: &Table) {
    for (key, value) in table {
        let key = format!("{prefix}{key}");
        match value {
            Value::Table(inner) => flatten(values, &format!("{key}."), inner),
            value => {
                values.insert(key, value.to_string());
            }
        }
    }
}

/// Copies a folder of files. Where the file system allows both share the bytes: files of a checkpoint are never changed in place.
fn link(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
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
        let parsed =
            |text: &str| Origin::parse(text).map(|origin| (origin.directory.display().to_string(), origin.step));
        assert_eq!(parsed("runs/a@40"), Ok(("runs/a".to_owned(), Some(40))));
        assert_eq!(parsed("runs/a"), Ok(("runs/a".to_owned(), None)));
        let error = parsed("runs/a@last").unwrap_err().to_string();
        assert!(error.contains("--from is `runs/a@last`, allowed: DIR or DIR@N"), "{error}");
    }

    #[test]
    fn changes_are_named_with_both_values() {
        let mut ours = Recipe::default();
        ours.run.name = "other".to_owned();
        assert_eq!(changes(&Recipe::default(), &ours).unwrap(), Vec::<String>::new());
        ours.sampling.top_k = 3;
        ours.model.path = Some("x".into());
        assert_eq!(
            changes(&Recipe::default(), &ours).unwrap(),
            ["model.path: absent → \"x\"", "sampling.top_k: 0 → 3"]
        );
    }
}
