//! The control routes for a trainer: pauses, new weights and their version.

use std::fmt::Display;
use std::path::PathBuf;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use evenkeel_errors::FieldError;
use evenkeel_rpc::roots::{Roots, validate_folder};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::error::ApiError;
use super::fields::FromJson;
use super::{App, ok, parse};
use crate::error::EngineError;
use crate::scheduler::{Command, PauseMode};

/// `?mode=abort|wait|keep&clear_cache=true|false`.
#[derive(Debug, Deserialize)]
pub(super) struct PauseQuery {
    mode: Option<String>,
    clear_cache: Option<String>,
}

pub(super) async fn pause(State(app): State<Arc<App>>, Query(query): Query<PauseQuery>) -> Result<Response, ApiError> {
    let mode = query.mode.as_deref().map(str::parse::<PauseMode>).transpose();
    let mode = mode.map_err(|error| error.within("query"))?.unwrap_or_default();
    let clear_cache = flag("clear_cache", query.clear_cache, true)?;
    app.scheduler.call(|done| Command::Pause { mode, clear_cache, done }).await?;
    Ok(ok(&json!({"status": "paused"})))
}

pub(super) async fn resume(State(app): State<Arc<App>>) -> Result<Response, ApiError> {
    app.scheduler.call(Command::Resume).await?;
    Ok(ok(&json!({"status": "resumed"})))
}

pub(super) async fn is_paused(State(app): State<Arc<App>>) -> Response {
    ok(&json!({"is_paused": app.scheduler.is_paused()}))
}

/// `?reset_running_requests=true` makes running sequences recompute their keys and values.
#[derive(Debug, Deserialize)]
pub(super) struct ResetQuery {
    reset_running_requests: Option<String>,
    reset_external: Option<String>,
}

pub(super) async fn reset_prefix_cache(
    State(app): State<Arc<App>>,
    Query(query): Query<ResetQuery>,
) -> Result<Response, ApiError> {
    flag("reset_external", query.reset_external, false)?;
    if flag("reset_running_requests", query.reset_running_requests, false)? {
        app.scheduler.call(Command::Recompute).await?;
    }
    // There is no prefix cache to clear.
    Ok(ok(&json!({"success": true})))
}

/// Aborts samples: those of `request_ids`, or all.
pub(super) async fn abort_requests(State(app): State<Arc<App>>, body: Bytes) -> Result<Response, ApiError> {
    let map: Map<String, Value> = parse(&body)?;
    let request_ids = match map.get("request_ids") {
        None | Some(Value::Null) => None,
        Some(Value::Array(ids)) if ids.is_empty() => None,
        Some(Value::Array(ids)) => Some(ids.iter().map(|id| id.as_str().unwrap_or_default().to_owned()).collect()),
        Some(other) => {
            return Err(FieldError::new("request_ids", other, "a list of strings").into());
        }
    };
    let aborted = app.scheduler.call(|done| Command::Abort(request_ids, done)).await?;
    Ok(ok(&json!({"status": "aborted", "aborted": aborted})))
}

/// Calls a method of the worker. The only one is `reload_weights`.
pub(super) async fn collective_rpc(State(app): State<Arc<App>>, body: Bytes) -> Result<Response, ApiError> {
    let map: Map<String, Value> = parse(&body)?;
    let method = match map.get("method") {
        None | Some(Value::Null) => return Err(FieldError::missing("method", "\"reload_weights\"").into()),
        Some(method) => method,
    };
    if method != "reload_weights" {
        return Err(failed(FieldError::new("method", method, "\"reload_weights\"")));
    }
    let folder = weights_path(&map).map_err(failed)?;
    if let Some(folder) = &folder {
        let roots = Roots::or_anywhere("weights_roots", &app.settings.weights_roots);
        validate_folder("weights_path", &folder.to_string_lossy(), roots, true).map_err(failed)?;
    }
    reload(&app, folder).await.map_err(failed)?;
    Ok(ok(&json!({"results": [null]})))
}

/// vLLM answers 500 whatever a worker refuses.
fn failed(error: impl Display) -> ApiError {
    ApiError::internal(format!("collective_rpc failed: {error}"))
}

/// `weights_path` in `kwargs`, or the first of `args`; `None` for the folder of the last load.
fn weights_path(map: &Map<String, Value>) -> Result<Option<PathBuf>, FieldError> {
    let args = match map.get("args") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(args)) => args.clone(),
        Some(other) => return Err(FieldError::new("args", other, "a list")),
    };
    let kwargs = match map.get("kwargs") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(kwargs)) => kwargs.clone(),
        Some(other) => return Err(FieldError::new("kwargs", other, "an object")),
    };
    // The other arguments of vLLM's method, at their neutral values.
    for (name, value) in kwargs.iter().filter(|(name, _)| *name != "weights_path") {
        let neutral = match name.as_str() {
            "weights_iterator" => value.is_null(),
            "is_checkpoint_format" => value == &json!(true),
            _ => false,
        };
        if !neutral {
            let allowed = "absent (of its arguments, only weights_path is supported here)";
            return Err(FieldError::new(format!("kwargs.{name}"), value, allowed));
        }
    }
    let count = args.len();
    FieldError::ensure(count <= 1, "args", format_args!("{count} values"), "at most one, weights_path")?;
    match kwargs.get("weights_path").or(args.first()) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(path)) => Ok(Some(PathBuf::from(path))),
        Some(other) => Err(FieldError::new("weights_path", other, "a string")),
    }
}

/// Loads new weights next to the old ones, then swaps them between two steps. If loading fails, the old ones stay.
async fn reload(app: &Arc<App>, folder: Option<PathBuf>) -> Result<(), EngineError> {
    // One at a time, so that the last call's weights win.
    let mut current = app.weights.lock().await;
    let folder = folder.unwrap_or_else(|| current.clone());
    let model = app.model.clone();
    let from = folder.clone();
    let loaded = tokio::task::spawn_blocking(move || model.decoder(&from)).await;
    let decoder = loaded.map_err(EngineError::LoadTask)??;
    let old = app.scheduler.call(|done| Command::ReplaceWeights(Box::new(decoder), done)).await?;
    // Freeing a large model takes a while.
    tokio::task::spawn_blocking(move || drop(old));
    tracing::info!(folder = %folder.display(), "weights loaded");
    *current = folder;
    Ok(())
}

pub(super) async fn update_weight_version(State(app): State<Arc<App>>, body: Bytes) -> Result<Response, ApiError> {
    let map: Map<String, Value> = if body.is_empty() { Map::new() } else { parse(&body)? };
    let version = match map.get("new_version") {
        Some(Value::String(version)) => version.clone(),
        other => {
            let found = other.unwrap_or(&Value::Null);
            return Err(FieldError::new("new_version", found, "a string").into());
        }
    };
    *app.version.lock().await = version.clone();
    Ok(ok(&json!({"success": true, "new_version": version})))
}

pub(super) async fn weight_info(State(app): State<Arc<App>>) -> Response {
    let version = app.version.lock().await.clone();
    ok(&json!({"weight_version": version}))
}

/// A boolean query parameter in any of the forms that vLLM accepts.
fn flag(name: &str, found: Option<String>, default: bool) -> Result<bool, FieldError> {
    let Some(text) = found.map(Value::String) else { return Ok(default) };
    bool::from_json(&text).ok_or_else(|| FieldError::new(format!("query.{name}"), &text, bool::ALLOWED))
}

/// Responds 501 to routes of vLLM that this engine lacks, so that a trainer does not wait in vain.
pub(super) async fn no_transfer() -> ApiError {
    let message = "weights are loaded by collective_rpc reload_weights only; there is no transfer engine";
    ApiError::new(StatusCode::NOT_IMPLEMENTED, message)
}
