//! Why a step, a checkpoint or a setting is refused.

use std::path::{Path, PathBuf};

use evenkeel_model::ModelError;

/// An error of the learner. Its text names the field, where it stands, the value and what is allowed.
#[derive(Debug, thiserror::Error)]
pub enum LearnerError {
    /// A setting outside its range.
    #[error("{field} is {value}: allowed is {allowed}")]
    Setting {
        /// The setting.
        field: String,
        /// What it was.
        value: String,
        /// What it may be.
        allowed: String,
    },

    /// A value of a request outside its range.
    #[error("{field} is {value}: allowed is {allowed}")]
    Input {
        /// What the value is, with its group, response and token.
        field: String,
        /// What it was.
        value: String,
        /// What it may be.
        allowed: String,
    },

    /// What the objective refuses.
    #[error(transparent)]
    Objective(#[from] evenkeel_objective::Error),

    /// What the model refuses.
    #[error(transparent)]
    Model(#[from] ModelError),

    /// A file of a model folder.
    #[error(transparent)]
    Folder(#[from] evenkeel_hf::FolderError),

    /// A file that cannot be read or written.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },

    /// A checkpoint that is not what was once written, or is of another run.
    #[error("checkpoint {path}: {reason}")]
    Checkpoint {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

/// The crate's result.
pub type Result<T, E = LearnerError> = std::result::Result<T, E>;

impl LearnerError {
    pub(crate) fn setting(field: impl Into<String>, value: impl ToString, allowed: impl Into<String>) -> Self {
        Self::Setting { field: field.into(), value: value.to_string(), allowed: allowed.into() }
    }

    pub(crate) fn input(field: impl Into<String>, value: impl ToString, allowed: impl Into<String>) -> Self {
        Self::Input { field: field.into(), value: value.to_string(), allowed: allowed.into() }
    }

    pub(crate) fn file(path: impl AsRef<Path>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.as_ref().to_owned();
        move |source| Self::File { path, source }
    }

    pub(crate) fn checkpoint(path: impl AsRef<Path>, reason: impl ToString) -> Self {
        Self::Checkpoint { path: path.as_ref().to_owned(), reason: reason.to_string() }
    }
}

impl From<candle_core::Error> for LearnerError {
    fn from(error: candle_core::Error) -> Self {
        Self::Model(error.into())
    }
}
