//! Results of operations.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::json;

use super::bodies::RequestBody;
use super::{ok, read};
use crate::error::ApiError;
use crate::front::Front;
use crate::futures::OperationOutcome;
use crate::wire::PROTOBUF;

#[derive(Deserialize)]
pub(super) struct Retrieve {
    request_id: String,
}

/// Waits for a result. 408 makes the client ask again.
pub(super) async fn retrieve(State(front): State<Arc<Front>>, body: RequestBody) -> Result<Response, ApiError> {
    let Retrieve { request_id } = read(&body.bytes)?;
    drop(body);
    match front.futures.retrieve(&request_id, front.settings.hold).await {
        Ok(Some(outcome)) => Ok(match &*outcome {
            OperationOutcome::Json(value) => ok(value.clone()),
            OperationOutcome::Protobuf(bytes) => ([(CONTENT_TYPE, PROTOBUF)], bytes.clone()).into_response(),
            OperationOutcome::Failed(failure) => ok(OperationOutcome::failure(failure)),
        }),
        Ok(None) => {
            let body = json!({"type": "try_again", "request_id": request_id, "queue_state": "active"}).to_string();
            Ok((StatusCode::REQUEST_TIMEOUT, [(CONTENT_TYPE, "application/json")], body).into_response())
        }
        // What another start of the server knew is gone, too.
        Err(()) => Err(ApiError::new(StatusCode::GONE, format!("the result of {request_id} is not kept (any more)"))),
    }
}
