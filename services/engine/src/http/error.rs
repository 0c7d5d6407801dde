//! Error responses in vLLM's form: `{"error": {"message", "type", "param", "code"}}`.

use axum::body::Body;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use crate::error::EngineError;

/// An error response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ApiError {
    pub(crate) status: StatusCode,
    /// vLLM's name for the kind of error.
    pub(crate) kind: &'static str,
    /// The invalid field, if there is a single one.
    pub(crate) param: Option<String>,
    pub(crate) message: String,
}

impl ApiError {
    fn new(status: StatusCode, kind: &'static str, param: Option<&str>, message: impl Into<String>) -> Self {
        Self { status, kind, param: param.map(str::to_owned), message: message.into() }
    }

    /// A value of the right type that is not allowed.
    pub(crate) fn bad(param: Option<&str>, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequestError", param, message)
    }

    /// A malformed body or field. vLLM uses the status's reason phrase as the kind.
    pub(crate) fn malformed(param: Option<&str>, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "Bad Request", param, message)
    }

    /// A field that this engine does not support.
    pub(crate) fn unsupported(field: &str, found: &serde_json::Value, allowed: &str) -> Self {
        let message = format!("`{field}` is {found}, which this engine does not support; allowed: {allowed}");
        Self::bad(Some(field), message)
    }

    pub(crate) fn no_model(asked: &str, served: &str) -> Self {
        let message = format!("there is no model `{asked}`; the one served is `{served}`");
        Self::new(StatusCode::NOT_FOUND, "NotFoundError", Some("model"), message)
    }

    /// The queue is full.
    pub(crate) fn busy(count: usize, limit: usize) -> Self {
        let message = format!("no capacity for {count} more sequences: the limit is {limit} in all, try again later");
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "Service Unavailable", None, message)
    }

    /// An error that is not the client's fault.
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalServerError", None, message)
    }

    /// As JSON text.
    pub(crate) fn body(&self) -> String {
        let Self { status, kind, param, message } = self;
        json!({"error": {"message": message, "type": kind, "param": param, "code": status.as_u16()}}).to_string()
    }
}

impl From<EngineError> for ApiError {
    fn from(error: EngineError) -> Self {
        Self::internal(error.to_string())
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        tracing::debug!(status = self.status.as_u16(), message = self.message, "refused");
        json_response(self.status, self.body())
    }
}

/// A response with a JSON body.
pub(crate) fn json_response(status: StatusCode, body: impl Into<Body>) -> Response {
    (status, [(CONTENT_TYPE, "application/json")], body.into()).into_response()
}
