//! Why the service did not start.

use std::path::PathBuf;
use std::time::Duration;

use evenkeel_config::human;
use evenkeel_proto::FieldError;
use evenkeel_rpc::client::ClientError;
use evenkeel_rpc::server::ServerError;

/// Why the service could not start.
#[derive(Debug, thiserror::Error)]
pub enum GenerationError {
    #[error("setting `generation.{0}`")]
    Setting(FieldError),
    /// A port that is taken, or a file in the server's settings that cannot be used.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// A file in the settings of agents that cannot be used.
    #[error(transparent)]
    Agents(#[from] ClientError),
    /// A file in the engines' settings that cannot be used.
    #[error("cannot use {path} (setting `generation.{setting}`): {message}", path = path.display())]
    File { setting: &'static str, path: PathBuf, message: String },
    /// An engine that is up, but whose samples would bias or break training.
    #[error("engine {endpoint}: {refusal}")]
    Engine {
        endpoint: String,
        /// What is wrong and what is allowed.
        refusal: FieldError,
    },
    /// No HTTP client for an engine can be made of the settings.
    #[error("engine {endpoint}: {message}")]
    Client { endpoint: String, message: String },
    /// No engine answered in time.
    #[error(
        "no engine answered within {} (setting `generation.engine.startup_timeout`): {last_errors}",
        human(*waited)
    )]
    NoEngine {
        /// How long the service waited.
        waited: Duration,
        /// The last error of each engine.
        last_errors: String,
    },
}
