//! Files named by settings.

use std::path::{Path, PathBuf};

use evenkeel_files::Secret;

/// A file named by a setting that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("`{setting}` names {path}, which cannot be used: {message}", path = path.display())]
pub struct FileError {
    /// The setting, with its path.
    pub setting: String,
    /// The file.
    pub path: PathBuf,
    /// What is wrong.
    pub message: String,
}

impl FileError {
    pub(crate) fn new(setting: &str, path: &Path, message: impl ToString) -> Self {
        Self { setting: setting.to_owned(), path: path.to_owned(), message: message.to_string() }
    }
}

/// Reads a file.
pub(crate) fn read(setting: &str, path: &Path) -> Result<Vec<u8>, FileError> {
    std::fs::read(path).map_err(|error| FileError::new(setting, path, error))
}

/// Reads a bearer token, the only line of the file.
pub(crate) fn read_token(setting: &str, path: &Path) -> Result<Secret, FileError> {
    Secret::read(path).map_err(|error| FileError::new(setting, path, format_args!("it {error}")))
}
