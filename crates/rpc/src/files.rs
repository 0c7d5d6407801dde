//! Files named by settings.

use std::path::{Path, PathBuf};

/// Longest file of certificates, in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// A file named by a setting that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("`{setting}` names {path}, which cannot be used: {message}", path = path.display())]
pub struct FileError {
    /// The setting, with its path.
    pub setting: String,
    pub path: PathBuf,
    pub message: String,
}

impl FileError {
    pub(crate) fn new(setting: &str, path: &Path, message: impl ToString) -> Self {
        Self { setting: setting.to_owned(), path: path.to_owned(), message: message.to_string() }
    }
}

pub(crate) fn read(setting: &str, path: &Path) -> Result<Vec<u8>, FileError> {
    evenkeel_host::read(path, MAX_BYTES).map_err(|error| FileError::new(setting, path, format_args!("it {error}")))
}
