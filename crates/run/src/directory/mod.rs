//! The run directory: created, resumed or forked, locked by one process, and read afterwards.

mod differing;
mod files;
mod fork;
mod lock;
mod manifest;
mod mixed;
mod ownership;
mod recipe_record;
mod record;
#[cfg(test)]
mod test_recipe;
mod unfinished;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use evenkeel_config::Loader;
use serde::Serialize;

use crate::error::RunFilesError;
use crate::inputs::{Input, InputRecord};
use crate::layout::{
    CHECKPOINTS_FOLDER, CONFIG_FILE, EVALUATION_FILE, INCOMPLETE_FILE, INPUTS_FILE, METRICS_FILE, WARM_START_FILE,
    WEIGHTS_FOLDER,
};
use crate::whole_file::{pretty, refuse_other_than_file, replace};

use differing::refuse_other_settings;
use files::{clear_incomplete, remove, run_id};
pub use files::{is_run_name, recipe_stem};
pub use lock::{Lock, is_locked};
pub use manifest::{ForkOrigin, RunManifest};
use mixed::refuse_mixed;
use ownership::Ownership;
pub use recipe_record::RecipeRecord;
pub use record::{RunRecord, read_data};
pub use unfinished::has_finished_step;
use unfinished::{give_up_unfinished, refuse_finished_steps};

/// The directory of one run, locked by one process at a time. Clones share the lock.
#[derive(Debug, Clone)]
pub struct RunDirectory {
    path: PathBuf,
    run_id: String,
    identity: String,
    resumed: bool,
    forked_from: Option<ForkOrigin>,
    aggregation: Option<String>,
    /// What a run that is resumed was begun with.
    begun_with: Option<InputRecord>,
    ownership: Arc<Ownership>,
}

impl RunDirectory {
    /// Creates the directory of a new run and writes `config.toml`. It holds a run from [`start_run`](Self::start_run)
    /// on; until then it is removed with its last clone. The directory of a run that has finished no step is reused.
    ///
    /// # Errors
    /// A directory that holds a run with a finished step, or anything else; one that cannot be written.
    pub fn create(path: &Path, recipe: RecipeRecord<'_>) -> Result<Self, RunFilesError> {
        std::fs::create_dir_all(path).map_err(RunFilesError::file(path))?;
        let path = std::fs::canonicalize(path).map_err(RunFilesError::file(path))?;
        refuse_finished_steps(&path)?;
        let lock = Lock::take(&path)?;
        // The process that had the lock may have finished one meanwhile.
        refuse_finished_steps(&path)?;
        give_up_unfinished(&path)?;
        clear_incomplete(&path)?;
        let ownership = Ownership::new(&path, lock, false);
        let run_id = run_id(&path, recipe.name)?;
        let incomplete = path.join(INCOMPLETE_FILE);
        std::fs::write(&incomplete, "").map_err(RunFilesError::file(&incomplete))?;
        let directory = Self {
            path,
            run_id,
            identity: recipe.identity.to_owned(),
            resumed: false,
            forked_from: None,
            aggregation: recipe.aggregation.map(str::to_owned),
            begun_with: None,
            ownership,
        };
        directory.replace(CONFIG_FILE, recipe.toml)?;
        Ok(directory)
    }

    /// A new run starts: everything was checked.
    ///
    /// # Errors
    /// A manifest that cannot be written.
    pub fn start_run(&self) -> Result<(), RunFilesError> {
        if !self.resumed {
            let manifest =
                RunManifest::new(&self.run_id, &self.identity, self.forked_from.clone(), self.aggregation.clone());
            manifest.write(&self.path)?;
            let _ = std::fs::remove_file(self.path.join(INCOMPLETE_FILE));
        }
        self.ownership.start();
        Ok(())
    }

    /// What a run that is resumed was begun with.
    pub fn begun_with(&self) -> Option<&InputRecord> {
        self.begun_with.as_ref()
    }

    /// Notes which inputs differ from those of the run that this one is forked from.
    ///
    /// # Errors
    /// A record of that run's inputs which cannot be read.
    pub fn compare_with_origin(&mut self, inputs: &[Input]) -> Result<(), RunFilesError> {
        if let Some(origin) = &mut self.forked_from {
            origin.changed_inputs = recorded(&origin.directory)?.changes(inputs);
        }
        Ok(())
    }

    /// Refuses a directory that is no longer the one that this process has locked.
    ///
    /// # Errors
    /// A directory that was moved or replaced, or whose lock was.
    pub fn check_place(&self) -> Result<(), RunFilesError> {
        self.ownership.check()
    }

    /// The services passed their checks: the run is about to do its first step.
    pub fn mark_entered(&self) {
        self.ownership.enter();
    }

    /// Whether the services have passed their checks, now or before a resume.
    pub fn has_entered(&self) -> bool {
        self.ownership.has_entered()
    }

    /// Opens the directory of a run to resume it. Settings that name files may differ: what is in the files is compared
    /// when the run is loaded.
    ///
    /// # Errors
    /// A directory without a run; one whose run has other settings, which are named; one that another process has
    /// locked.
    pub fn resume(path: &Path, recipe: RecipeRecord<'_>) -> Result<Self, RunFilesError> {
        let path = std::fs::canonicalize(path).map_err(RunFilesError::file(path))?;
        let Some(manifest) = RunManifest::read(&path)? else {
            return Err(RunFilesError::directory(&path, "holds no run that could be resumed (there is no run.json)"));
        };
        let begun_with = recorded(&path)?;
        if manifest.identity != recipe.identity {
            refuse_other_settings(&path, &manifest.run_id, &begun_with, recipe)?;
        }
        refuse_mixed(&path, &manifest, &begun_with, &recipe)?;
        let lock = Lock::take(&path)?;
        let ownership = Ownership::new(&path, lock, true);
        let RunManifest { run_id, identity, forked_from, aggregation, .. } = manifest;
        let begun_with = Some(begun_with);
        Ok(Self { path, run_id, identity, resumed: true, forked_from, aggregation, begun_with, ownership })
    }

    /// Whether a process has a directory locked.
    pub fn is_in_use(path: &Path) -> bool {
        path.exists() && Lock::take(path).is_err()
    }

    /// Removes the directory of a run that was refused before its first step, so that its name is free. A directory
    /// that was resumed, or that has lines of a run of its own, stays; so do verdicts of a judge.
    pub fn discard(self) {
        let inherited = self.forked_from.is_some() && !self.has_entered();
        let has_lines = !inherited
            && [METRICS_FILE, WARM_START_FILE, EVALUATION_FILE]
                .iter()
                .any(|name| std::fs::metadata(self.path.join(name)).is_ok_and(|data| data.len() > 0));
        if !self.resumed && !has_lines {
            // What cannot be removed is in the way of the next run of this name only, which reports it.
            let _ = remove(&self.path);
        }
    }

    /// A loader with the settings that a run was started with, for overrides on top of them.
    ///
    /// # Errors
    /// A directory without `config.toml`.
    pub fn settings_of(path: &Path) -> Result<Loader, RunFilesError> {
        let config = path.join(CONFIG_FILE);
        if !config.exists() {
            return Err(RunFilesError::directory(
                path,
                format!("holds no run that could be resumed (there is no {CONFIG_FILE})"),
            ));
        }
        refuse_other_than_file(path, CONFIG_FILE)?;
        Ok(Loader::new().file(config)?)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Name of the run.
    pub fn run_id(&self) -> &str {
        &self.run_id
    }

    /// Digest of everything that affects what the run computes.
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// Whether the directory holds a run that is resumed.
    pub fn is_resumed(&self) -> bool {
        self.resumed
    }

    /// Origin of the run, if it was forked from another run.
    pub fn forked_from(&self) -> Option<&ForkOrigin> {
        self.forked_from.as_ref()
    }

    /// Where the learner is to write checkpoints.
    pub fn checkpoints(&self) -> PathBuf {
        self.path.join(CHECKPOINTS_FOLDER)
    }

    /// Where the learner is to publish weights.
    pub fn weights(&self) -> PathBuf {
        self.path.join(WEIGHTS_FOLDER)
    }

    /// Replaces a file as a whole: readers see the old or the new one.
    ///
    /// # Errors
    /// A directory that is not the one that was locked; a file that cannot be written.
    pub fn replace(&self, name: &str, text: &str) -> Result<(), RunFilesError> {
        self.check_place()?;
        replace(&self.path.join(name), text)
    }

    /// Replaces a file by a value as JSON, as [`replace`](Self::replace) does by a text.
    ///
    /// # Errors
    /// As [`replace`](Self::replace).
    pub fn replace_json(&self, name: &str, value: &impl Serialize) -> Result<(), RunFilesError> {
        self.replace(name, &pretty(value)?)
    }
}

/// What a directory says that its run was begun with.
fn recorded(path: &Path) -> Result<InputRecord, RunFilesError> {
    let missing =
        || RunFilesError::directory(path, format!("has no record of what its run reads (there is no {INPUTS_FILE})"));
    InputRecord::read(path)?.ok_or_else(missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    use super::test_recipe::{TestRecipe, begin};
    use crate::config::RunPlan;

    fn create(path: &Path) -> Result<RunDirectory, RunFilesError> {
        RunDirectory::create(path, TestRecipe::new(&[]).record())
    }

    fn resume(path: &Path, recipe: &TestRecipe) -> Result<RunDirectory, RunFilesError> {
        RunDirectory::resume(path, recipe.record())
    }

    #[test]
    fn a_directory_belongs_to_one_run() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("first");
        let directory = create(&path).unwrap();
        assert_eq!((directory.run_id(), directory.is_resumed()), ("first", false));
        begin(&directory);
        let error = create(&path).unwrap_err().to_string();
        assert!(error.contains("another process"), "{error}");
        std::fs::write(path.join(METRICS_FILE), "{}\n").unwrap();
        let error = create(&path).unwrap_err().to_string();
        assert!(error.contains("holds run `first` already"), "{error}");
        let error = resume(&path, &TestRecipe::new(&[])).unwrap_err().to_string();
        assert!(error.contains("another process"), "{error}");
        drop(directory);

        let longer = TestRecipe::new(&[("run.steps", "500")]);
        let directory = resume(&path, &longer).unwrap();
        assert!(directory.is_resumed());
        directory.start_run().unwrap();
        let config = std::fs::read_to_string(path.join(CONFIG_FILE)).unwrap();
        assert_eq!(RunPlan::of(&config).steps, 80, "nothing is done with it yet");
    }

    #[test]
    fn a_run_that_never_started_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("first");
        drop(create(&path).unwrap());
        assert!(!path.exists());

        // As after a kill, when the process could not clean up.
        let directory = create(&path).unwrap();
        let copy = dir.path().join("second");
        std::fs::create_dir_all(copy.join("model")).unwrap();
        for name in [INCOMPLETE_FILE, CONFIG_FILE] {
            std::fs::copy(directory.path().join(name), copy.join(name)).unwrap();
        }
        assert_eq!(RunManifest::read(&copy).unwrap(), None);
        let second = create(&copy).unwrap();
        assert!(!copy.join("model").exists());
        second.start_run().unwrap();
        drop(second);
        assert!(RunManifest::read(&copy).unwrap().is_some() && !copy.join(INCOMPLETE_FILE).exists());
    }

    #[test]
    fn a_directory_with_other_files_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("thesis.tex"), "").unwrap();
        let error = create(dir.path()).unwrap_err().to_string();
        assert!(error.contains("holds `thesis.tex`"), "{error}");
        let error = resume(dir.path(), &TestRecipe::new(&[])).unwrap_err().to_string();
        assert!(error.contains("holds no run"), "{error}");
        assert!(RunDirectory::settings_of(dir.path()).is_err());
        let named = dir.path().join("a b");
        assert!(create(&named).unwrap_err().to_string().contains("cannot name a run"));
    }
}
