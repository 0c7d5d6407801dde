//! Files of a run directory: removed, replaced, named.

use std::path::Path;

use super::{INCOMPLETE_FILE, lock};
use crate::error::RunError;
use crate::settings::is_run_name;

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
    use std::io::Write;
    let temporary = path.with_extension("writing");
    let written = std::fs::File::create(&temporary).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    });
    written.and_then(|()| std::fs::rename(&temporary, path)).map_err(RunError::file(path))
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
