//! The routes of Tinker's API, below `/api/v1`.

mod bodies;
mod checkpoints;
mod futures;
mod models;
mod sampling;
mod sessions;
mod training;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use evenkeel_rpc::reload::BearerTokens;
use serde_json::Value;

use self::bodies::read;
use crate::admission::Room;
use crate::error::{ApiError, Failure};
use crate::front::Front;
use crate::futures::OperationOutcome;
use crate::store::ClientSession;

pub(crate) fn router(front: Arc<Front>, keys: Option<BearerTokens>) -> Router {
    let guarded = Router::new()
        .route("/client/config", post(sessions::config))
        .route("/create_session", post(sessions::create))
        .route("/session_heartbeat", post(sessions::heartbeat))
        .route("/sessions/{id}/finish", post(sessions::finish))
        .route("/telemetry", post(sessions::telemetry))
        .route("/get_server_capabilities", get(sessions::capabilities))
        .route("/create_model", post(models::create))
        .route("/get_info", post(models::info))
        .route("/load_weights", post(models::load))
        .route("/forward_backward", post(training::forward_backward))
        .route("/optim_step", post(training::optim_step))
        .route("/save_weights", post(training::save))
        .route("/save_weights_for_sampler", post(training::save_for_sampler))
        .route("/create_sampling_session", post(sampling::create))
        .route("/samplers/{id}", get(sampling::info))
        .route("/asample", post(sampling::sample))
        .route("/retrieve_future", post(futures::retrieve))
        .route("/weights_info", post(checkpoints::weights_info))
        .route("/training_runs", get(checkpoints::runs))
        .route("/training_runs/{id}", get(checkpoints::run))
        .route("/training_runs/{id}/checkpoints", get(checkpoints::of_run))
        .route("/training_runs/{id}/checkpoints/{kind}/{name}", delete(checkpoints::delete))
        .route("/checkpoints", get(checkpoints::all))
        .fallback(async || ApiError::not_found("there is no such route here"))
        .method_not_allowed_fallback(async || {
            ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "there is no such method of this route")
        })
        .layer(from_fn_with_state(keys, authorize));
    let routes = Router::new().route("/healthz", get(async || ok(serde_json::json!({"status": "ok"})))).merge(guarded);
    Router::new().nest("/api/v1", routes).with_state(front)
}

/// Lets requests with a key pass. Keys are compared in constant time, and never logged.
async fn authorize(State(keys): State<Option<BearerTokens>>, request: Request, next: Next) -> Response {
    let Some(keys) = keys else { return next.run(request).await };
    let headers = request.headers();
    let by_key = headers.get("x-api-key").is_some_and(|key| keys.accept(key.as_bytes()));
    let by_token = headers.get(AUTHORIZATION).is_some_and(|token| keys.accept_bearer(token.as_bytes()));
    if by_key || by_token {
        return next.run(request).await;
    }
    ApiError::new(StatusCode::UNAUTHORIZED, "a key of this server is required, as X-API-Key").into_response()
}

fn ok(body: Value) -> Response {
    ([(CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

/// A failure where nothing waits for a result.
fn refused(failure: Failure) -> ApiError {
    ApiError::bad(failure.message)
}

impl Front {
    /// Refuses a session that is unknown, or has ended.
    fn check_session(&self, id: &str) -> Result<(), ApiError> {
        if self.sessions.heard(id) {
            return Ok(());
        }
        match self.state().sessions.get(id) {
            Some(ClientSession { .. }) => Err(ApiError::new(StatusCode::GONE, format!("session {id} has ended"))),
            None => Err(ApiError::not_found(format!("there is no session {id}"))),
        }
    }

    /// Answers a request that is refused through its future.
    fn refused_future(&self, session: &str, room: Room, failure: Failure) -> Result<Response, ApiError> {
        let promise = self.futures.promise(self.fresh_id("request"), session, self.admit(room)?);
        let id = promise.id().to_owned();
        promise.complete(OperationOutcome::Failed(failure));
        Ok(ok(serde_json::json!({"request_id": id})))
    }
}
