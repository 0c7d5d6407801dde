//! Why the service could not start or go on.

use evenkeel_proto::FieldError;
use evenkeel_rpc::server::ServerError;

/// Why the service could not start or go on.
#[derive(Debug, thiserror::Error)]
pub enum RewardError {
    /// A setting that cannot be.
    #[error("reward.{0}")]
    Setting(FieldError),
    /// The sandbox for programs could not be made ready.
    #[error("reward.code: {0}")]
    Sandbox(String),
    /// There are no threads.
    #[error("no thread for programs: {0}")]
    Threads(std::io::Error),
    /// The port is taken, a file is missing, or the transport failed.
    #[error(transparent)]
    Server(#[from] ServerError),
}
