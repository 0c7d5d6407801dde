//! vLLM's HTTP API.

mod auth;
mod completion_fields;
mod completions;
mod control;
mod error;
mod fields;
mod info;
mod logprobs;
mod neutral;
mod prompt;
mod ranges;
mod request;
mod response;
mod span;
mod stream;
mod submit;
mod tokenize;
mod writer;

use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::body::HttpBody;
use axum::extract::{DefaultBodyLimit, Request};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::Response;
use axum::routing::{get, post};
use evenkeel_errors::FieldError;
use evenkeel_rpc::reload::BearerTokens;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use self::error::{ApiError, json_response};
use crate::folder::Model;
use crate::metrics::Metrics;
use crate::scheduler::{Admission, Scheduler};
use crate::settings::EngineSettings;

/// The version of vLLM whose HTTP API this is.
pub const VLLM_VERSION: &str = "0.32.0";

/// The state that handlers share.
pub(crate) struct App {
    pub(crate) settings: EngineSettings,
    pub(crate) model: Arc<Model>,
    pub(crate) scheduler: Scheduler,
    pub(crate) admission: Admission,
    pub(crate) metrics: Arc<Metrics>,
    /// The folder of the current weights.
    weights: Mutex<PathBuf>,
    /// The label of the current weights.
    version: Mutex<String>,
    fingerprint: String,
    ids: (RandomState, AtomicU64),
}

impl App {
    pub(crate) fn new(
        settings: EngineSettings,
        model: Arc<Model>,
        scheduler: Scheduler,
        admission: Admission,
        metrics: Arc<Metrics>,
    ) -> Self {
        let folder = model.folder.clone();
        // Equal for equal models with equal settings that affect results, as clients expect of a fingerprint.
        let described = format!("{:?} {:?} {}", model.config, settings.logprobs_mode, model.context);
        let hash =
            described.bytes().fold(0x811c_9dc5u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        Self {
            settings,
            model,
            scheduler,
            admission,
            metrics,
            weights: Mutex::new(folder),
            version: Mutex::new("default".to_owned()),
            fingerprint: format!("vllm-{VLLM_VERSION}-{hash:08x}"),
            ids: (RandomState::new(), AtomicU64::new(0)),
        }
    }

    /// A unique id. No result depends on it.
    fn fresh_id(&self) -> String {
        let (keys, count) = &self.ids;
        format!("{:016x}", keys.hash_one(count.fetch_add(1, Ordering::Relaxed)))
    }
}

/// All routes. Other paths need a key as well, so that nobody learns without one which there are.
pub(crate) fn router(app: Arc<App>, keys: Option<BearerTokens>) -> Router {
    let limit = app.settings.max_body.bytes_usize();
    let not_allowed = || async { detail(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed") };
    let mut guarded = Router::new()
        .route("/v1/completions", post(completions::create))
        .route("/v1/models", get(info::models))
        .route("/tokenize", post(tokenize::tokenize))
        .route("/detokenize", post(tokenize::detokenize));
    if app.settings.development_routes {
        guarded = guarded.merge(development_routes().layer(from_fn(only_json)));
    }
    let guarded = guarded
        .fallback(|| async { detail(StatusCode::NOT_FOUND, "Not Found") })
        .method_not_allowed_fallback(not_allowed)
        .layer(from_fn_with_state(keys.clone(), auth::authorize));
    let mut open = open_routes().method_not_allowed_fallback(not_allowed);
    if app.settings.private {
        open = open.layer(from_fn_with_state(keys, auth::authorize));
    }
    open.merge(guarded).layer(DefaultBodyLimit::max(limit)).with_state(app)
}

/// The routes of connections beyond the limit.
pub(crate) fn probes(app: Arc<App>) -> Router {
    let busy = || async { detail(StatusCode::SERVICE_UNAVAILABLE, "Too many connections") };
    open_routes().fallback(busy).with_state(app)
}

/// Routes that need no API key, as in vLLM: probes, metrics, version.
fn open_routes() -> Router<Arc<App>> {
    Router::new()
        .route("/health", get(info::health))
        .route("/ping", get(info::health).post(info::health))
        .route("/version", get(info::version))
        .route("/load", get(info::load))
        .route("/metrics", get(info::metrics))
}

/// The control routes for a trainer, which vLLM has in development mode.
fn development_routes() -> Router<Arc<App>> {
    Router::new()
        .route("/server_info", get(info::server_info))
        .route("/get_world_size", get(info::world_size))
        .route("/is_sleeping", get(info::is_sleeping))
        .route("/pause", post(control::pause))
        .route("/resume", post(control::resume))
        .route("/is_paused", get(control::is_paused))
        .route("/abort_requests", post(control::abort_requests))
        .route("/collective_rpc", post(control::collective_rpc))
        .route("/reset_prefix_cache", post(control::reset_prefix_cache))
        .route("/update_weight_version", post(control::update_weight_version))
        .route("/weight_info", get(control::weight_info))
        .route("/init_weight_transfer_engine", post(control::no_transfer))
        .route("/start_weight_update", post(control::no_transfer))
        .route("/update_weights", post(control::no_transfer))
        .route("/finish_weight_update", post(control::no_transfer))
}

/// An error as vLLM's web framework reports it.
fn detail(status: StatusCode, what: &str) -> Response {
    json_response(status, json!({"detail": what}).to_string())
}

fn ok(body: &Value) -> Response {
    json_response(StatusCode::OK, body.to_string())
}

/// Refuses a body that is not declared as JSON.
fn require_json(headers: &HeaderMap) -> Result<(), FieldError> {
    let media = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let name = media.split(';').next().unwrap_or_default().trim();
    let is_json = name.eq_ignore_ascii_case("application/json");
    FieldError::ensure(is_json, "content-type", format_args!("{media:?}"), "application/json")
}

/// Refuses bodies of another type: a web page may send those without asking.
async fn only_json(request: Request, next: Next) -> Result<Response, ApiError> {
    if !request.body().is_end_stream() {
        require_json(request.headers())?;
    }
    Ok(next.run(request).await)
}

/// A body that must be a JSON object.
fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, ApiError> {
    if body.is_empty() {
        return Err(FieldError::missing("body", "a JSON object").into());
    }
    serde_json::from_slice(body)
        .map_err(|error| FieldError::new("body", "not readable", format!("a JSON object, but: {error}")).into())
}

fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
