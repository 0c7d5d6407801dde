//! The folder of a run's rollouts: written a step at a time, within its bound, and read.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::rollout::Rollout;
use super::thinning::next_to_remove;
use crate::error::RunFilesError;
use crate::layout::ROLLOUTS_FOLDER;
use crate::whole_file::{optional_json, replace_json};

const EXTENSION: &str = ".jsonl.zst";
/// A file that is being written.
const WRITING: &str = ".writing";
/// The steps whose samples were removed.
const THINNED_FILE: &str = "thinned.json";
/// Longest line that is read: an answer of a million tokens fits many times.
const MAX_LINE_BYTES: u64 = 256 << 20;

/// The rollouts of a run that is written. A step is written as a whole or not at all.
#[derive(Debug)]
pub struct RolloutFolder {
    folder: PathBuf,
    /// Bytes that all steps may take together.
    bound: u64,
    /// Bytes of each step that is there.
    steps: BTreeMap<u64, u64>,
    thinned: BTreeSet<u64>,
    /// Steps that may not be on the disk yet.
    unsynced: Mutex<BTreeSet<u64>>,
}

impl RolloutFolder {
    /// Opens the folder of a run; it is made with its first step. What an interrupted write left is removed.
    ///
    /// # Errors
    /// A folder that cannot be read or written.
    pub fn open(run: &Path, bound: u64) -> Result<Self, RunFilesError> {
        let folder = run.join(ROLLOUTS_FOLDER);
        let mut steps = BTreeMap::new();
        for entry in entries(&folder)? {
            let path = entry.path();
            if path.to_string_lossy().ends_with(WRITING) {
                std::fs::remove_file(&path).map_err(RunFilesError::file(&path))?;
            } else if let Some(step) = step_of(&path) {
                let bytes = entry.metadata().map_err(RunFilesError::file(&path))?.len();
                steps.insert(step, bytes);
            }
        }
        let thinned = thinned_rollouts(run)?;
        Ok(Self { folder, bound, steps, thinned, unsynced: Mutex::default() })
    }

    /// Path of the folder.
    pub fn path(&self) -> &Path {
        &self.folder
    }

    /// The steps whose samples were removed for want of room, or never kept.
    pub fn thinned(&self) -> &BTreeSet<u64> {
        &self.thinned
    }

    /// Writes the samples of a step, as [`encode_rollouts`](super::encode_rollouts) gives them; they replace earlier
    /// ones. Where they go beyond the bound, the oldest steps are thinned out, but none that `is_protected`: if these
    /// alone leave no room, the step itself is not kept. Returns whether it is, and the steps that went.
    ///
    /// # Errors
    /// A file that cannot be written; the step is then not there.
    pub fn write(
        &mut self,
        step: u64,
        bytes: &[u8],
        is_protected: impl Fn(u64) -> bool,
    ) -> Result<(bool, Vec<u64>), RunFilesError> {
        let mut sizes = self.steps.clone();
        sizes.insert(step, bytes.len() as u64);
        let mut removed = Vec::new();
        while sizes.values().sum::<u64>() > self.bound {
            let kept: Vec<u64> = sizes.keys().copied().collect();
            let gone = next_to_remove(&kept, |other| other == step || is_protected(other)).unwrap_or(step);
            sizes.remove(&gone);
            removed.push(gone);
            if gone == step {
                break;
            }
        }
        let is_kept = sizes.contains_key(&step);
        if is_kept {
            self.write_file(step, bytes)?;
            self.unsynced().insert(step);
        }
        // What is listed may still be there, and nothing is gone that is not listed.
        let mut thinned: BTreeSet<u64> = self.thinned.iter().chain(&removed).copied().collect();
        if is_kept {
            thinned.remove(&step);
        }
        if thinned != self.thinned {
            self.list(thinned)?;
        }
        for gone in removed.iter().filter(|gone| self.steps.contains_key(gone)) {
            remove(&rollout_path(&self.folder, *gone))?;
        }
        self.steps = sizes;
        Ok((is_kept, removed))
    }

    /// Removes the samples of steps after that one.
    ///
    /// # Errors
    /// A file that cannot be removed.
    pub fn truncate(&mut self, step: u64) -> Result<(), RunFilesError> {
        for later in self.steps.split_off(&(step + 1)).into_keys() {
            remove(&rollout_path(&self.folder, later))?;
            self.unsynced().remove(&later);
        }
        let mut thinned = self.thinned.clone();
        if !thinned.split_off(&(step + 1)).is_empty() {
            self.list(thinned)?;
        }
        Ok(())
    }

    /// Waits until all steps are on the disk.
    ///
    /// # Errors
    /// A disk that does not take them.
    pub fn sync(&self) -> Result<(), RunFilesError> {
        let mut unsynced = self.unsynced();
        while let Some(&step) = unsynced.first() {
            let path = rollout_path(&self.folder, step);
            match File::open(&path).and_then(|file| file.sync_all()) {
                // The file may have been removed, or thinned out.
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(RunFilesError::file(&path)(error)),
                _ => unsynced.remove(&step),
            };
        }
        Ok(())
    }

    fn unsynced(&self) -> MutexGuard<'_, BTreeSet<u64>> {
        self.unsynced.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_file(&self, step: u64, bytes: &[u8]) -> Result<(), RunFilesError> {
        std::fs::create_dir_all(&self.folder).map_err(RunFilesError::file(&self.folder))?;
        let path = rollout_path(&self.folder, step);
        let temporary = self.folder.join(format!("step-{step}{WRITING}"));
        let written = File::create(&temporary).and_then(|mut file| file.write_all(bytes));
        let renamed = written.and_then(|()| std::fs::rename(&temporary, &path));
        renamed.map_err(|error| {
            // A part of a file would take up a disk that is already full. The first error is the one to report.
            let _ = std::fs::remove_file(&temporary);
            RunFilesError::file(&path)(error)
        })
    }

    fn list(&mut self, thinned: BTreeSet<u64>) -> Result<(), RunFilesError> {
        std::fs::create_dir_all(&self.folder).map_err(RunFilesError::file(&self.folder))?;
        replace_json(&self.folder.join(THINNED_FILE), &thinned)?;
        self.thinned = thinned;
        Ok(())
    }
}

/// A file that is gone already is no error.
fn remove(path: &Path) -> Result<(), RunFilesError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(RunFilesError::file(path)(error)),
        _ => Ok(()),
    }
}

fn entries(folder: &Path) -> Result<Vec<std::fs::DirEntry>, RunFilesError> {
    match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        found => found.and_then(Iterator::collect).map_err(RunFilesError::file(folder)),
    }
}

fn rollout_path(folder: &Path, step: u64) -> PathBuf {
    folder.join(file_name(step))
}

fn file_name(step: u64) -> String {
    format!("step-{step}{EXTENSION}")
}

fn step_of(path: &Path) -> Option<u64> {
    path.file_name()?.to_str()?.strip_prefix("step-")?.strip_suffix(EXTENSION)?.parse().ok()
}

/// Name of the file of a step within the directory of its run, as people read it.
pub fn rollout_name(step: u64) -> String {
    format!("{ROLLOUTS_FOLDER}/{}", file_name(step))
}

/// The file of a step of a run, whether it is there or not.
pub fn rollout_file(run: &Path, step: u64) -> PathBuf {
    rollout_path(&run.join(ROLLOUTS_FOLDER), step)
}

/// The steps of a run whose samples are there, with their files; none where none are kept.
///
/// # Errors
/// A folder that cannot be read.
pub fn list_rollouts(run: &Path) -> Result<BTreeMap<u64, PathBuf>, RunFilesError> {
    let paths = entries(&run.join(ROLLOUTS_FOLDER))?.into_iter().map(|entry| entry.path());
    Ok(paths.filter_map(|path| Some((step_of(&path)?, path))).collect())
}

/// The steps of a run whose samples were removed for want of room.
///
/// # Errors
/// A list that cannot be read.
pub fn thinned_rollouts(run: &Path) -> Result<BTreeSet<u64>, RunFilesError> {
    let path = run.join(ROLLOUTS_FOLDER).join(THINNED_FILE);
    let Some(value) = optional_json(&path)? else { return Ok(BTreeSet::new()) };
    serde_json::from_value(value)
        .map_err(|error| RunFilesError::directory(&path, format!("is no list of steps: {error}")))
}

/// Reads the samples of a step one by one.
pub struct RolloutReader {
    path: PathBuf,
    lines: BufReader<zstd::Decoder<'static, BufReader<File>>>,
    line: Vec<u8>,
}

impl RolloutReader {
    /// Opens a file.
    ///
    /// # Errors
    /// A file that cannot be opened.
    pub fn open(path: &Path) -> Result<Self, RunFilesError> {
        let decoder = File::open(path).and_then(zstd::Decoder::new).map_err(RunFilesError::file(path))?;
        Ok(Self { path: path.to_owned(), lines: BufReader::new(decoder), line: Vec::new() })
    }
}

impl Iterator for RolloutReader {
    type Item = Result<Rollout, RunFilesError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.line.clear();
        let broken =
            |words: String| RunFilesError::directory(&self.path, format!("is not a file of rollouts: {words}"));
        match io::Read::take(&mut self.lines, MAX_LINE_BYTES).read_until(b'\n', &mut self.line) {
            Ok(0) => None,
            Ok(_) if self.line.last() != Some(&b'\n') => Some(Err(broken("a line is cut off or too long".to_owned()))),
            Ok(_) => Some(serde_json::from_slice(&self.line).map_err(|error| broken(error.to_string()))),
            Err(error) => Some(Err(broken(error.to_string()))),
        }
    }
}

/// All samples of a step; none where they are not kept.
///
/// # Errors
/// A file that cannot be read.
pub fn read_rollouts(run: &Path, step: u64) -> Result<Vec<Rollout>, RunFilesError> {
    let path = rollout_file(run, step);
    if !path.exists() {
        return Ok(Vec::new());
    }
    RolloutReader::open(&path)?.collect()
}

#[cfg(test)]
mod tests {
    use super::super::rollout::encode_rollouts;
    use super::super::rollout::tests::rollout;
    use super::*;

    fn samples(step: u64) -> Vec<Rollout> {
        (0..2).map(|sample| rollout(step, step, sample)).collect()
    }

    fn bytes(step: u64) -> Vec<u8> {
        encode_rollouts(&samples(step)).unwrap()
    }

    fn kept(run: &Path) -> Vec<u64> {
        list_rollouts(run).unwrap().into_keys().collect()
    }

    #[test]
    fn a_step_is_there_once_and_goes_with_its_line() {
        let dir = tempfile::tempdir().unwrap();
        let mut folder = RolloutFolder::open(dir.path(), u64::MAX).unwrap();
        assert_eq!(kept(dir.path()), [] as [u64; 0], "there is no folder yet");
        for step in [1, 2, 2, 3] {
            assert_eq!(folder.write(step, &bytes(step), |_| false).unwrap(), (true, vec![]));
        }
        folder.sync().unwrap();
        folder.truncate(2).unwrap();
        assert_eq!(kept(dir.path()), [1, 2]);
        assert_eq!(read_rollouts(dir.path(), 2).unwrap(), samples(2));
        assert_eq!(read_rollouts(dir.path(), 3).unwrap(), []);
    }

    #[test]
    fn a_write_that_was_interrupted_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let mut folder = RolloutFolder::open(dir.path(), u64::MAX).unwrap();
        folder.write(1, &bytes(1), |_| false).unwrap();
        let half = folder.path().join("step-2.writing");
        std::fs::write(&half, "half of a step").unwrap();
        RolloutFolder::open(dir.path(), u64::MAX).unwrap();
        assert!(!half.exists());
        assert_eq!(kept(dir.path()), [1]);
    }

    #[test]
    fn at_the_bound_old_steps_are_thinned_out_and_listed_but_no_protected_one() {
        let dir = tempfile::tempdir().unwrap();
        let bound = 10 * bytes(100).len() as u64;
        let mut folder = RolloutFolder::open(dir.path(), bound).unwrap();
        for step in 1..=50 {
            assert!(folder.write(step, &bytes(step), |step| step % 10 == 0).unwrap().0);
            let total: u64 =
                list_rollouts(dir.path()).unwrap().values().map(|path| path.metadata().unwrap().len()).sum();
            assert!(total <= bound, "{total} of {bound}");
        }
        let left = kept(dir.path());
        let thinned = thinned_rollouts(dir.path()).unwrap();
        assert!([10, 20, 30, 40, 50].iter().all(|step| left.contains(step)), "{left:?}");
        let mut all: Vec<u64> = left.iter().chain(&thinned).copied().collect();
        all.sort_unstable();
        assert_eq!(all, (1..=50).collect::<Vec<_>>(), "each is there or listed");
        // A run that returns to step 30 writes the later ones again.
        let mut folder = RolloutFolder::open(dir.path(), bound).unwrap();
        folder.truncate(30).unwrap();
        assert!(thinned_rollouts(dir.path()).unwrap().iter().all(|step| *step <= 30));
        folder.write(31, &bytes(31), |_| false).unwrap();
        assert_eq!(kept(dir.path()).last(), Some(&31));
    }

    #[test]
    fn where_protected_steps_leave_no_room_a_step_is_listed_and_not_kept() {
        let dir = tempfile::tempdir().unwrap();
        let mut folder = RolloutFolder::open(dir.path(), bytes(1).len() as u64 + 8).unwrap();
        assert!(folder.write(1, &bytes(1), |_| true).unwrap().0);
        assert_eq!(folder.write(2, &bytes(2), |_| true).unwrap(), (false, vec![2]));
        assert_eq!((kept(dir.path()), thinned_rollouts(dir.path()).unwrap()), (vec![1], BTreeSet::from([2])));
    }

    #[test]
    fn a_file_that_is_damaged_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let mut folder = RolloutFolder::open(dir.path(), u64::MAX).unwrap();
        folder.write(1, &bytes(1), |_| false).unwrap();
        let path = rollout_file(dir.path(), 1);
        let whole = bytes(1);
        for cut in 0..whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let read = read_rollouts(dir.path(), 1);
            assert!(read.is_err() || read.is_ok_and(|read| read.is_empty() && cut == 0), "cut at {cut}");
        }
        std::fs::write(&path, "words").unwrap();
        assert!(read_rollouts(dir.path(), 1).unwrap_err().to_string().contains("step-1.jsonl.zst"));
    }
}
