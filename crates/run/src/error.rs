//! Why a file of a run cannot be used.

use std::path::{Path, PathBuf};

use evenkeel_config::ConfigError;
use evenkeel_errors::FieldError;

/// Why a run directory was refused, or why one of its files cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum RunFilesError {
    /// A setting that does not fit the directory.
    #[error(transparent)]
    Setting(#[from] FieldError),
    /// Settings that cannot be read.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A run directory of another run, or none at all.
    #[error("run directory {}: {message}", path.display())]
    Directory {
        path: PathBuf,
        /// What is wrong, and what to do.
        message: String,
    },
    /// A file that cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// A defect of this program.
    #[error("the files of the run are at fault: {0}")]
    Defect(String),
}

impl RunFilesError {
    /// Makes an error from one of the operating system with a file.
    pub fn file(path: impl AsRef<Path>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.as_ref().to_owned();
        move |source| Self::File { path, source }
    }

    /// An error about a directory, or a file in it, that is not what it should be.
    pub fn directory(path: impl AsRef<Path>, message: impl Into<String>) -> Self {
        Self::Directory { path: path.as_ref().to_owned(), message: message.into() }
    }
}
