//! Why a step, a checkpoint or a setting is refused.

use std::path::{Path, PathBuf};

use evenkeel_model::ModelError;

/// An error of the learner. Its text names the field and where it is, the value and what is allowed.
#[derive(Debug, thiserror::Error)]
pub enum LearnerError {
    /// A setting outside its range.
    #[error("{field} is {value}: allowed is {allowed}")]
    Setting {
        /// The setting.
        field: String,
        /// Its value.
        value: String,
        /// What is allowed.
        allowed: String,
    },

    /// A value of a request outside its range.
    #[error("{field} is {value}: allowed is {allowed}")]
    Input {
        /// The value's name, with its group, response and token.
        field: String,
        /// Its value.
        value: String,
        /// What is allowed.
        allowed: String,
    },

    /// An error of the objective.
    #[error(transparent)]
    Objective(#[from] evenkeel_objective::Error),

    /// An error of the model.
    #[error(transparent)]
    Model(ModelError),

    /// A file that cannot be read or written.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: std::io::Error,
    },

    /// A checkpoint that is damaged, or belongs to another run.
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

/// An input that the model refuses, with where in the request it is.
pub(crate) fn input_error(error: ModelError, location: &str) -> LearnerError {
    match error {
        ModelError::Input { field, value, allowed } => {
            LearnerError::input(format!("{field} in {location}"), value, allowed)
        }
        other => other.into(),
    }
}

impl From<ModelError> for LearnerError {
    fn from(error: ModelError) -> Self {
        match error {
            // The objective's own errors pass through the model as those of a loss.
            ModelError::Loss(source) => match source.downcast::<evenkeel_objective::Error>() {
                Ok(error) => Self::Objective(*error),
                Err(source) => Self::Model(ModelError::Loss(source)),
            },
            other => Self::Model(other),
        }
    }
}

impl From<candle_core::Error> for LearnerError {
    fn from(error: candle_core::Error) -> Self {
        Self::Model(ModelError::from(error))
    }
}
