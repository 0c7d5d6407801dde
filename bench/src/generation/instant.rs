//! An engine that responds from memory, in vLLM's format: shows what the service costs when the engine costs nothing.

use std::collections::HashMap;
use std::error::Error;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde::Deserialize;
use serde_json::{Value, json};

use super::load::Load;

type Responses = Arc<Mutex<HashMap<(u32, bool), Bytes>>>;

#[derive(Clone)]
struct Engine {
    delay_ms: u64,
    responses: Responses,
}

#[derive(Deserialize)]
struct Request {
    max_tokens: u32,
    #[serde(default)]
    top_k: i64,
    #[serde(default)]
    seed: u64,
}

pub(crate) async fn serve(port: u16, delay_ms: u64) -> Result<(), Box<dyn Error>> {
    let fixed = |value: Value| get(move || async move { axum::Json(value) });
    let model = json!({"id": "instant", "object": "model", "root": "/nowhere", "max_model_len": 65536});
    let router = Router::new()
        .route("/health", fixed(json!({})))
        .route("/version", fixed(json!({"version": "0.32.0"})))
        .route("/v1/models", fixed(json!({"object": "list", "data": [model]})))
        .route("/weight_info", fixed(json!({"weight_version": "default"})))
        .route("/is_paused", fixed(json!({"is_paused": false})))
        .route("/v1/completions", post(completions))
        .with_state(Engine { delay_ms, responses: Responses::default() });
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
    Ok(axum::serve(listener, router).await?)
}

async fn completions(State(engine): State<Engine>, body: Bytes) -> Response {
    let Ok(request) = serde_json::from_slice::<Request>(&body) else {
        return http::StatusCode::BAD_REQUEST.into_response();
    };
    // The probe for processed log-probabilities expects certainty with top-k 1.
    let certain = request.top_k == 1;
    let response = {
        let mut responses = engine.responses.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        responses.entry((request.max_tokens, certain)).or_insert_with(|| response(request.max_tokens, certain)).clone()
    };
    if engine.delay_ms > 0 && !certain {
        tokio::time::sleep(Load::delay(engine.delay_ms, request.seed)).await;
    }
    ([("content-type", "application/json")], response).into_response()
}

/// A response with every field of vLLM 0.32.
fn response(tokens: u32, certain: bool) -> Bytes {
    let ids: Vec<u32> = (0..tokens).map(|place| 4 + place * 7 % 90).collect();
    let value = |id: &u32| if certain { 0.0 } else { -f64::from(*id) / 64.0 - 0.123_456_789 };
    let values: Vec<f64> = ids.iter().map(value).collect();
    let texts: Vec<String> = ids.iter().map(|id| format!("token {id}")).collect();
    let top: Vec<Value> = texts.iter().zip(&values).map(|(text, value)| json!({text.clone(): value})).collect();
    let response = json!({
        "id": "cmpl-1", "object": "text_completion", "created": 1, "model": "instant",
        "choices": [{
            "index": 0, "text": texts.concat(), "finish_reason": "length", "stop_reason": null, "token_ids": ids,
            "logprobs": {"text_offset": (0..tokens).collect::<Vec<_>>(), "token_logprobs": values, "tokens": texts, "top_logprobs": top},
            "prompt_logprobs": null, "prompt_token_ids": null,
        }],
        "usage": {"prompt_tokens": 8, "total_tokens": 8 + tokens, "completion_tokens": tokens},
    });
    response.to_string().into()
}
