//! The API key, as in vLLM's `--api-key`.

use std::path::Path;

use axum::extract::{Request, State};
use axum::http::header::AUTHORIZATION;
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use evenkeel_errors::FieldError;
use evenkeel_files::{ReadError, Secret};
use serde_json::json;

use super::error::json_response;

/// Routes that need no key, as in vLLM: probes, metrics, version.
const OPEN: &[&str] = &["/health", "/ping", "/version", "/load", "/metrics"];

/// Reads the key that requests must carry.
pub(crate) fn read_api_key(path: &Path) -> Result<Secret, FieldError> {
    let refused = |error: ReadError| {
        let value = format_args!("{}, which {error}", path.display());
        FieldError::new("api_key_file", value, "a file with one line of visible ASCII characters")
    };
    Secret::read(path).map_err(refused)
}

/// Lets requests with the key pass, and those to open routes.
pub(super) async fn authorize(State(key): State<Option<Secret>>, request: Request, next: Next) -> Response {
    let Some(key) = key else { return next.run(request).await };
    let is_open = OPEN.contains(&request.uri().path()) || request.method() == Method::OPTIONS;
    if is_open || request.headers().get(AUTHORIZATION).is_some_and(|value| key.is_bearer(value.as_bytes())) {
        return next.run(request).await;
    }
    json_response(StatusCode::UNAUTHORIZED, json!({"error": "Unauthorized"}).to_string())
}
