//! Errors of a model's configuration, its files, and arguments of its functions.

use std::fmt::Display;
use std::path::PathBuf;

use evenkeel_errors::FieldError;
use evenkeel_host::Size;

use crate::failure::DeviceFailure;

/// An error of this crate. The text names the field, the value and what is allowed.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// A setting of `config.json` that is missing, out of range or of the wrong type.
    #[error("config.json: {0}")]
    Config(FieldError),

    /// A `config.json` that cannot be read.
    #[error(transparent)]
    Folder(#[from] evenkeel_model_folder::FolderError),

    /// A feature that the configuration uses and this crate does not support.
    #[error("config.json: `{field}` = {value} is not supported: {reason}")]
    Unsupported {
        /// The key in `config.json`.
        field: String,
        /// The value found, as JSON.
        value: String,
        /// What supporting it would take.
        reason: String,
    },

    /// A file that does not exist, or cannot be read or written.
    #[error("{path}: {source}")]
    File {
        /// Path of the file.
        path: PathBuf,
        /// The operating system's error.
        source: std::io::Error,
    },

    /// A file with invalid content.
    #[error("{path}: {reason}")]
    Corrupt {
        /// Path of the file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },

    /// A tensor that is missing, superfluous, or of the wrong shape or type.
    #[error("{path}: tensor `{tensor}`: {reason}")]
    Tensor {
        /// The file or folder.
        path: PathBuf,
        /// Name of the tensor.
        tensor: String,
        /// What is wrong with it.
        reason: String,
    },

    /// A tensor with values that are not finite, which no computation gets rid of.
    #[error(
        "{path}: tensor `{tensor}`: {count} values are not finite, the first is {value} at {index:?}, allowed: finite \
        numbers"
    )]
    NotFinite {
        /// The file or folder.
        path: PathBuf,
        /// Name of the tensor.
        tensor: String,
        /// How many values are not finite.
        count: usize,
        /// Indices of the first value that is not finite.
        index: Vec<usize>,
        /// The first value that is not finite.
        value: f32,
    },

    /// An argument outside its range.
    #[error(transparent)]
    Input(FieldError),

    /// A trainable parameter that no backward pass reached; the step must not be applied.
    #[error("parameter `{0}` received no gradient in this step: refusing to update")]
    NoGradient(String),

    /// Memory that was refused.
    #[error("out of {memory}: {} requested ({reason})", Size(*requested))]
    OutOfMemory {
        /// Kind of memory: the device's, or page-locked memory of the host.
        memory: String,
        /// Bytes that were requested.
        requested: u64,
        /// What the driver said, or what there was.
        reason: String,
    },

    /// A failure of the tensor library (a missing kernel).
    #[error(transparent)]
    Candle(candle_core::Error),

    /// A GPU that can no longer be used.
    #[error(transparent)]
    Device(DeviceFailure),

    /// Logits with a NaN or an infinity.
    #[error("the model's logits are not finite: its weights, or what it computed from them, are broken")]
    NotFiniteLogits,

    /// The error of a caller's loss.
    #[error(transparent)]
    Loss(BoxError),

    /// A micro-batch that was given up because one before it failed. The error of that one is returned instead.
    #[error("a micro-batch before this one has failed")]
    Abandoned,
}

/// An error of a caller's loss.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A result with the crate's error.
pub type Result<T, E = ModelError> = std::result::Result<T, E>;

impl ModelError {
    /// Creates a [`ModelError::Input`] error.
    pub fn input(field: impl Into<String>, value: impl Display, allowed: impl Into<String>) -> Self {
        Self::Input(FieldError::new(field, value, allowed))
    }

    /// Creates a [`ModelError::OutOfMemory`] error.
    pub fn out_of_memory(memory: impl Into<String>, requested: u64, reason: impl Display) -> Self {
        Self::OutOfMemory { memory: memory.into(), requested, reason: reason.to_string() }
    }

    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { path, source }
    }
}

impl From<candle_core::Error> for ModelError {
    fn from(error: candle_core::Error) -> Self {
        match DeviceFailure::named_in(&error.to_string()) {
            Some(failure) => Self::Device(failure),
            None => Self::Candle(error),
        }
    }
}
