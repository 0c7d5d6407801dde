//! Why an engine could not start or load new weights.

use std::io;
use std::path::PathBuf;

use evenkeel_model::ModelError;
use evenkeel_proto::FieldError;

/// An error of the engine itself. Errors in requests are only reported to their clients.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// An invalid setting.
    #[error(transparent)]
    Setting(#[from] FieldError),
    /// The port is taken, or the address is invalid or not local.
    #[error("cannot listen on {address} (setting `listen`): {source}")]
    Listen {
        /// The setting's value.
        address: String,
        /// The system's error.
        source: io::Error,
    },
    /// The configuration or the weights of the model.
    #[error("{folder}: {source}")]
    Model {
        /// The model's folder.
        folder: PathBuf,
        /// What is wrong with it.
        source: ModelError,
    },
    /// An invalid file in the model's folder.
    #[error("{path}: {reason}")]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, with the value if it is a single one.
        reason: String,
    },
    /// The system refused to start a thread.
    #[error("cannot start the engine's threads: {0}")]
    Thread(String),
    /// The engine has stopped, or its scheduler panicked.
    #[error("the engine has stopped")]
    Stopped,
}

impl EngineError {
    pub(crate) fn file(path: impl Into<PathBuf>, reason: impl Into<String>) -> Self {
        Self::File { path: path.into(), reason: reason.into() }
    }

    pub(crate) fn model(folder: impl Into<PathBuf>) -> impl FnOnce(ModelError) -> Self {
        let folder = folder.into();
        move |source| Self::Model { folder, source }
    }
}
