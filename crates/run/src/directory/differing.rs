//! Settings with which a run cannot be resumed, by name.

use std::path::Path;

use super::RecipeRecord;
use crate::error::RunFilesError;
use crate::inputs::{InputRecord, differences, names_files};

/// Where a value comes from that nobody wrote.
const DEFAULTS: &str = "defaults";

/// What may be another in a run that is resumed.
const ALLOWED: &str = "run.steps, evaluation (but problems and files), checkpoint, proof, sampler_audit, services, and \
                       of engine, generation, learner and reward what affects no result (addresses, threads, memory, \
                       queues, time-outs); start another run from it with --from to change others";

/// Refuses a recipe of another identity than that of the run, unless only the places of files differ.
pub(super) fn refuse_other_settings(
    path: &Path,
    run_id: &str,
    begun_with: &InputRecord,
    recipe: RecipeRecord<'_>,
) -> Result<(), RunFilesError> {
    let all = differences(&begun_with.settings, recipe.rules);
    let changed: Vec<_> = all.iter().filter(|(key, ..)| !names_files(key)).collect();
    if changed.is_empty() && !all.is_empty() {
        return Ok(());
    }
    let origin = |key: &str| recipe.origins.get(key).map(String::as_str);
    // Some follow from others, which the user wrote.
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
    Err(RunFilesError::directory(path, format!("holds run `{run_id}` {settings}. Allowed to change: {ALLOWED}")))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::RunDirectory;
    use super::super::test_recipe::{TestRecipe, begin_with};
    use super::*;

    /// A run of one data file.
    fn run(folder: &Path) -> PathBuf {
        let recipe = TestRecipe::new(&[("data.files", "[\"/data/a.jsonl\"]")]);
        let directory = RunDirectory::create(&folder.join("run"), recipe.record()).unwrap();
        begin_with(&directory, &InputRecord::new(recipe.rules.clone(), Vec::new()));
        directory.path().to_owned()
    }

    #[test]
    fn a_setting_that_may_not_change_is_named_with_both_values_and_its_origin() {
        let dir = tempfile::tempdir().unwrap();
        let path = run(dir.path());
        let mut other = TestRecipe::new(&[
            ("data.files", "[\"/data/a.jsonl\"]"),
            ("sampling.group_size", "9"),
            ("sampling.top_k", "4"),
            ("run.steps", "7"),
        ]);
        let refused = |recipe: &TestRecipe| RunDirectory::resume(&path, recipe.record()).unwrap_err().to_string();
        let error = refused(&other);
        assert!(
            error.contains("with other settings: `sampling.group_size` is 9, the run has 16; `sampling.top_k` is 4"),
            "{error}"
        );
        other.origins = [
            ("sampling.group_size".to_owned(), "EVENKEEL__SAMPLING__GROUP_SIZE".to_owned()),
            ("sampling.top_k".to_owned(), DEFAULTS.to_owned()),
        ]
        .into();
        let error = refused(&other);
        assert!(
            error.contains(
                "`sampling.group_size` is 9 in EVENKEEL__SAMPLING__GROUP_SIZE, the run has 16. Allowed to \
                change: run.steps"
            ),
            "{error}"
        );
        assert!(!error.contains("top_k"), "it follows from another one: {error}");
    }

    #[test]
    fn where_the_files_are_may_change() {
        let dir = tempfile::tempdir().unwrap();
        let moved = TestRecipe::new(&[("data.files", "[\"/elsewhere/a.jsonl\"]")]);
        RunDirectory::resume(&run(dir.path()), moved.record()).unwrap();
    }
}
