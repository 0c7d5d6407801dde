//! Why the service did not start.

use std::path::PathBuf;

use evenkeel_proto::FieldError;
use evenkeel_rpc::server::ServerError;

/// Refusals and failures before anything is served.
#[derive(Debug, thiserror::Error)]
pub enum GenerationError {
    /// A setting cannot be.
    #[error("setting `generation.{0}`")]
    Setting(FieldError),
    /// A port is taken, or a file of the server's settings cannot be used.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// A file of the engines' settings cannot be used.
    #[error("cannot use {path} (setting `generation.{setting}`): {message}", path = path.display())]
    File {
        /// The setting.
        setting: &'static str,
        /// Its value.
        path: PathBuf,
        /// What is wrong.
        message: String,
    },
    /// An engine answers, and sampling from it would be wrong.
    #[error("engine {endpoint}: {refusal}")]
    Engine {
        /// Its URL.
        endpoint: String,
        /// What it is and what it may be.
        refusal: FieldError,
    },
    /// No engine answered in time.
    #[error("no engine answered within {waited_ms} ms (setting `generation.engine.startup_timeout_ms`): {last_errors}")]
    NoEngine {
        /// How long they were tried.
        waited_ms: u64,
        /// What each said last.
        last_errors: String,
    },
}
