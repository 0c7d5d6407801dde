//! Files of a run directory: removed, replaced, named.

use std::path::Path;

use evenkeel_files::read_optional;
use serde_json::Value;

use super::{INCOMPLETE_FILE, lock};
use crate::error::RunError;
use crate::settings::is_run_name;

/// Largest JSON file of a run directory, in bytes.
const MAX_JSON_BYTES: u64 = 16 << 20;

/// Refuses a directory with anything in it, except for what an incomplete start left there, which is removed.
pub(super) fn clear_incomplete(path: &Path) -> Result<(), RunError> {
    let entries = std::fs::read_dir(path).map_err(RunError::file(path))?;
    let mut others: Vec<std::ffi::OsString> = entries.flatten().map(|entry| entry.file_name()).collect();
    others.retain(|name| name != lock::FILE);
    if !others.iter().any(|name| name == INCOMPLETE_FILE) {
        return match others.first() {
            None => Ok(()),
            Some(other) => {
                let message = format!("holds `{}`, allowed: an empty or a new directory", other.to_string_lossy());
                Err(RunError::directory(path, message))
            }
        };
    }
    // The marker of an incomplete start goes last, so that an interrupted removal can be repeated.
    others.sort_by_key(|name| name == INCOMPLETE_FILE);
    for name in others {
        let other = path.join(name);
        let is_folder = std::fs::symlink_metadata(&other).is_ok_and(|found| found.is_dir());
        let removed = if is_folder { std::fs::remove_dir_all(&other) } else { std::fs::remove_file(&other) };
        removed.map_err(RunError::file(&other))?;
    }
    Ok(())
}

/// Replaces a file as a whole: readers see the old or the new one.
pub(crate) fn replace(path: &Path, text: &str) -> Result<(), RunError> {
    evenkeel_files::replace(path, text).map_err(RunError::file(path))
}

/// A small JSON file; `None` where nothing has that name.
pub(crate) fn optional_json(path: &Path) -> Result<Option<Value>, RunError> {
    let failed = |error: std::io::Error| RunError::file(path)(error);
    let Some(bytes) = read_optional(path, MAX_JSON_BYTES).map_err(|error| failed(std::io::Error::other(error)))? else {
        return Ok(None);
    };
    serde_json::from_slice(&bytes).map(Some).map_err(|error| {
        let message = format!("is not JSON: {error}");
        failed(std::io::Error::new(std::io::ErrorKind::InvalidData, message))
    })
}

/// The name of the settings, or else that of the directory.
pub(super) fn run_id(path: &Path, configured: &str) -> Result<String, RunError> {
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
