//! Why a folder is refused.

use std::fmt::Display;
use std::path::PathBuf;

/// A file of a model folder that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// It is missing, cannot be read, or its content is refused.
    #[error("{}: {reason}", path.display())]
    File {
        /// The file or folder.
        path: PathBuf,
        /// Why, with the value where it is one value.
        reason: String,
    },
    /// Reading stopped because nobody waits for it any more (see [`Folder::read_while`](crate::Folder::read_while)).
    #[error("reading the model folder was cancelled")]
    Cancelled,
}

impl FolderError {
    pub(crate) fn file(path: impl Into<PathBuf>, reason: impl Display) -> Self {
        Self::File { path: path.into(), reason: reason.to_string() }
    }
}
