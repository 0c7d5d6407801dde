//! Routes with information about the engine.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use evenkeel_model::kernels::cpu::ARITHMETIC;
use evenkeel_model::sampling::LogprobsMode;
use evenkeel_telemetry::process_metrics;
use serde_json::json;

use super::{App, VLLM_VERSION, ok};

/// Empty; 503 if the scheduler has ended.
pub(super) async fn health(State(app): State<Arc<App>>) -> StatusCode {
    if app.scheduler.is_alive() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
}

pub(super) async fn version() -> Response {
    ok(&json!({"version": VLLM_VERSION}))
}

pub(super) async fn models(State(app): State<Arc<App>>) -> Response {
    let created = super::unix_seconds();
    let permission = json!({
        "id": format!("modelperm-{}", app.fresh_id()),
        "object": "model_permission",
        "created": created,
        "allow_create_engine": false,
        "allow_sampling": true,
        "allow_logprobs": true,
        "allow_search_indices": false,
        "allow_view": true,
        "allow_fine_tuning": false,
        "organization": "*",
        "group": null,
        "is_blocking": false,
    });
    let model = json!({
        "id": app.model.name,
        "object": "model",
        "created": created,
        "owned_by": "vllm",
        "root": app.model.folder.display().to_string(),
        "parent": null,
        "max_model_len": app.model.context,
        "permission": [permission],
    });
    ok(&json!({"object": "list", "data": [model]}))
}

/// Settings that clients may check.
pub(super) async fn server_info(State(app): State<Arc<App>>) -> Response {
    let settings = &app.settings;
    let model = json!({
        "model": app.model.folder.display().to_string(),
        "tokenizer": app.model.folder.display().to_string(),
        "dtype": "torch.float32",
        "seed": settings.seed,
        "max_model_len": app.model.context,
        "max_logprobs": settings.max_logprobs,
        "logprobs_mode": settings.logprobs_mode.name(),
        "served_model_name": app.model.name,
        "skip_tokenizer_init": app.model.tokenizer.is_none(),
        "generation_config": "vllm",
        "enable_sleep_mode": false,
        // Not vLLM's: a reload from a folder without a tensor for the head of a tied model changes the head, too.
        "takes_tied_head": true,
        // Nor this: a reload from a folder with a LoRA adapter computes it beside the model that was served first.
        "takes_adapters": true,
        // Nor this: raw log-probabilities are not those of the learner's distribution.
        "arithmetic": (settings.logprobs_mode == LogprobsMode::ProcessedLogprobs).then_some(ARITHMETIC),
    });
    let scheduler = json!({
        "max_num_seqs": settings.max_sequences,
        "max_num_batched_tokens": settings.prefill_chunk_tokens,
        "max_num_queued_reqs": settings.max_sequences + settings.max_queue,
        "enable_chunked_prefill": true,
    });
    let cache = json!({"enable_prefix_caching": false, "kv_cache_size_tokens": settings.kv_cache_tokens});
    let config = json!({"model_config": model, "cache_config": cache, "scheduler_config": scheduler});
    ok(&json!({"vllm_config": config, "vllm_env": {}, "system_env": {}}))
}

pub(super) async fn load(State(_): State<Arc<App>>) -> Response {
    // vLLM counts only if configured to.
    ok(&json!({"server_load": 0}))
}

pub(super) async fn world_size() -> Response {
    ok(&json!({"world_size": 1}))
}

pub(super) async fn is_sleeping() -> Response {
    ok(&json!({"is_sleeping": false}))
}

pub(super) async fn metrics(State(app): State<Arc<App>>) -> Response {
    ([(CONTENT_TYPE, "text/plain; version=1.0.0; charset=utf-8")], app.metrics.render() + &process_metrics())
        .into_response()
}
