//! Why a judge cannot be used.

use std::io;
use std::path::PathBuf;

use evenkeel_proto::FieldError;

/// A judge that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum JudgeError {
    /// A setting of `reward.judge`, or a file that one names.
    #[error(transparent)]
    Setting(#[from] FieldError),
    /// The record of verdicts cannot be read or written.
    #[error("{}: {source}", path.display())]
    Record {
        /// Path of the record.
        path: PathBuf,
        /// What is wrong with it.
        source: io::Error,
    },
    /// The HTTP client cannot be built.
    #[error("endpoint: {0}")]
    Client(String),
}
