//! Errors of the agent.

use std::path::PathBuf;

use evenkeel_proto::FieldError;
use evenkeel_rpc::client::ClientError;
use evenkeel_rpc::server::ServerError;

/// Why an agent does not start.
#[derive(Debug, thiserror::Error)]
pub enum WeightsAgentError {
    #[error("{0}")]
    Setting(FieldError),
    /// The learner's address, or a file for its client, cannot be used.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The port is in use, a file is missing, or the transport failed.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// The folder cannot be made or written.
    #[error("{}: {source}", path.display())]
    Folder { path: PathBuf, source: std::io::Error },
}
