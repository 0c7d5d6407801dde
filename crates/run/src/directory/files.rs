//! A directory before its run begins: what an incomplete start left there, and what the run is called.

use std::ffi::OsString;
use std::path::Path;

use super::lock;
use crate::error::RunFilesError;
use crate::layout::{INCOMPLETE_FILE, JUDGE_FILE};

/// Refuses a directory with anything in it, except for what an incomplete start left there, which is removed.
/// The judge's record stays.
pub(super) fn clear_incomplete(path: &Path) -> Result<(), RunFilesError> {
    let others = removable(path)?;
    if !others.iter().any(|name| name == INCOMPLETE_FILE) {
        return match others.first() {
            None => Ok(()),
            Some(other) => {
                let message = format!("holds `{}`, allowed: an empty or a new directory", other.to_string_lossy());
                Err(RunFilesError::directory(path, message))
            }
        };
    }
    remove_each(path, others)
}

/// Removes the directory of a run that never began. One with verdicts of a judge keeps them, for the next run there.
pub(super) fn remove(path: &Path) -> Result<(), RunFilesError> {
    if std::fs::metadata(path.join(JUDGE_FILE)).is_ok_and(|record| record.len() > 0) {
        return remove_each(path, removable(path)?);
    }
    std::fs::remove_dir_all(path).map_err(RunFilesError::file(path))
}

/// Names in a directory, but for the lock and the judge's record.
fn removable(path: &Path) -> Result<Vec<OsString>, RunFilesError> {
    let entries = std::fs::read_dir(path).map_err(RunFilesError::file(path))?;
    let names = entries.flatten().map(|entry| entry.file_name());
    Ok(names.filter(|name| name != lock::FILE && name != JUDGE_FILE).collect())
}

fn remove_each(path: &Path, mut others: Vec<OsString>) -> Result<(), RunFilesError> {
    // The marker of an incomplete start goes last, so that an interrupted removal can be repeated.
    others.sort_by_key(|name| name == INCOMPLETE_FILE);
    for name in others {
        let other = path.join(name);
        let is_folder = std::fs::symlink_metadata(&other).is_ok_and(|found| found.is_dir());
        let removed = if is_folder { std::fs::remove_dir_all(&other) } else { std::fs::remove_file(&other) };
        removed.map_err(RunFilesError::file(&other))?;
    }
    Ok(())
}

/// The name of the settings, or else that of the directory.
pub(super) fn run_id(path: &Path, configured: &str) -> Result<String, RunFilesError> {
    if !configured.is_empty() {
        return Ok(configured.to_owned());
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if is_run_name(&name) {
        return Ok(name);
    }
    let allowed = "a directory whose name is letters, digits, `-`, `_` and `.`, or run.name set";
    Err(RunFilesError::directory(path, format!("its name `{name}` cannot name a run, allowed: {allowed}")))
}

/// What a run of a recipe is called after: the last part of the recipe's name or path, without `.toml`. A version in a
/// name stays: `paper/qwen3-1.7b-dapo-balanced` gives `qwen3-1.7b-dapo-balanced`.
pub fn recipe_stem(name_or_path: &str) -> &str {
    let last = name_or_path.rsplit(['/', std::path::MAIN_SEPARATOR]).next().unwrap_or(name_or_path);
    last.strip_suffix(".toml").unwrap_or(last)
}

/// Whether a name can name a run, and with it a directory.
pub fn is_run_name(name: &str) -> bool {
    let good = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    !name.is_empty() && name.len() <= 128 && name.bytes().all(good) && !name.bytes().all(|byte| byte == b'.')
}
