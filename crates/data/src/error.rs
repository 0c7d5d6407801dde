//! Why a data set cannot be used, and that loading it was cancelled.

use std::path::{Path, PathBuf};

use evenkeel_proto::FieldError;

/// Why a data set cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// A file that cannot be read, or a row in it.
    #[error("{}: {message}", path.display())]
    File {
        path: PathBuf,
        /// What is wrong with it, with the line where one is to blame.
        message: String,
    },
    /// A data set without what a run needs.
    #[error(transparent)]
    Field(#[from] FieldError),
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}

impl DataError {
    pub(crate) fn file(path: &Path, message: impl Into<String>) -> Self {
        Self::File { path: path.to_owned(), message: message.into() }
    }
}

/// Whether the reader of files was told to stop; asked now and then, wherever the answer comes from.
pub type Cancel<'a> = &'a (dyn Fn() -> bool + Sync);

/// Loading was cancelled before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("loading was cancelled")]
pub struct Cancelled;

impl Cancelled {
    /// # Errors
    /// Where loading was cancelled.
    pub fn check(cancel: Cancel<'_>) -> Result<(), Self> {
        if cancel() { Err(Self) } else { Ok(()) }
    }
}
