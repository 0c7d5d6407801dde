//! Errors of the service.

use evenkeel_proto::FieldError;
use evenkeel_rpc::server::ServerError;

/// Errors of the service.
#[derive(Debug, thiserror::Error)]
pub enum EnvironmentError {
    /// An invalid setting.
    #[error("environment.{0}")]
    Setting(FieldError),
    /// The port is in use, a file is missing, or the transport failed.
    #[error(transparent)]
    Server(#[from] ServerError),
}
