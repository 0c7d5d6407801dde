//! Small files that settings point at.

use std::path::{Path, PathBuf};

/// A file named by a setting that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("`{setting}` names {path}, which cannot be used: {message}", path = path.display())]
pub struct FileError {
    /// The setting, with its path.
    pub setting: String,
    /// The file.
    pub path: PathBuf,
    /// Why not.
    pub message: String,
}

impl FileError {
    pub(crate) fn new(setting: &str, path: &Path, message: impl ToString) -> Self {
        Self { setting: setting.to_owned(), path: path.to_owned(), message: message.to_string() }
    }
}

/// The whole file.
#[cfg(feature = "tls")]
pub(crate) fn read(setting: &str, path: &Path) -> Result<Vec<u8>, FileError> {
    std::fs::read(path).map_err(|error| FileError::new(setting, path, error))
}

/// A bearer token: the file's only line.
pub(crate) fn read_token(setting: &str, path: &Path) -> Result<String, FileError> {
    let text = std::fs::read_to_string(path).map_err(|error| FileError::new(setting, path, error))?;
    let token = text.trim_end_matches(['\r', '\n']);
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(FileError::new(setting, path, "the file must hold one line of visible ASCII characters"));
    }
    Ok(token.to_owned())
}
