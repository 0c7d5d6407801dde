//! Directories whose files are not all of one run: those of another were copied over them, or a folder leads elsewhere.

use std::path::{Path, PathBuf};

use super::{RecipeRecord, RunManifest};
use crate::error::RunFilesError;
use crate::inputs::{InputRecord, differences, names_files};
use crate::layout::{
    CHECKPOINTS_FOLDER, EVALUATION_FOLDER, INPUTS_FILE, ROLLOUTS_FOLDER, RUN_FILE, TENSORBOARD_FOLDER, WEIGHTS_FOLDER,
};

/// The folders of a run.
const FOLDERS: [&str; 5] = [CHECKPOINTS_FOLDER, WEIGHTS_FOLDER, ROLLOUTS_FOLDER, EVALUATION_FOLDER, TENSORBOARD_FOLDER];

/// How far below a folder of a run links are looked for: `checkpoints` has a folder for each run, and in it one for each
/// checkpoint; `weights` has one for each version. A fork has no links in them, it shares files by hard links at most.
const DEPTHS: [(&str, u32); 2] = [(CHECKPOINTS_FOLDER, 2), (WEIGHTS_FOLDER, 1)];

/// Refuses a directory whose record of inputs has other settings than its recipe, which has the checkpoints of another
/// run only, or of which a folder is a link.
pub(super) fn refuse_mixed(
    path: &Path,
    manifest: &RunManifest,
    begun_with: &InputRecord,
    recipe: &RecipeRecord<'_>,
) -> Result<(), RunFilesError> {
    let refused = |why: String| Err(RunFilesError::directory(path, why));
    let linked = |name: &&str| path.join(name).symlink_metadata().is_ok_and(|found| found.is_symlink());
    let link = FOLDERS.into_iter().find(linked).map(|name| path.join(name));
    if let Some(link) = link.or_else(|| DEPTHS.iter().find_map(|(name, depth)| link_below(&path.join(name), *depth))) {
        let name = link.strip_prefix(path).unwrap_or(&link).display();
        return refused(format!("has `{name}` as a link, allowed: a folder (move the whole run instead)"));
    }
    // Both have the settings alone that no resumed run may change.
    let differing = differences(&begun_with.settings, recipe.rules);
    if let Some((key, theirs, ours)) = differing.into_iter().find(|(key, ..)| !names_files(key)) {
        let value = |value: Option<&String>| value.map_or("absent", String::as_str).to_owned();
        let (theirs, ours) = (value(theirs), value(ours));
        return refused(format!(
            "has files of two runs: `{key}` is {theirs} in {INPUTS_FILE}, and {ours} in the settings, which {RUN_FILE} \
             agrees with"
        ));
    }
    let checkpoints = path.join(CHECKPOINTS_FOLDER);
    let Ok(entries) = std::fs::read_dir(&checkpoints) else { return Ok(()) };
    let names: Vec<String> = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    // A fork begins with a checkpoint of its origin.
    let origin = manifest.forked_from.as_ref().map(|origin| &origin.run_id);
    let is_own = |name: &String| *name == manifest.run_id || Some(name) == origin;
    match names.first() {
        Some(other) if !names.iter().any(is_own) => refused(format!(
            "has files of two runs: {RUN_FILE} is that of `{}`, and {CHECKPOINTS_FOLDER} are those of `{other}`",
            manifest.run_id
        )),
        _ => Ok(()),
    }
}

/// A link among what a folder has, down to that depth.
fn link_below(folder: &Path, depth: u32) -> Option<PathBuf> {
    let entries = std::fs::read_dir(folder).ok()?.flatten();
    let mut kinds = entries.filter_map(|entry| Some((entry.path(), entry.file_type().ok()?)));
    kinds.find_map(|(path, kind)| {
        if kind.is_symlink() {
            Some(path)
        } else if kind.is_dir() && depth > 1 {
            link_below(&path, depth - 1)
        } else {
            None
        }
    })
}

#[cfg(test)]
mod tests {
    use super::super::RunDirectory;
    use super::super::test_recipe::{TestRecipe, begin_with};
    use super::*;

    /// A run with a checkpoint.
    fn run(folder: &Path, name: &str, recipe: &TestRecipe) -> PathBuf {
        let directory = RunDirectory::create(&folder.join(name), recipe.record()).unwrap();
        begin_with(&directory, &InputRecord::new(recipe.rules.clone(), Vec::new()));
        std::fs::create_dir_all(directory.checkpoints().join(name)).unwrap();
        directory.path().to_owned()
    }

    fn refused(path: &Path, recipe: &TestRecipe) -> String {
        RunDirectory::resume(path, recipe.record()).unwrap_err().to_string()
    }

    #[test]
    fn the_manifest_and_settings_of_another_run_are_not_resumed() {
        let dir = tempfile::tempdir().unwrap();
        let recipe = TestRecipe::new(&[]);
        let path = run(dir.path(), "a", &recipe);
        assert!(RunDirectory::resume(&path, recipe.record()).is_ok());
        let rate = TestRecipe::new(&[("learner.optimizer.learning_rate", "0.5")]);
        std::fs::copy(run(dir.path(), "c", &rate).join(RUN_FILE), path.join(RUN_FILE)).unwrap();
        let error = refused(&path, &rate);
        assert!(error.contains("`learner.optimizer.learning_rate` is absent in inputs.json, and 0.5 in"), "{error}");
        let other = TestRecipe::new(&[("sampling.top_k", "4")]);
        let theirs = run(dir.path(), "b", &other);
        std::fs::copy(theirs.join(RUN_FILE), path.join(RUN_FILE)).unwrap();
        let error = refused(&path, &other);
        assert!(error.contains("`sampling.top_k` is 0 in inputs.json, and 4 in the settings"), "{error}");
        std::fs::copy(theirs.join(INPUTS_FILE), path.join(INPUTS_FILE)).unwrap();
        let error = refused(&path, &other);
        assert!(error.contains("run.json is that of `b`, and checkpoints are those of `a`"), "{error}");
    }

    #[test]
    fn a_folder_that_leads_out_of_the_run_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let recipe = TestRecipe::new(&[]);
        let path = run(dir.path(), "a", &recipe);
        std::fs::rename(path.join(CHECKPOINTS_FOLDER), dir.path().join("elsewhere")).unwrap();
        std::os::unix::fs::symlink(dir.path().join("elsewhere"), path.join(CHECKPOINTS_FOLDER)).unwrap();
        assert!(refused(&path, &recipe).contains("has `checkpoints` as a link, allowed: a folder"));
    }

    #[test]
    fn so_is_a_checkpoint_or_a_version_that_does() {
        for inside in ["checkpoints/b", "checkpoints/a/step-000002", "weights/step-000002"] {
            let dir = tempfile::tempdir().unwrap();
            let recipe = TestRecipe::new(&[]);
            let path = run(dir.path(), "a", &recipe);
            std::fs::create_dir_all(path.join(WEIGHTS_FOLDER)).unwrap();
            assert!(RunDirectory::resume(&path, recipe.record()).is_ok());
            std::os::unix::fs::symlink(dir.path(), path.join(inside)).unwrap();
            let error = refused(&path, &recipe);
            assert!(error.contains(&format!("has `{inside}` as a link, allowed: a folder")), "{error}");
        }
    }
}
