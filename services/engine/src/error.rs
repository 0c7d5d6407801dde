//! Why an engine could not start or load new weights.

use std::io;
use std::path::PathBuf;

use evenkeel_errors::FieldError;
use evenkeel_model::ModelError;
use evenkeel_model_folder::FolderError;
use evenkeel_rpc::server::FileError;
use rayon::ThreadPoolBuildError;
use tokio::task::JoinError;

/// An error of the engine. Errors of requests are reported to their clients only.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error(transparent)]
    Setting(#[from] FieldError),
    /// A file that a setting names.
    #[error(transparent)]
    Named(#[from] FileError),
    /// The port is in use, or the address is invalid or not local.
    #[error("cannot listen on {address} (setting `listen`): {source}")]
    Listen { address: String, source: io::Error },
    /// The configuration or the weights of the model.
    #[error("{folder}: {source}")]
    Model {
        folder: PathBuf,
        /// What is wrong with it.
        source: ModelError,
    },
    /// An invalid file in the model's folder.
    #[error("{path}: {reason}")]
    File {
        path: PathBuf,
        /// What is wrong with it, including the value if there is a single one.
        reason: String,
    },
    /// A file of the model's folder.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The system refused to start the scheduler's thread.
    #[error("cannot start the engine's thread: {0}")]
    SpawnThread(#[source] io::Error),
    /// The system refused to start the decoding threads.
    #[error("cannot start the engine's decoding threads: {0}")]
    ThreadPool(#[source] ThreadPoolBuildError),
    /// The task that loads a model panicked.
    #[error("loading the model failed: {0}")]
    LoadTask(#[source] JoinError),
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
