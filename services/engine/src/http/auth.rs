//! The API key, as in vLLM's `--api-key`.

use axum::extract::{Request, State};
use axum::http::header::AUTHORIZATION;
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use evenkeel_rpc::reload::BearerTokens;
use serde_json::json;

use super::error::json_response;

/// Lets requests with a key pass. As in vLLM, those with the method OPTIONS need none.
pub(super) async fn authorize(State(keys): State<Option<BearerTokens>>, request: Request, next: Next) -> Response {
    let Some(keys) = keys else { return next.run(request).await };
    if request.method() == Method::OPTIONS
        || request.headers().get(AUTHORIZATION).is_some_and(|value| keys.accept_bearer(value.as_bytes()))
    {
        return next.run(request).await;
    }
    json_response(StatusCode::UNAUTHORIZED, json!({"error": "Unauthorized"}).to_string())
}
