//! Why a data set cannot be used, and how loading one is cancelled.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use evenkeel_proto::FieldError;

/// Why a data set cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// A file that cannot be read, or a row in it.
    #[error("{}: {message}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, with the line where one is to blame.
        message: String,
    },
    /// A data set without what a run needs.
    #[error(transparent)]
    Field(#[from] FieldError),
    /// Loading was cancelled.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}

impl DataError {
    pub(crate) fn file(path: &Path, message: impl Into<String>) -> Self {
        Self::File { path: path.to_owned(), message: message.into() }
    }
}

/// Loading was cancelled before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("loading was cancelled")]
pub struct Cancelled;

/// Cancels loading. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Asks for it; loading ends soon after.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// A guard that asks for it when it is dropped.
    pub fn drop_guard(&self) -> CancelGuard {
        CancelGuard(self.clone())
    }

    /// # Errors
    /// Where it was asked for.
    pub fn check(&self) -> Result<(), Cancelled> {
        if self.0.load(Ordering::Acquire) { Err(Cancelled) } else { Ok(()) }
    }
}

/// Cancels loading when it is dropped; see [`Cancel::drop_guard`].
#[derive(Debug)]
#[must_use]
pub struct CancelGuard(Cancel);

impl Drop for CancelGuard {
    fn drop(&mut self) {
        self.0.cancel();
    }
}
