//! Sessions, and what clients are told about the server.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use evenkeel_rpc::server::read_up_to;
use serde::Deserialize;
use serde_json::json;

use super::bodies::RequestBody;
use super::{ok, read, refused};
use crate::error::ApiError;
use crate::front::Front;
use crate::settings::UnembedSetting;

/// Chunks that a client splits a batch into: as large as requests may be, so that groups rarely fall apart.
const CHUNK_DATUMS: u64 = 4096;

/// What clients do differently here: chunks in order, nothing compressed, nothing of the hosted service's.
pub(super) async fn config(State(front): State<Arc<Front>>) -> Response {
    // The body has names and shapes as well.
    let bytes = front.settings.max_body.bytes() / 2;
    ok(json!({
        "pjwt_auth_enabled": false,
        "parallel_fwdbwd_chunks": false,
        "proto_compress_fwdbwd": false,
        "fwdbwd_max_chunk_len": CHUNK_DATUMS,
        "fwdbwd_max_chunk_bytes_count": bytes,
        "sample_max_concurrent_requests": front.settings.max_requests.min(256),
        "sample_use_retrieve_futures": false,
        "sample_join_sampling_session": false,
        "custom_loss_server_side": false,
        "use_pyqwest_transport": false,
    }))
}

pub(super) async fn create(State(front): State<Arc<Front>>) -> Result<Response, ApiError> {
    let id = front.fresh_id("session");
    front.sessions.begin_another(&id)?;
    let new = id.clone();
    front.blocking(move |front| front.begin_session(&new)).await.map_err(refused)?;
    let mut body = json!({"type": "create_session", "session_id": id});
    if front.settings.unembed == UnembedSetting::Frozen && !front.adapters.head {
        body["warning_message"] =
            "adapters of the output head are not trained on this server, whatever train_unembed says (setting \
            tinker.unembed)"
                .into();
    }
    tracing::info!(session = id, "session begun");
    Ok(ok(body))
}

#[derive(Deserialize)]
pub(super) struct Heartbeat {
    session_id: String,
}

pub(super) async fn heartbeat(State(front): State<Arc<Front>>, body: RequestBody) -> Result<Response, ApiError> {
    let Heartbeat { session_id } = read(&body.bytes)?;
    front.check_session(&session_id)?;
    Ok(ok(json!({"type": "session_heartbeat"})))
}

pub(super) async fn finish(State(front): State<Arc<Front>>, Path(id): Path<String>) -> Result<Response, ApiError> {
    match front.check_session(&id) {
        Ok(()) => {
            front.blocking(move |front| front.end_session(&id, "its session was finished by the client")).await;
        }
        // Repeated.
        Err(ApiError { status: StatusCode::GONE, .. }) => {}
        Err(unknown) => return Err(unknown),
    }
    Ok(ok(json!({})))
}

/// Discarded unread: it may have headers of requests in it, and so keys.
pub(super) async fn telemetry(body: Body) -> Response {
    let _ = read_up_to(body, 0).await;
    ok(json!({"status": "accepted"}))
}

pub(super) async fn capabilities(State(front): State<Arc<Front>>) -> Response {
    ok(json!({"supported_models": [{
        "model_name": front.settings.model_name,
        "max_context_length": front.context,
        "trainable": true,
        "sampleable": true,
    }]}))
}
