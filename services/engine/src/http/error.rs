//! Error responses in vLLM's form: `{"error": {"message", "type", "param", "code"}}`.

use axum::body::Body;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use evenkeel_errors::FieldError;
use evenkeel_model_folder::TextError;
use serde_json::json;

use crate::error::EngineError;

/// An error response. The refusal of a field is made of a [`FieldError`], which cuts and escapes the client's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ApiError {
    pub(crate) status: StatusCode,
    /// The refused field, if it is one.
    pub(crate) param: Option<String>,
    pub(crate) message: String,
}

impl ApiError {
    /// An error that is about no single field.
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, param: None, message: message.into() }
    }

    /// A request that is refused for something other than the value of a field.
    pub(crate) fn bad(param: Option<&str>, message: impl Into<String>) -> Self {
        Self { param: param.map(str::to_owned), ..Self::new(StatusCode::BAD_REQUEST, message) }
    }

    /// A field or value of vLLM's that this engine does not support.
    pub(crate) fn unsupported(field: &str, found: &serde_json::Value, allowed: &str) -> Self {
        FieldError::new(field, found, format!("{allowed} (this engine supports nothing else)")).into()
    }

    /// Another model was requested.
    pub(crate) fn no_model(asked: &str, served: &str) -> Self {
        let error = FieldError::quoted("model", asked, format!("{served:?}, the one that is served"));
        Self { status: StatusCode::NOT_FOUND, ..error.into() }
    }

    /// The queue is full.
    pub(crate) fn busy(count: usize, limit: usize) -> Self {
        let message = format!("no capacity for {count} more sequences: the limit is {limit} in all, try again later");
        Self::new(StatusCode::SERVICE_UNAVAILABLE, message)
    }

    /// An error that is not the client's fault.
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, message)
    }

    /// The error's type as vLLM spells it.
    fn kind(&self) -> &'static str {
        match self.status {
            StatusCode::BAD_REQUEST => "BadRequestError",
            StatusCode::NOT_FOUND => "NotFoundError",
            StatusCode::NOT_IMPLEMENTED => "NotImplementedError",
            StatusCode::SERVICE_UNAVAILABLE => "Service Unavailable",
            _ => "InternalServerError",
        }
    }

    /// The response's body: JSON text.
    pub(crate) fn body(&self) -> String {
        let Self { status, param, message } = self;
        let error = json!({"message": message, "type": self.kind(), "param": param, "code": status.as_u16()});
        json!({ "error": error }).to_string()
    }
}

/// A field whose value is refused; it is the `param`.
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
        tracing::debug!(status = self.status.as_u16(), message = self.message, "refused");
        json_response(self.status, self.body())
    }
}

/// A response with a JSON body.
pub(crate) fn json_response(status: StatusCode, body: impl Into<Body>) -> Response {
    (status, [(CONTENT_TYPE, "application/json")], body.into()).into_response()
}
