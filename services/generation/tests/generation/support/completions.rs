//! `/v1/completions` of the scripted engine, whole and streamed.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;

use super::engine::{App, FakeEngineState, Reply, VOCABULARY};

/// Counts a request while it lives, however it ends.
struct Live(Arc<FakeEngineState>);

impl Drop for Live {
    fn drop(&mut self) {
        self.0.live.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The `index`th token of a sample and its log-probability.
pub(crate) fn token(body: &Value, label: &str, index: usize) -> (u64, f32) {
    let mut hash = body["seed"].as_u64().unwrap();
    let prompt = body["prompt"].as_array().unwrap();
    let words = prompt.iter().map(|id| id.as_u64().unwrap()).chain(label.bytes().map(u64::from)).chain([index as u64]);
    for word in words {
        hash = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        hash ^= hash >> 29;
    }
    // Neither 0 nor 1, which would be the end.
    (2 + hash % (VOCABULARY - 2), -(((hash >> 32) % 1000) as f32) / 256.0)
}

pub(super) async fn completions(
    State(shared): App,
    headers: HeaderMap,
    axum::Json(body): axum::Json<Value>,
) -> Response {
    shared.asked.lock().unwrap().push(body.clone());
    shared.is_traced.fetch_or(headers.contains_key("traceparent"), Ordering::SeqCst);
    shared.live.fetch_add(1, Ordering::SeqCst);
    let live = Live(Arc::clone(&shared));
    let mut aborts = shared.aborts.subscribe();
    let response = shared.checked("/v1/completions", || json!({})).await;
    if !response.status().is_success() {
        return response;
    }
    let mut paused = shared.paused.subscribe();
    paused.wait_for(|paused| !paused).await.unwrap();
    let probe = body["cache_salt"] == "probe";
    let reply = if probe { Reply::Answer } else { (shared.script.lock().unwrap())(&body) };
    let tick = match reply {
        Reply::Hang => std::future::pending().await,
        Reply::Status(status, body) => return (StatusCode::from_u16(status).unwrap(), body).into_response(),
        Reply::Tick(tick) => tick,
        _ => Duration::ZERO,
    };
    let model = body["model"].as_str().unwrap().to_owned();
    if model != "fake" && !shared.adapters.lock().unwrap().contains_key(&model) {
        let body = json!({"error": {"message": format!("The model `{model}` does not exist."), "code": 404}});
        return (StatusCode::NOT_FOUND, axum::Json(body)).into_response();
    }
    // What it samples follows from its weights, or from the adapter that is asked for.
    let label = if model == "fake" || shared.ignores_adapters.load(Ordering::SeqCst) {
        shared.label.lock().unwrap().clone()
    } else {
        model
    };
    if !body["prompt_logprobs"].is_null() {
        return match reply {
            Reply::Answer => axum::Json(scored(&body, &label)).into_response(),
            Reply::Tick(tick) => {
                tokio::time::sleep(tick).await;
                axum::Json(scored(&body, &label)).into_response()
            }
            _ => axum::Json(json!({"choices": []})).into_response(),
        };
    }
    let max = body["max_tokens"].as_u64().unwrap() as usize;
    let certain = body["top_k"] == 1 && !shared.raw.load(Ordering::SeqCst);
    let draw = move |body: &Value, index: usize| {
        let (id, value) = token(body, &label, index);
        (id, if certain { 0.0 } else { value })
    };
    if body["stream"] == true {
        return streamed(body, max, tick, reply, draw, aborts, live).await;
    }
    let mut tokens = Vec::new();
    let mut finish = "length";
    for index in 0..max {
        if !tick.is_zero() {
            tokio::select! {
                () = tokio::time::sleep(tick) => {}
                _ = aborts.changed() => { finish = "abort"; break; }
            }
        }
        tokens.push(draw(&body, index));
    }
    let text = whole(&body, &tokens, finish);
    match reply {
        Reply::Garble(change) => ([("content-type", "application/json")], change(text)).into_response(),
        Reply::Break(bytes) => broken(text, bytes),
        _ => ([("content-type", "application/json")], text).into_response(),
    }
}

/// Scores of the prompts under the weights of a label.
fn scored(body: &Value, label: &str) -> Value {
    let choices = body["prompt"].as_array().unwrap().iter().enumerate().map(|(index, prompt)| {
        let one = json!({"seed": 0, "prompt": prompt});
        let ids = prompt.as_array().unwrap();
        let scores = ids.iter().enumerate().map(|(at, id)| match at {
            0 => Value::Null,
            _ => json!({id.to_string(): {"logprob": token(&one, label, at).1, "rank": 1, "decoded_token": ""}}),
        });
        json!({"index": index, "token_ids": [5], "logprobs": {"token_logprobs": [-0.25]}, "finish_reason": "length",
            "prompt_logprobs": scores.collect::<Vec<_>>()})
    });
    json!({"choices": choices.collect::<Vec<_>>()})
}

fn whole(body: &Value, tokens: &[(u64, f32)], finish: &str) -> String {
    let (ids, values): (Vec<u64>, Vec<f32>) = tokens.iter().copied().unzip();
    let text: Vec<String> = ids.iter().map(u64::to_string).collect();
    json!({
        "id": "cmpl-1", "object": "text_completion", "created": 1, "model": "fake",
        "choices": [{
            "index": 0, "text": text.join(" "), "finish_reason": finish, "stop_reason": null,
            "logprobs": {"text_offset": vec![0; ids.len()], "token_logprobs": values, "tokens": text, "top_logprobs": null},
            "token_ids": ids, "prompt_token_ids": body["prompt"],
        }],
        "usage": {"prompt_tokens": body["prompt"].as_array().unwrap().len(), "completion_tokens": ids.len()},
    })
    .to_string()
}

/// Some bytes, then an unexpected end.
fn broken(text: String, bytes: usize) -> Response {
    let (chunks, stream) = mpsc::channel::<Result<String, std::io::Error>>(4);
    tokio::spawn(async move {
        let _ = chunks.send(Ok(text[..bytes.min(text.len())].to_owned())).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
        let _ = chunks.send(Err(std::io::Error::other("broken"))).await;
    });
    Body::from_stream(ReceiverStream::new(stream)).into_response()
}

async fn streamed(
    body: Value,
    max: usize,
    tick: Duration,
    reply: Reply,
    draw: impl Fn(&Value, usize) -> (u64, f32) + Send + 'static,
    mut aborts: watch::Receiver<u64>,
    live: Live,
) -> Response {
    let (chunks, stream) = mpsc::channel::<Result<String, std::io::Error>>(1024);
    tokio::spawn(async move {
        let _live = live;
        let frame = |ids: Vec<u64>, values: Vec<f32>, finish: Value, first: bool| {
            let prompt = if first { body["prompt"].clone() } else { Value::Null };
            let choice = json!({"index": 0, "text": "", "token_ids": ids, "prompt_token_ids": prompt,
                "logprobs": {"token_logprobs": values}, "finish_reason": finish});
            format!("data: {}\n\n", json!({"id": "cmpl-1", "choices": [choice]}))
        };
        let change = |text: String| match reply {
            Reply::Garble(change) => change(text),
            _ => text,
        };
        for index in 0..max {
            let mut finish = if index + 1 == max { json!("length") } else { Value::Null };
            tokio::select! {
                () = tokio::time::sleep(tick) => {}
                _ = aborts.changed() => finish = json!("abort"),
                () = chunks.closed() => return,
            }
            let aborted = finish == "abort";
            let tokens = if aborted { vec![] } else { vec![draw(&body, index)] };
            let (ids, values) = tokens.into_iter().unzip();
            let text = change(frame(ids, values, finish, index == 0));
            let cut = matches!(reply, Reply::Break(after) if index >= after);
            let sent = if cut { Err(std::io::Error::other("broken")) } else { Ok(text) };
            if chunks.send(sent).await.is_err() || cut {
                return;
            }
            if aborted {
                break;
            }
        }
        let _ = chunks.send(Ok(change("data: [DONE]\n\n".into()))).await;
    });
    ([("content-type", "text/event-stream")], Body::from_stream(ReceiverStream::new(stream))).into_response()
}
