//! Errors of the service.

use std::path::PathBuf;

use evenkeel_proto::FieldError;
use evenkeel_rpc::server::ServerError;

/// Errors of the service.
#[derive(Debug, thiserror::Error)]
pub enum EnvironmentError {
    /// An invalid setting.
    #[error("environment.{0}")]
    Setting(FieldError),
    /// A Python file whose environment cannot be played.
    #[error("environment.files: {path}: {message}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        message: String,
    },
    /// An OpenEnv server that cannot be used.
    #[error("environment.openenv: {address}: {message}")]
    OpenEnv {
        /// Its address.
        address: String,
        /// Why.
        message: String,
    },
    /// The port is in use, a file is missing, or the transport failed.
    #[error(transparent)]
    Server(#[from] ServerError),
}
