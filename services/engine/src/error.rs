//! Why an engine could not start, or could not take new weights.

use std::io;
use std::path::PathBuf;

use evenkeel_errors::FieldError;
use evenkeel_hf::FolderError;
use evenkeel_model::ModelError;

/// An error of the engine itself. What is wrong with a request is said to its client alone.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// A setting that cannot be.
    #[error(transparent)]
    Setting(#[from] FieldError),
    /// The port is taken, the address is not ours, or it is no address.
    #[error("cannot listen on {address} (setting `listen`): {source}")]
    Listen {
        /// The setting's value.
        address: String,
        /// What the system said.
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
    /// A file of the model's folder that is not what it should be.
    #[error("{path}: {reason}")]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, with the value where it is one value.
        reason: String,
    },
    /// Another file of the model's folder.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The system would not start a thread.
    #[error("cannot start the engine's threads: {0}")]
    Thread(String),
    /// The engine has stopped, or its scheduler died.
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
