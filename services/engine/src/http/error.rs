//! Error responses in vLLM's form: `{"error": {"message", "type", "param", "code"}}`.

use axum::body::Body;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use evenkeel_errors::FieldError;
use evenkeel_model_folder::TextError;
use serde_json::json;

use crate::error::EngineError;

/// Maximum number of malformed fields that one message lists.
const MAX_LISTED: usize = 10;

/// The kind of an error, in vLLM's two styles: names of exceptions, and reason phrases of statuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ErrorKind {
    /// A value of the right type that is not allowed.
    InvalidValue,
    /// The body, or a field of it, cannot be parsed.
    Malformed,
    /// Another model was requested.
    NotFound,
    /// The queue is full.
    Busy,
    /// Not the client's fault.
    Internal,
}

impl ErrorKind {
    /// As vLLM spells it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::InvalidValue => "BadRequestError",
            Self::Malformed => "Bad Request",
            Self::NotFound => "NotFoundError",
            Self::Busy => "Service Unavailable",
            Self::Internal => "InternalServerError",
        }
    }

    fn status(self) -> StatusCode {
        match self {
            Self::InvalidValue | Self::Malformed => StatusCode::BAD_REQUEST,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::Busy => StatusCode::SERVICE_UNAVAILABLE,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

/// An error response. The refusal of a field is made of a [`FieldError`], which cuts and escapes the client's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ApiError {
    pub(crate) kind: ErrorKind,
    /// The invalid field, if there is a single one.
    pub(crate) param: Option<String>,
    pub(crate) message: String,
}

impl ApiError {
    fn new(kind: ErrorKind, param: Option<&str>, message: impl Into<String>) -> Self {
        Self { kind, param: param.map(str::to_owned), message: message.into() }
    }

    /// A value of the right type that is not allowed.
    pub(crate) fn bad(param: Option<&str>, message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidValue, param, message)
    }

    /// A malformed body. vLLM writes the status's reason phrase as the type.
    pub(crate) fn malformed(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Malformed, None, message)
    }

    /// A field of the wrong type, by its path within the request: `body.n`.
    pub(crate) fn malformed_field(error: FieldError) -> Self {
        Self::malformed_fields(&[error])
    }

    /// Fields of the wrong type, listed like vLLM's; the first is the `param`.
    pub(crate) fn malformed_fields(errors: &[FieldError]) -> Self {
        let count = errors.len();
        let mut message = format!("{count} validation error{}:", if count == 1 { "" } else { "s" });
        for error in errors.iter().take(MAX_LISTED) {
            message.push_str(&format!("\n  {error}"));
        }
        if count > MAX_LISTED {
            message.push_str(&format!("\n  and {} more", count - MAX_LISTED));
        }
        Self { param: errors.first().map(|error| error.field.clone()), ..Self::malformed(message) }
    }

    /// A field or value of vLLM's that this engine does not support.
    pub(crate) fn unsupported(field: &str, found: &serde_json::Value, allowed: &str) -> Self {
        FieldError::new(field, found, format!("{allowed} (this engine supports nothing else)")).into()
    }

    pub(crate) fn no_model(asked: &str, served: &str) -> Self {
        let error = FieldError::new("model", format_args!("{asked:?}"), format!("{served:?}, the one that is served"));
        Self { kind: ErrorKind::NotFound, ..error.into() }
    }

    /// The same error without a `param`, for values that vLLM names in the message only.
    #[must_use]
    pub(crate) fn without_param(self) -> Self {
        Self { param: None, ..self }
    }

    /// The queue is full.
    pub(crate) fn busy(count: usize, limit: usize) -> Self {
        let message = format!("no capacity for {count} more sequences: the limit is {limit} in all, try again later");
        Self::new(ErrorKind::Busy, None, message)
    }

    /// An error that is not the client's fault.
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, None, message)
    }

    /// As JSON text.
    pub(crate) fn body(&self) -> String {
        let Self { kind, param, message } = self;
        let code = kind.status().as_u16();
        json!({"error": {"message": message, "type": kind.as_str(), "param": param, "code": code}}).to_string()
    }
}

/// A field of the right type whose value is not allowed; it is the `param`.
impl From<FieldError> for ApiError {
    fn from(error: FieldError) -> Self {
        Self::bad(Some(&error.field), error.to_string())
    }
}

/// A prompt that the tokenizer refuses.
impl From<TextError> for ApiError {
    fn from(error: TextError) -> Self {
        Self::bad(Some("prompt"), error.to_string())
    }
}

impl From<EngineError> for ApiError {
    fn from(error: EngineError) -> Self {
        Self::internal(error.to_string())
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let status = self.kind.status();
        tracing::debug!(status = status.as_u16(), message = self.message, "refused");
        json_response(status, self.body())
    }
}

/// A response with a JSON body.
pub(crate) fn json_response(status: StatusCode, body: impl Into<Body>) -> Response {
    (status, [(CONTENT_TYPE, "application/json")], body.into()).into_response()
}
