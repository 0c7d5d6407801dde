//! Files that are read and replaced as a whole.

use std::path::Path;

use evenkeel_host::read_optional;
use serde::Serialize;
use serde_json::Value;

use crate::error::RunFilesError;

/// Largest JSON file of a run directory, in bytes.
const MAX_JSON_BYTES: u64 = 16 << 20;

/// Refuses a pipe, a device, a socket or a folder in the place of a file of a run directory: opening it may wait for
/// ever.
pub(crate) fn refuse_other_than_file(directory: &Path, name: &str) -> Result<(), RunFilesError> {
    match std::fs::metadata(directory.join(name)) {
        Ok(found) if !found.is_file() => Err(RunFilesError::directory(
            directory,
            format!("{name} is no regular file, allowed: one that the run wrote"),
        )),
        _ => Ok(()),
    }
}

/// Replaces a file as a whole: readers see the old or the new one.
///
/// # Errors
/// A file that cannot be written.
pub fn replace(path: &Path, text: &str) -> Result<(), RunFilesError> {
    evenkeel_host::replace(path, text).map_err(RunFilesError::file(path))
}

/// A small JSON file; `None` where nothing has that name.
pub(crate) fn optional_json(path: &Path) -> Result<Option<Value>, RunFilesError> {
    let failed = |error: std::io::Error| RunFilesError::file(path)(error);
    let Some(bytes) = read_optional(path, MAX_JSON_BYTES).map_err(|error| failed(std::io::Error::other(error)))? else {
        return Ok(None);
    };
    serde_json::from_slice(&bytes).map(Some).map_err(|error| {
        let message = format!("is not JSON: {error}");
        failed(std::io::Error::new(std::io::ErrorKind::InvalidData, message))
    })
}

/// Replaces a file by a value as JSON.
pub(crate) fn replace_json(path: &Path, value: &impl Serialize) -> Result<(), RunFilesError> {
    replace(path, &pretty(value)?)
}

/// A value as JSON for people: a line for each key.
pub(crate) fn pretty(value: &impl Serialize) -> Result<String, RunFilesError> {
    let text = serde_json::to_string_pretty(value).map_err(|error| RunFilesError::Defect(error.to_string()))?;
    Ok(text + "\n")
}
