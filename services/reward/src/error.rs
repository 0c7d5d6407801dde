//! Errors of the service.

use evenkeel_proto::FieldError;
use evenkeel_rpc::client::ClientError;
use evenkeel_rpc::server::ServerError;

use crate::verifier::SandboxError;

/// Errors of the service.
#[derive(Debug, thiserror::Error)]
pub enum RewardError {
    #[error("reward.{0}")]
    Setting(FieldError),
    /// An invalid setting of a gateway.
    #[error("gateway.{0}")]
    Gateway(FieldError),
    /// A gateway cannot connect to workers as its settings say.
    #[error(transparent)]
    Client(ClientError),
    /// The sandbox could not be prepared.
    #[error("reward.code: {0}")]
    Sandbox(#[from] SandboxError),
    /// A setting of a file of reward functions, by its whole name.
    #[error("{0}")]
    FunctionSetting(FieldError),
    /// A file of reward functions cannot be loaded.
    #[error("{field}: {message}")]
    Functions {
        /// The whole name of its `path`, or of its `python` where the interpreter cannot be started.
        field: String,
        message: String,
    },
    /// The judge cannot be used: its record, or its HTTP client.
    #[error("reward.judge: {0}")]
    Judge(evenkeel_judge::JudgeError),
    /// A defect: the sandbox's preparation panicked.
    #[error("reward.code: preparing the sandbox: {0}")]
    Preparation(tokio::task::JoinError),
    /// A thread could not be started.
    #[error("cannot start a thread for programs: {0}")]
    Threads(std::io::Error),
    /// The port is in use, a file is missing, or the transport failed.
    #[error(transparent)]
    Server(#[from] ServerError),
}
