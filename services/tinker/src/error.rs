//! Refused requests, and operations that failed.

use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use evenkeel_proto::FieldError;
use evenkeel_rpc::client::ClientError;
use evenkeel_rpc::server::FileError;
use evenkeel_trust::{SamplerFault, WeightsFault};
use serde_json::json;
use tonic::{Code, Status};

/// Whose fault a failure is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Category {
    User,
    Server,
}

impl Category {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Server => "server",
        }
    }
}

/// Why an operation failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) category: Category,
    pub(crate) message: String,
    /// For programs: why, where there is a name for it.
    pub(crate) reason: Option<&'static str>,
}

/// The reason of samples that are refused because an engine has other weights.
pub(crate) const WEIGHTS_UNPROVEN: &str = "WEIGHTS_UNPROVEN";

/// The reason of samples that are refused because the weights themselves have blown up.
pub(crate) const WEIGHTS_DIVERGED: &str = "WEIGHTS_DIVERGED";

impl Failure {
    pub(crate) fn user(message: impl Into<String>) -> Self {
        Self { category: Category::User, message: message.into(), reason: None }
    }

    pub(crate) fn server(message: impl Into<String>) -> Self {
        Self { category: Category::Server, message: message.into(), reason: None }
    }
}

impl From<WeightsFault> for Failure {
    /// Without the number of the load, which no client knows.
    fn from(fault: WeightsFault) -> Self {
        let (reason, message) = match fault {
            WeightsFault::Diverged { mean, .. } => {
                let what = "with these weights the learner's mean log-probability of a token is";
                (WEIGHTS_DIVERGED, format!("{what} {mean:.0}: an update has blown them up"))
            }
            WeightsFault::Unproven { engine, message, .. } => {
                (WEIGHTS_UNPROVEN, format!("engine {engine} does not have the weights that it reports: {message}"))
            }
        };
        Self { reason: Some(reason), ..Self::server(message) }
    }
}

impl From<SamplerFault> for Failure {
    fn from(fault: SamplerFault) -> Self {
        Self::server(fault.to_string())
    }
}

impl From<FieldError> for Failure {
    fn from(error: FieldError) -> Self {
        Self::user(error.to_string())
    }
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        let message = status.message().to_owned();
        match status.code() {
            Code::InvalidArgument | Code::FailedPrecondition | Code::NotFound | Code::AlreadyExists => {
                Self::user(message)
            }
            _ => Self::server(message),
        }
    }
}

/// A request that is refused at once.
#[derive(Debug)]
pub(crate) struct ApiError {
    pub(crate) status: StatusCode,
    pub(crate) message: String,
}

impl ApiError {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    pub(crate) fn bad(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, message)
    }

    pub(crate) fn overloaded() -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, "too many requests wait (max_requests, max_memory): try again later")
    }
}

impl From<FieldError> for ApiError {
    fn from(error: FieldError) -> Self {
        Self::bad(error.to_string())
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let category = if self.status.is_server_error() { Category::Server } else { Category::User };
        let body = json!({"error": self.message, "detail": self.message, "category": category.name()}).to_string();
        (self.status, [(CONTENT_TYPE, "application/json")], body).into_response()
    }
}

/// Why the front does not start.
#[derive(Debug, thiserror::Error)]
pub enum TinkerError {
    #[error("tinker.{0}")]
    Setting(FieldError),
    /// A file that a setting names cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// The address cannot be listened on.
    #[error("tinker.listen: {address}: {source}")]
    Listen {
        address: String,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// What survived the last start cannot be read or written.
    #[error("tinker.folder: {0}")]
    State(std::io::Error),
    /// The learner or the generation service cannot be connected to as the settings say.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The learner or the generation service refuses to begin.
    #[error("{what}: {message}")]
    Backend {
        /// What was to be done.
        what: &'static str,
        message: String,
    },
    /// The engines do not fit the learner.
    #[error("generation.endpoints: {0}")]
    Engines(String),
    /// The tokenizer of the model cannot be read.
    #[error(transparent)]
    Tokenizer(#[from] evenkeel_model_folder::FolderError),
}
