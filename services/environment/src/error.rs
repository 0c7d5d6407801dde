//! Errors of the service.

use std::path::PathBuf;

use evenkeel_proto::FieldError;
use evenkeel_rpc::server::ServerError;

/// Errors of the service.
#[derive(Debug, thiserror::Error)]
pub enum EnvironmentError {
    #[error("environment.{0}")]
    Setting(FieldError),
    /// A Python file whose environment cannot be played.
    #[error("environment.files: {path}: {message}", path = path.display())]
    File { path: PathBuf, message: String },
    /// An OpenEnv server that cannot be used.
    #[error("environment.openenv: {address}: {message}")]
    OpenEnv { address: String, message: String },
    /// An agent that cannot be played.
    #[error("environment.agents: {path}: {message}", path = path.display())]
    Agent { path: PathBuf, message: String },
    /// A taskset of verifiers that cannot be played.
    #[error("environment.verifiers: {taskset}: {message}")]
    Verifiers { taskset: String, message: String },
    /// No port for agents on loopback.
    #[error("environment.agents: no port on loopback: {0}")]
    Endpoint(std::io::Error),
    /// The port is in use, a file is missing, or the transport failed.
    #[error(transparent)]
    Server(#[from] ServerError),
}
