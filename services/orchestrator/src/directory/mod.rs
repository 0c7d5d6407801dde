//! The run directory: what a run leaves behind.
//!
//! | | |
//! |---|---|
//! | `run.json` | which run this is; its presence makes a folder a run directory |
//! | `config.toml` | the resolved settings |
//! | `metrics.jsonl` | a line for each GRPO step |
//! | `warm_start.jsonl` | a line for each supervised step |
//! | `evaluation.jsonl` | a line for each evaluation |
//! | `summary.json`, `report.html` | what it came to, written whenever it ends |
//! | `model/` | the fresh model, where the recipe asks for one |
//! | `checkpoints/`, `weights/` | the learner's, bounded by the settings `checkpoint` |

mod lock;
mod marker;
mod metrics_file;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use evenkeel_config::Loader;

use crate::error::RunError;
use crate::recipe::ResolvedRecipe;
use crate::settings::is_run_name;

pub(crate) use lock::Lock;
pub(crate) use marker::Marker;
pub(crate) use metrics_file::{MetricsFile, read_lines};

/// The lines of GRPO steps.
pub const METRICS_FILE: &str = "metrics.jsonl";
pub(crate) const WARM_START_FILE: &str = "warm_start.jsonl";
pub(crate) const EVALUATION_FILE: &str = "evaluation.jsonl";
const CONFIG_FILE: &str = "config.toml";
/// Stands in a directory as long as its run has not begun: whatever lies beside it may be thrown away.
const UNBEGUN_FILE: &str = ".unbegun";

/// The directory of one run, held by one process at a time. Clones are the same hold.
#[derive(Debug, Clone)]
pub struct RunDirectory {
    path: PathBuf,
    run_id: String,
    identity: String,
    resumed: bool,
    hold: Arc<Hold>,
}

/// The hold of this process on a directory. One that ends before the run has begun takes the directory with it.
#[derive(Debug)]
struct Hold {
    path: PathBuf,
    /// Whether the directory is that of a run: from then on it stays.
    begun: AtomicBool,
    /// Whether the run has got beyond the checks of its services.
    entered: AtomicBool,
    _lock: Lock,
}

impl Hold {
    fn new(path: &Path, lock: Lock, begun: bool) -> Arc<Self> {
        let (begun, entered) = (AtomicBool::new(begun), AtomicBool::new(begun));
        Arc::new(Self { path: path.to_owned(), begun, entered, _lock: lock })
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if !*self.begun.get_mut() {
            // What cannot be removed is taken over by the next run that is made here.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

impl RunDirectory {
    /// Makes the directory of a new run and writes `config.toml`. It holds a run from
    /// [`Run::start`](crate::Run::start) on; before that it is removed with its last clone, and what a process that died left of it
    /// is taken over.
    ///
    /// # Errors
    /// A directory that holds a run already or anything else; one that cannot be written.
    pub fn create(path: &Path, recipe: &ResolvedRecipe) -> Result<Self, RunError> {
        std::fs::create_dir_all(path).map_err(RunError::file(path))?;
        let path = std::fs::canonicalize(path).map_err(RunError::file(path))?;
        if let Some(marker) = Marker::read(&path)? {
            let message = format!(
                "holds run `{}` already, allowed: an empty or a new directory (or resume that run)",
                marker.run_id
            );
            return Err(RunError::directory(&path, message));
        }
        let lock = Lock::take(&path)?;
        clear_unbegun(&path)?;
        let hold = Hold::new(&path, lock, false);
        let run_id = run_id(&path, &recipe.recipe.run.name)?;
        let unbegun = path.join(UNBEGUN_FILE);
        std::fs::write(&unbegun, "").map_err(RunError::file(&unbegun))?;
        let identity = recipe.identity.clone();
        let directory = Self { path, run_id, identity, resumed: false, hold };
        directory.replace(CONFIG_FILE, &recipe.toml)?;
        Ok(directory)
    }

    /// From now on this is the directory of a run, which everything was checked for. A run that goes on may have other settings.
    pub(crate) fn begin(&self, config: &str) -> Result<(), RunError> {
        if self.resumed {
            self.replace(CONFIG_FILE, config)?;
        } else {
            Marker::of(&self.run_id, &self.identity).write(&self.path)?;
            let _ = std::fs::remove_file(self.path.join(UNBEGUN_FILE));
        }
        self.hold.begun.store(true, Ordering::Release);
        Ok(())
    }

    /// The run is about to do its first step.
    pub(crate) fn mark_entered(&self) {
        self.hold.entered.store(true, Ordering::Release);
    }

    /// Whether the run has got as far as its first step, now or ever.
    pub(crate) fn has_entered(&self) -> bool {
        self.hold.entered.load(Ordering::Acquire)
    }

    /// Opens the directory of a run that is to go on.
    ///
    /// # Errors
    /// A directory without a run; one whose run has another identity; one that another process holds.
    pub fn resume(path: &Path, identity: &str) -> Result<Self, RunError> {
        let path = std::fs::canonicalize(path).map_err(RunError::file(path))?;
        let Some(marker) = Marker::read(&path)? else {
            return Err(RunError::directory(&path, "holds no run that could be resumed (there is no run.json)"));
        };
        if marker.identity != identity {
            let message = format!(
                "holds run `{}` with other settings, allowed to change: run.steps, evaluation (but problems), checkpoint, services, and of \
                 engine, generation and reward what decides no result (addresses, threads, queues, time-outs)",
                marker.run_id
            );
            return Err(RunError::directory(&path, message));
        }
        let lock = Lock::take(&path)?;
        let hold = Hold::new(&path, lock, true);
        Ok(Self { path, run_id: marker.run_id, identity: marker.identity, resumed: true, hold })
    }

    /// Takes back what [`create`](Self::create) made, for a run that was refused before its first step: the next try finds the place
    /// free. A directory that was resumed, or that has lines of a run, stays.
    pub fn discard(self) {
        let is_begun = [METRICS_FILE, WARM_START_FILE, EVALUATION_FILE]
            .iter()
            .any(|name| std::fs::metadata(self.path.join(name)).is_ok_and(|data| data.len() > 0));
        if !self.resumed && !is_begun {
            // What cannot be removed stands in nobody's way but the next run's of this name, which then says so.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }

    /// A loader with the settings that a run was begun with, for overrides on top of them.
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

    /// Digest of everything that decides what the run computes.
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// Whether it holds a run that goes on.
    pub fn is_resumed(&self) -> bool {
        self.resumed
    }

    /// Where the learner is to write checkpoints, so that their number stays bounded.
    pub fn checkpoints(&self) -> PathBuf {
        self.path.join("checkpoints")
    }

    /// Where the learner is to publish weights, so that their number stays bounded.
    pub fn weights(&self) -> PathBuf {
        self.path.join("weights")
    }

    /// Replaces a file as a whole: whoever reads it sees the old or the new one.
    pub(crate) fn replace(&self, name: &str, text: &str) -> Result<(), RunError> {
        replace(&self.path.join(name), text)
    }
}

/// Refuses a directory with anything in it but what a start that never came to its end left there, which is removed.
fn clear_unbegun(path: &Path) -> Result<(), RunError> {
    let entries = std::fs::read_dir(path).map_err(RunError::file(path))?;
    let mut others: Vec<std::ffi::OsString> = entries.flatten().map(|entry| entry.file_name()).collect();
    others.retain(|name| name != lock::FILE);
    if !others.iter().any(|name| name == UNBEGUN_FILE) {
        return match others.first() {
            None => Ok(()),
            Some(other) => {
                let message = format!("holds `{}`, allowed: an empty or a new directory", other.to_string_lossy());
                Err(RunError::directory(path, message))
            }
        };
    }
    // The file that says so goes last: what is interrupted here is still known for what it is.
    others.sort_by_key(|name| name == UNBEGUN_FILE);
    for name in others {
        let other = path.join(name);
        let is_folder = std::fs::symlink_metadata(&other).is_ok_and(|found| found.is_dir());
        let removed = if is_folder { std::fs::remove_dir_all(&other) } else { std::fs::remove_file(&other) };
        removed.map_err(RunError::file(&other))?;
    }
    Ok(())
}

pub(crate) fn replace(path: &Path, text: &str) -> Result<(), RunError> {
    use std::io::Write;
    let aside = path.with_extension("writing");
    let written = std::fs::File::create(&aside).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    });
    written.and_then(|()| std::fs::rename(&aside, path)).map_err(RunError::file(path))
}

/// The name of the settings, or else that of the directory.
fn run_id(path: &Path, configured: &str) -> Result<String, RunError> {
    if !configured.is_empty() {
        return Ok(configured.to_owned());
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if is_run_name(&name) {
        return Ok(name);
    }
    let allowed = "a directory whose name is letters, digits, `-`, `_` and `.`, or run.name set";
    Err(RunError::directory(path, format!("its name `{name}` cannot name a run, allowed: {allowed}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::recipe::Recipe;

    fn resolved(change: impl FnOnce(&mut Recipe)) -> ResolvedRecipe {
        let mut recipe = Recipe::default();
        change(&mut recipe);
        ResolvedRecipe::new(recipe, PathBuf::from("model")).unwrap()
    }

    fn recipe() -> ResolvedRecipe {
        resolved(|_| {})
    }

    #[test]
    fn a_directory_is_one_runs() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("first");
        let directory = RunDirectory::create(&path, &recipe()).unwrap();
        assert_eq!((directory.run_id(), directory.is_resumed()), ("first", false));
        directory.begin(&recipe().toml).unwrap();
        let error = RunDirectory::create(&path, &recipe()).unwrap_err().to_string();
        assert!(error.contains("holds run `first` already"), "{error}");
        let error = RunDirectory::resume(&path, &recipe().identity).unwrap_err().to_string();
        assert!(error.contains("another process"), "{error}");
        drop(directory);

        let longer = resolved(|recipe| recipe.run.steps = 500);
        let directory = RunDirectory::resume(&path, &longer.identity).unwrap();
        assert!(directory.is_resumed());
        directory.begin(&longer.toml).unwrap();
        let again: Recipe = RunDirectory::settings_of(&path).unwrap().load().unwrap().settings;
        assert_eq!(again.run.steps, 500);
        drop(directory);

        let other = resolved(|recipe| recipe.run.seed = 5);
        let error = RunDirectory::resume(&path, &other.identity).unwrap_err().to_string();
        assert!(error.contains("with other settings, allowed to change"), "{error}");
    }

    #[test]
    fn a_run_that_never_began_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("first");
        drop(RunDirectory::create(&path, &recipe()).unwrap());
        assert!(!path.exists());

        // The same after the death of its process, which cannot clean up.
        let directory = RunDirectory::create(&path, &recipe()).unwrap();
        let copy = dir.path().join("second");
        std::fs::create_dir_all(copy.join("model")).unwrap();
        for name in [UNBEGUN_FILE, CONFIG_FILE] {
            std::fs::copy(directory.path().join(name), copy.join(name)).unwrap();
        }
        assert_eq!(Marker::read(&copy).unwrap(), None);
        let second = RunDirectory::create(&copy, &recipe()).unwrap();
        assert!(!copy.join("model").exists());
        second.begin(&recipe().toml).unwrap();
        drop(second);
        assert!(Marker::read(&copy).unwrap().is_some() && !copy.join(UNBEGUN_FILE).exists());
    }

    #[test]
    fn anything_else_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("thesis.tex"), "").unwrap();
        let error = RunDirectory::create(dir.path(), &recipe()).unwrap_err().to_string();
        assert!(error.contains("holds `thesis.tex`"), "{error}");
        let error = RunDirectory::resume(dir.path(), &recipe().identity).unwrap_err().to_string();
        assert!(error.contains("holds no run"), "{error}");
        assert!(RunDirectory::settings_of(dir.path()).is_err());
        let named = dir.path().join("a b");
        assert!(RunDirectory::create(&named, &recipe()).unwrap_err().to_string().contains("cannot name a run"));
    }
}
