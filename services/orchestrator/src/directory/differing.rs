//! Settings with which a run cannot be resumed, by name.

use std::path::Path;

use super::{CONFIG_FILE, flat_settings};
use crate::error::RunError;
use crate::inputs::{InputRecord, Rules, differences, names_files};
use crate::recipe::ResolvedRecipe;

/// Where a value comes from that nobody wrote.
const DEFAULTS: &str = "defaults";

/// What may be another in a run that is resumed.
const ALLOWED: &str = "run.steps, evaluation (but problems and files), checkpoint, proof, services, and of engine, generation and reward what \
                       affects no result (addresses, threads, queues, time-outs); start another run from it with --from to change others";

/// Refuses a recipe of another identity than that of the run, unless only the places of files differ.
pub(super) fn refuse_other_settings(
    path: &Path,
    run_id: &str,
    begun_with: &InputRecord,
    recipe: &ResolvedRecipe,
) -> Result<(), RunError> {
    let is_recorded = !begun_with.settings.is_empty();
    let theirs = if is_recorded { begun_with.settings.clone() } else { of_config(path)? };
    let ours = if is_recorded { recipe.rules.clone() } else { flat(&recipe.toml)? };
    let all = differences(&theirs, &ours);
    let changed: Vec<_> = all.iter().filter(|(key, ..)| !(is_recorded && names_files(key))).collect();
    if changed.is_empty() && !all.is_empty() {
        return Ok(());
    }
    let origin = |key: &str| recipe.origins.get(key).map(String::as_str);
    // Some follow from others, which somebody wrote.
    let is_written = |key: &str| origin(key).is_some_and(|origin| origin != DEFAULTS);
    let any_is_written = changed.iter().any(|(key, ..)| is_written(key));
    let shown = changed.iter().filter(|(key, ..)| !any_is_written || is_written(key)).map(|(key, theirs, ours)| {
        let value = |value: Option<&String>| value.map_or("absent", String::as_str).to_owned();
        let from = origin(key).map_or_else(String::new, |origin| format!(" in {origin}"));
        format!("`{key}` is {}{from}, the run has {}", value(*ours), value(*theirs))
    });
    let shown = shown.collect::<Vec<_>>().join("; ");
    let settings =
        if shown.is_empty() { "with other settings".to_owned() } else { format!("with other settings: {shown}") };
    Err(RunError::directory(path, format!("holds run `{run_id}` {settings}. Allowed to change: {ALLOWED}")))
}

/// Those of a run of an earlier version of the program, which kept no others.
fn of_config(path: &Path) -> Result<Rules, RunError> {
    let path = path.join(CONFIG_FILE);
    let text = evenkeel_files::read(&path, u64::MAX).map_err(|error| RunError::file(&path)(error.into()))?;
    flat(&String::from_utf8_lossy(&text))
}

fn flat(toml: &str) -> Result<Rules, RunError> {
    let table = toml.parse().map_err(|error: toml::de::Error| RunError::Defect(error.to_string()))?;
    let mut settings = flat_settings(&table);
    settings.remove("run.name");
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::RunDirectory;
    use super::super::tests::resolved;
    use super::*;
    use crate::inputs::INPUTS_FILE;

    /// A run, with or without a record of its settings.
    fn run(folder: &Path, is_recorded: bool) -> std::path::PathBuf {
        let recipe = resolved(|settings| settings.data.files = vec!["/data/a.jsonl".into()]);
        let directory = RunDirectory::create(&folder.join("run"), &recipe).unwrap();
        if is_recorded {
            directory.replace_json(INPUTS_FILE, &InputRecord::new(recipe.rules.clone(), Vec::new())).unwrap();
        }
        directory.start_run().unwrap();
        directory.path().to_owned()
    }

    #[test]
    fn a_setting_that_may_not_change_is_named_with_both_values_and_its_origin() {
        let dir = tempfile::tempdir().unwrap();
        let path = run(dir.path(), true);
        let mut other = resolved(|settings| {
            settings.data.files = vec!["/data/a.jsonl".into()];
            (settings.sampling.group_size, settings.sampling.top_k, settings.run.steps) = (9, 4, 7);
        });
        let refused = |recipe: &ResolvedRecipe| RunDirectory::resume(&path, recipe).unwrap_err().to_string();
        let error = refused(&other);
        assert!(
            error.contains("with other settings: `sampling.group_size` is 9, the run has 16; `sampling.top_k` is 4"),
            "{error}"
        );
        other.origins = BTreeMap::from([
            ("sampling.group_size".to_owned(), "EVENKEEL__SAMPLING__GROUP_SIZE".to_owned()),
            ("sampling.top_k".to_owned(), DEFAULTS.to_owned()),
        ]);
        let error = refused(&other);
        assert!(
            error.contains("`sampling.group_size` is 9 in EVENKEEL__SAMPLING__GROUP_SIZE, the run has 16. Allowed to change: run.steps"),
            "{error}"
        );
        assert!(!error.contains("top_k"), "it follows from another one: {error}");
    }

    #[test]
    fn where_the_files_are_may_change_and_of_a_run_without_a_record_it_may_not() {
        let moved = resolved(|settings| settings.data.files = vec!["/elsewhere/a.jsonl".into()]);
        let dir = tempfile::tempdir().unwrap();
        let path = run(dir.path(), true);
        RunDirectory::resume(&path, &moved).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let path = run(dir.path(), false);
        let error = RunDirectory::resume(&path, &moved).unwrap_err().to_string();
        assert!(error.contains("`data.files` is [\"/elsewhere/a.jsonl\"], the run has [\"/data/a.jsonl\"]"), "{error}");
    }
}
