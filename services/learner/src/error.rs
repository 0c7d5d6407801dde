//! Why a step, a checkpoint or a setting is refused.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use evenkeel_model::ModelError;
use evenkeel_proto::FieldError;

/// An error of the learner. Its message names the location, the field, its value and what is allowed.
#[derive(Debug, thiserror::Error)]
pub enum LearnerError {
    /// A setting outside its range.
    #[error(transparent)]
    Setting(FieldError),

    /// A value of a request outside its range.
    #[error(transparent)]
    Input(FieldError),

    /// An error of the objective.
    #[error(transparent)]
    Objective(#[from] evenkeel_objective::Error),

    /// An error of the model.
    #[error(transparent)]
    Model(ModelError),

    /// More updates in a row were skipped than `max_skipped_updates` allows.
    #[error(
        "skipped updates in a row: {count}, allowed: fewer than max_skipped_updates = {limit}; the last one was skipped for \
         {reason}. Weights are those of version {version}: go back to an earlier checkpoint, or lower the learning rate"
    )]
    SkippedUpdates {
        /// Skipped updates in a row.
        count: u64,
        /// `max_skipped_updates`.
        limit: u64,
        /// Why the last one was skipped, as reports have it.
        reason: &'static str,
        /// The version of the weights, which have not changed since the step began.
        version: u64,
    },

    /// Memory that was refused.
    #[error("{source} in {phase}; the plan had said {planned}; to need less, {advice}")]
    OutOfMemory {
        /// What the learner was doing.
        phase: String,
        /// What the memory plan had said.
        planned: String,
        /// Settings to lower.
        advice: String,
        /// What was asked for.
        source: Box<ModelError>,
    },

    /// A file of a model folder.
    #[error(transparent)]
    Folder(#[from] evenkeel_hf::FolderError),

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
    pub(crate) fn setting(field: impl Into<String>, value: impl Display, allowed: impl Into<String>) -> Self {
        Self::Setting(FieldError::new(field, value, allowed))
    }

    pub(crate) fn input(field: impl Into<String>, value: impl Display, allowed: impl Into<String>) -> Self {
        Self::Input(FieldError::new(field, value, allowed))
    }

    pub(crate) fn file(path: impl AsRef<Path>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.as_ref().to_owned();
        move |source| Self::File { path, source }
    }

    pub(crate) fn checkpoint(path: impl AsRef<Path>, reason: impl ToString) -> Self {
        Self::Checkpoint { path: path.as_ref().to_owned(), reason: reason.to_string() }
    }
}

/// An input that the model refuses, with its location in the request.
pub(crate) fn input_error(error: ModelError, location: &str) -> LearnerError {
    match error {
        ModelError::Input(error) => {
            LearnerError::input(format!("{location}: {}", error.field), error.value, error.allowed)
        }
        other => other.into(),
    }
}

impl From<ModelError> for LearnerError {
    fn from(error: ModelError) -> Self {
        match error {
            // Errors of the objective come back from the model as those of a loss.
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
