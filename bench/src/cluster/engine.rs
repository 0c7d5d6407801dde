//! An engine that answers from memory after as long as a sample takes, in vLLM's format.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};

/// Ids that it samples: below those of any vocabulary here, and no end of a response.
const IDS: u32 = 20;

struct Engine {
    sample: Duration,
    model: String,
    label: Mutex<String>,
    paused: AtomicBool,
    /// The last body, by its number of tokens and whether it was certain of them: all of a run are of one length.
    body: Mutex<Option<(u32, bool, Bytes)>>,
}

type SharedEngine = State<Arc<Engine>>;

#[derive(Deserialize)]
struct Request {
    #[serde(default)]
    max_tokens: u32,
    #[serde(default)]
    top_k: i64,
    #[serde(default)]
    seed: u64,
}

/// Serves one at a free port and returns its URL. Samples take between half of `sample` and all of it.
pub(crate) async fn serve(model: &str, sample: Duration) -> Result<String> {
    let engine = Engine {
        sample,
        model: model.to_owned(),
        label: Mutex::new("default".to_owned()),
        paused: AtomicBool::new(false),
        body: Mutex::default(),
    };
    let router = Router::new()
        .route("/health", get(|| async { Json(json!({})) }))
        .route("/version", get(|| async { Json(json!({"version": "0.32.0"})) }))
        .route("/v1/models", get(models))
        .route("/weight_info", get(weight_info))
        .route("/is_paused", get(is_paused))
        .route("/pause", post(|State(engine): SharedEngine| async move { set_paused(&engine, true) }))
        .route("/resume", post(|State(engine): SharedEngine| async move { set_paused(&engine, false) }))
        .route("/collective_rpc", post(|| async { Json(json!({"results": [null]})) }))
        .route("/update_weight_version", post(update_weight_version))
        .route("/v1/completions", post(completions))
        .with_state(Arc::new(engine));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move { axum::serve(listener, router).await });
    Ok(format!("http://{address}"))
}

async fn models(State(engine): SharedEngine) -> Json<Value> {
    let model =
        json!({"id": "simulated", "object": "model", "root": engine.model, "parent": null, "max_model_len": 65536});
    Json(json!({"object": "list", "data": [model]}))
}

async fn weight_info(State(engine): SharedEngine) -> Json<Value> {
    let label = engine.label.lock().unwrap_or_else(PoisonError::into_inner).clone();
    Json(json!({ "weight_version": label }))
}

async fn is_paused(State(engine): SharedEngine) -> Json<Value> {
    Json(json!({ "is_paused": engine.paused.load(Ordering::Relaxed) }))
}

fn set_paused(engine: &Engine, paused: bool) -> Json<Value> {
    engine.paused.store(paused, Ordering::Relaxed);
    Json(json!({}))
}

async fn update_weight_version(State(engine): SharedEngine, Json(body): Json<Value>) -> Json<Value> {
    let label = body["new_version"].as_str().unwrap_or_default().to_owned();
    engine.label.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&label);
    Json(json!({"success": true, "new_version": label}))
}

async fn completions(State(engine): SharedEngine, body: Bytes) -> Response {
    let Ok(request) = serde_json::from_slice::<Request>(&body) else {
        return http::StatusCode::BAD_REQUEST.into_response();
    };
    // The probe for processed log-probabilities expects certainty with top-k 1.
    let certain = request.top_k == 1;
    let body = {
        let mut last = engine.body.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            Some((tokens, was_certain, body)) if (*tokens, *was_certain) == (request.max_tokens, certain) => {
                body.clone()
            }
            _ => {
                let made = response(request.max_tokens, certain);
                *last = Some((request.max_tokens, certain, made.clone()));
                made
            }
        }
    };
    if !certain {
        let part = request.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54;
        tokio::time::sleep(engine.sample.mul_f64(0.5 + part as f64 / 2046.0)).await;
    }
    ([("content-type", "application/json")], body).into_response()
}

/// A response with every field that is read.
fn response(tokens: u32, certain: bool) -> Bytes {
    let ids: Vec<u32> = (0..tokens).map(|place| 4 + place * 7 % IDS).collect();
    let value = |id: &u32| if certain { 0.0 } else { -f64::from(*id) / 64.0 - 0.123_456_789 };
    let values: Vec<f64> = ids.iter().map(value).collect();
    let texts: Vec<String> = ids.iter().map(|id| format!("token {id}")).collect();
    let choice = json!({
        "index": 0, "text": "", "finish_reason": "length", "stop_reason": null, "token_ids": ids,
        "logprobs": {"text_offset": (0..tokens).collect::<Vec<_>>(), "token_logprobs": values, "tokens": texts, "top_logprobs": null},
        "prompt_logprobs": null, "prompt_token_ids": null,
    });
    json!({"id": "cmpl-1", "object": "text_completion", "created": 1, "model": "simulated", "choices": [choice],
           "usage": {"prompt_tokens": 8, "total_tokens": 8 + tokens, "completion_tokens": tokens}})
    .to_string()
    .into()
}
