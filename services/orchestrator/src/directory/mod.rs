//! The run directory: everything that a run writes.
//!
//! | | |
//! |---|---|
//! | `run.json` | the manifest of the run; its presence makes a folder a run directory |
//! | `config.toml` | the resolved settings |
//! | `inputs.json` | digests of everything that the run reads, and the settings that decide what it computes |
//! | `data.json` | what became of the rows of the data: counts, reasons, examples |
//! | `metrics.jsonl` | a line for each GRPO step |
//! | `prompts.jsonl` | a line for each GRPO step: what became of each prompt |
//! | `warm_start.jsonl` | a line for each supervised step |
//! | `evaluation.jsonl` | a line for each evaluation |
//! | `tensorboard/` | the same lines as event files for TensorBoard, where `run.tensorboard` asks for them |
//! | `evaluation/step-N/` | the answers of an evaluation, a file for each benchmark |
//! | `best.json` | which checkpoint is the best, where the settings say by what |
//! | `summary.json`, `report.html` | its results, written with each checkpoint and at its end |
//! | `model/` | the fresh model, where the recipe asks for one |
//! | `checkpoints/`, `weights/` | the learner's, bounded by the settings `checkpoint` |

mod differing;
mod files;
mod fork;
mod line_file;
mod lock;
mod manifest;
mod metrics_file;
mod ownership;
mod prompt_file;
mod record;
mod regular;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use evenkeel_config::Loader;

use evenkeel_tasks::DataReport;

use crate::error::RunError;
use crate::inputs::{Input, InputRecord};
use crate::recipe::ResolvedRecipe;

use differing::refuse_other_settings;
use files::{clear_incomplete, run_id};
pub(crate) use files::{optional_json, replace};
pub use fork::flat_settings;
pub(crate) use line_file::LineMark;
pub(crate) use lock::{Lock, is_locked};
pub(crate) use manifest::RunManifest;
pub use manifest::{ForkOrigin, RUN_FILE};
pub(crate) use metrics_file::{MetricsFile, read_lines};
use ownership::Ownership;
pub(crate) use prompt_file::{PromptFile, read_prompts};
pub use record::RunRecord;
use regular::refuse_other_than_file;

/// The lines of GRPO steps.
pub const METRICS_FILE: &str = "metrics.jsonl";
pub(crate) const PROMPTS_FILE: &str = "prompts.jsonl";
pub(crate) const WARM_START_FILE: &str = "warm_start.jsonl";
pub(crate) const EVALUATION_FILE: &str = "evaluation.jsonl";
/// What became of the rows of the data.
pub(crate) const DATA_FILE: &str = "data.json";
pub(crate) const SUMMARY_FILE: &str = "summary.json";
/// The step of the best checkpoint.
pub(crate) const BEST_FILE: &str = "best.json";
pub(crate) const CONFIG_FILE: &str = "config.toml";
/// Marks a directory whose run has not started: its content may be removed.
const INCOMPLETE_FILE: &str = ".incomplete";

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
    /// Creates the directory of a new run and writes `config.toml`. It holds a run from
    /// [`start_run`](crate::start_run) on; until then it is removed with its last clone, and the incomplete directory of a process that
    /// was killed is reused.
    ///
    /// # Errors
    /// A directory that holds a run already or anything else; one that cannot be written.
    pub fn create(path: &Path, recipe: &ResolvedRecipe) -> Result<Self, RunError> {
        std::fs::create_dir_all(path).map_err(RunError::file(path))?;
        let path = std::fs::canonicalize(path).map_err(RunError::file(path))?;
        if let Some(manifest) = RunManifest::read(&path)? {
            let message = format!(
                "holds run `{}` already, allowed: an empty or a new directory (or resume that run)",
                manifest.run_id
            );
            return Err(RunError::directory(&path, message));
        }
        let lock = Lock::take(&path)?;
        clear_incomplete(&path)?;
        let ownership = Ownership::new(&path, lock, false);
        let run_id = run_id(&path, &recipe.settings.run.name)?;
        let incomplete = path.join(INCOMPLETE_FILE);
        std::fs::write(&incomplete, "").map_err(RunError::file(&incomplete))?;
        let (identity, aggregation) = (recipe.identity.clone(), recipe.aggregation.clone());
        let directory = Self {
            path,
            run_id,
            identity,
            resumed: false,
            forked_from: None,
            aggregation,
            begun_with: None,
            ownership,
        };
        directory.replace(CONFIG_FILE, &recipe.toml)?;
        Ok(directory)
    }

    /// A new run starts: everything was checked.
    pub(crate) fn start_run(&self) -> Result<(), RunError> {
        if !self.resumed {
            let (forked_from, aggregation) = (self.forked_from.clone(), self.aggregation.clone());
            RunManifest::new(&self.run_id, &self.identity, forked_from, aggregation).write(&self.path)?;
            let _ = std::fs::remove_file(self.path.join(INCOMPLETE_FILE));
        }
        self.ownership.start();
        Ok(())
    }

    /// What a run that is resumed was begun with; of one that an earlier version of the program began, what is known of it.
    pub(crate) fn begun_with(&self) -> Option<&InputRecord> {
        self.begun_with.as_ref()
    }

    /// Notes which inputs differ from those of the run that this one is forked from.
    pub(crate) fn compare_with_origin(&mut self, inputs: &[Input]) -> Result<(), RunError> {
        if let Some(origin) = &mut self.forked_from {
            origin.changed_inputs = recorded(&origin.directory)?.changes(inputs);
        }
        Ok(())
    }

    /// Whether it is still the directory that this process has locked.
    ///
    /// # Errors
    /// It was moved or replaced, or its lock was.
    pub(crate) fn check_place(&self) -> Result<(), RunError> {
        self.ownership.check()
    }

    /// The services passed their checks: the run is about to do its first step.
    pub(crate) fn mark_entered(&self) {
        self.ownership.enter();
    }

    /// Whether the services have passed their checks, now or before a resume.
    pub(crate) fn has_entered(&self) -> bool {
        self.ownership.has_entered()
    }

    /// Opens the directory of a run to resume it. Settings that name files may differ: what is in the files is compared when the run is loaded.
    ///
    /// # Errors
    /// A directory without a run; one whose run has other settings, which are named; one that another process has locked.
    pub fn resume(path: &Path, recipe: &ResolvedRecipe) -> Result<Self, RunError> {
        let path = std::fs::canonicalize(path).map_err(RunError::file(path))?;
        let Some(manifest) = RunManifest::read(&path)? else {
            return Err(RunError::directory(&path, "holds no run that could be resumed (there is no run.json)"));
        };
        let begun_with = recorded(&path)?;
        if manifest.identity != recipe.identity {
            refuse_other_settings(&path, &manifest.run_id, &begun_with, recipe)?;
        }
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

    /// Removes the directory of a run that was refused before its first step, so that its name is free. A directory that was resumed, or
    /// that has lines of a run of its own, stays.
    pub fn discard(self) {
        let inherited = self.forked_from.is_some() && !self.has_entered();
        let has_lines = !inherited
            && [METRICS_FILE, WARM_START_FILE, EVALUATION_FILE]
                .iter()
                .any(|name| std::fs::metadata(self.path.join(name)).is_ok_and(|data| data.len() > 0));
        if !self.resumed && !has_lines {
            // What cannot be removed is in the way of the next run of this name only, which reports it.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }

    /// A loader with the settings that a run was started with, for overrides on top of them.
    ///
    /// # Errors
    /// A directory without `config.toml`.
    pub fn settings_of(path: &Path) -> Result<Loader, RunError> {
        let config = path.join(CONFIG_FILE);
        if !config.exists() {
            return Err(RunError::directory(
                path,
                format!("holds no run that could be resumed (there is no {CONFIG_FILE})"),
            ));
        }
        refuse_other_than_file(path, CONFIG_FILE)?;
        Ok(Loader::new().file(config)?)
    }

    /// The directory, absolute.
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

    /// Whether it holds a run that is resumed.
    pub fn is_resumed(&self) -> bool {
        self.resumed
    }

    /// Where it begins, if it was forked from another run.
    pub fn forked_from(&self) -> Option<&ForkOrigin> {
        self.forked_from.as_ref()
    }

    /// Where the learner is to write checkpoints.
    pub fn checkpoints(&self) -> PathBuf {
        self.path.join("checkpoints")
    }

    /// Where the learner is to publish weights.
    pub fn weights(&self) -> PathBuf {
        self.path.join("weights")
    }

    /// Replaces a file as a whole: readers see the old or the new one.
    pub(crate) fn replace(&self, name: &str, text: &str) -> Result<(), RunError> {
        self.check_place()?;
        replace(&self.path.join(name), text)
    }

    /// The same with a value as JSON.
    pub(crate) fn replace_json(&self, name: &str, value: &impl serde::Serialize) -> Result<(), RunError> {
        let text = serde_json::to_string_pretty(value).map_err(|error| RunError::Defect(error.to_string()))?;
        self.replace(name, &(text + "\n"))
    }
}

/// What a directory says that its run was begun with.
fn recorded(path: &Path) -> Result<InputRecord, RunError> {
    if let Some(record) = InputRecord::read(path)? {
        return Ok(record);
    }
    let data: Option<DataReport> =
        optional_json(&path.join(DATA_FILE))?.and_then(|json| serde_json::from_value(json).ok());
    Ok(InputRecord::of_earlier_run(&data.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::settings::LoopSettings;

    pub(super) fn resolved(change: impl FnOnce(&mut LoopSettings)) -> ResolvedRecipe {
        let mut settings = LoopSettings::default();
        change(&mut settings);
        ResolvedRecipe::new(settings, PathBuf::from("model")).unwrap()
    }

    fn recipe() -> ResolvedRecipe {
        resolved(|_| {})
    }

    #[test]
    fn a_directory_belongs_to_one_run() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("first");
        let directory = RunDirectory::create(&path, &recipe()).unwrap();
        assert_eq!((directory.run_id(), directory.is_resumed()), ("first", false));
        directory.start_run().unwrap();
        let error = RunDirectory::create(&path, &recipe()).unwrap_err().to_string();
        assert!(error.contains("holds run `first` already"), "{error}");
        let error = RunDirectory::resume(&path, &recipe()).unwrap_err().to_string();
        assert!(error.contains("another process"), "{error}");
        drop(directory);

        let longer = resolved(|settings| settings.run.steps = 500);
        let directory = RunDirectory::resume(&path, &longer).unwrap();
        assert!(directory.is_resumed());
        directory.start_run().unwrap();
        let again: LoopSettings = RunDirectory::settings_of(&path).unwrap().load().unwrap().settings;
        assert_eq!(again.run.steps, LoopSettings::default().run.steps, "nothing is done with it yet");
    }

    #[test]
    fn a_run_that_never_started_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("first");
        drop(RunDirectory::create(&path, &recipe()).unwrap());
        assert!(!path.exists());

        // The same after its process was killed and could not clean up.
        let directory = RunDirectory::create(&path, &recipe()).unwrap();
        let copy = dir.path().join("second");
        std::fs::create_dir_all(copy.join("model")).unwrap();
        for name in [INCOMPLETE_FILE, CONFIG_FILE] {
            std::fs::copy(directory.path().join(name), copy.join(name)).unwrap();
        }
        assert_eq!(RunManifest::read(&copy).unwrap(), None);
        let second = RunDirectory::create(&copy, &recipe()).unwrap();
        assert!(!copy.join("model").exists());
        second.start_run().unwrap();
        drop(second);
        assert!(RunManifest::read(&copy).unwrap().is_some() && !copy.join(INCOMPLETE_FILE).exists());
    }

    #[test]
    fn a_directory_with_other_files_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("thesis.tex"), "").unwrap();
        let error = RunDirectory::create(dir.path(), &recipe()).unwrap_err().to_string();
        assert!(error.contains("holds `thesis.tex`"), "{error}");
        let error = RunDirectory::resume(dir.path(), &recipe()).unwrap_err().to_string();
        assert!(error.contains("holds no run"), "{error}");
        assert!(RunDirectory::settings_of(dir.path()).is_err());
        let named = dir.path().join("a b");
        assert!(RunDirectory::create(&named, &recipe()).unwrap_err().to_string().contains("cannot name a run"));
    }
}
