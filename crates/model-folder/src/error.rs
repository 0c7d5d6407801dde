//! Why a folder is refused.

use std::fmt::Display;
use std::io;
use std::path::PathBuf;
use std::string::FromUtf8Error;

use evenkeel_errors::FieldError;
use evenkeel_host::ReadError;

/// A file of a model folder that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// The file is missing, cannot be read, or has content that is refused.
    #[error("{}: {problem}", path.display())]
    File {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        problem: FileProblem,
    },
    /// Reading stopped because nobody waits for it any more (see [`Folder::read_while`](crate::Folder::read_while)).
    #[error("reading the model folder was cancelled")]
    Cancelled,
}

/// What is wrong with a file. The message continues a sentence that begins with the file's name.
#[derive(Debug, thiserror::Error)]
pub enum FileProblem {
    /// The file is missing, and the folder must have it.
    #[error("is missing, allowed: {0}")]
    Missing(&'static str),
    /// An error of the operating system.
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
    /// The path is not a regular file, or one that is too large.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Bytes that are not text.
    #[error("is not UTF-8: {0}")]
    Utf8(#[from] FromUtf8Error),
    /// Text that is not JSON.
    #[error("is not JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// JSON that does not say which file has which tensor.
    #[error("is not a weight map: {0}")]
    WeightMap(#[source] serde_json::Error),
    /// A value that is not allowed.
    #[error(transparent)]
    Field(#[from] FieldError),
    /// A safetensors file that is not complete.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// Content that another library refused, in its words.
    #[error("{0}")]
    Refused(String),
}

/// What is wrong with the header of a safetensors file.
#[derive(Debug, thiserror::Error)]
pub enum HeaderError {
    /// Longer than what is read.
    #[error("its header has {bytes} bytes, allowed: at most {max}")]
    TooLong {
        bytes: u64,
        /// The longest that is read.
        max: u64,
    },
    /// The content is not an object of tensors.
    #[error("its header is not JSON: {0}")]
    Json(#[source] serde_json::Error),
    /// A tensor without a shape or without offsets.
    #[error("tensor {name}: {error}")]
    Tensor {
        name: String,
        /// What is wrong with its entry.
        #[source]
        error: serde_json::Error,
    },
    /// A file that was cut.
    #[error("has {found} bytes, its header says {expected}")]
    Short {
        found: u64,
        /// The length with all tensors.
        expected: u64,
    },
}

impl FolderError {
    /// A problem of a file.
    pub fn of(path: impl Into<PathBuf>, problem: impl Into<FileProblem>) -> Self {
        Self::File { path: path.into(), problem: problem.into() }
    }

    /// A file whose content another library refused, in its words.
    pub fn file(path: impl Into<PathBuf>, reason: impl Display) -> Self {
        Self::of(path, FileProblem::Refused(reason.to_string()))
    }
}
