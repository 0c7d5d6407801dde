//! Files of a run directory are files.

use std::path::Path;

use crate::error::RunError;

/// Refuses a pipe, a device, a socket or a folder in the place of a file of a run directory: opening it may wait for ever.
pub(super) fn refuse_other_than_file(directory: &Path, name: &str) -> Result<(), RunError> {
    match std::fs::metadata(directory.join(name)) {
        Ok(found) if !found.is_file() => {
            Err(RunError::directory(directory, format!("{name} is no regular file, allowed: one that the run wrote")))
        }
        _ => Ok(()),
    }
}
