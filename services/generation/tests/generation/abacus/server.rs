//! The engine of the second protocol. What it draws follows from tokens, seed and the label of its weights.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use serde_json::{Value, json};

/// What a server has.
#[derive(Default)]
struct Beads {
    weights: String,
    held: bool,
    log: Vec<String>,
}

pub(super) struct Abacus {
    pub(super) url: String,
    beads: Arc<Mutex<Beads>>,
}

impl Abacus {
    pub(super) async fn start() -> Self {
        let beads = Arc::new(Mutex::new(Beads { weights: "first".into(), ..Beads::default() }));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new()
            .route("/about", post(answer))
            .route("/draw", post(answer))
            .route("/score", post(answer))
            .route("/load", post(answer))
            .route("/hold", post(answer))
            .route("/go", post(answer))
            .with_state(Arc::clone(&beads));
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, beads }
    }

    /// What its weights were asked to do since the last call.
    pub(super) fn take_log(&self) -> Vec<String> {
        std::mem::take(&mut self.beads.lock().unwrap().log)
    }
}

/// The token after others and its log-probability, of these weights.
pub(super) fn next(weights: &str, ids: &[u32], seed: u64) -> (u32, f32) {
    let words = ids.iter().map(|&id| u64::from(id)).chain(weights.bytes().map(u64::from));
    let hash = words.fold(seed + 1, |hash, word| (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29));
    (2 + (hash % 60) as u32, -((hash >> 40) as u8 as f32) / 64.0)
}

/// The log-probability of each token but the first, of these weights.
pub(super) fn scores(weights: &str, ids: &[u32]) -> Vec<f32> {
    (1..ids.len()).map(|at| next(weights, &ids[..=at], 0).1).collect()
}

fn ids(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

async fn answer(
    State(beads): State<Arc<Mutex<Beads>>>,
    uri: axum::http::Uri,
    body: String,
) -> (StatusCode, axum::Json<Value>) {
    let body: Value = serde_json::from_str(&body).unwrap();
    let mut beads = beads.lock().unwrap();
    let answer = match uri.path() {
        "/draw" if beads.held => return (StatusCode::CONFLICT, axum::Json(json!("held"))),
        "/draw" => {
            let mut all = ids(&body["after"]);
            let drawn = (0..body["count"].as_u64().unwrap()).map(|_| {
                let (id, log) = next(&beads.weights, &all, body["seed"].as_u64().unwrap());
                all.push(id);
                (id, log)
            });
            let (drawn, logs): (Vec<u32>, Vec<f32>) = drawn.unzip();
            json!({"drawn": drawn, "logs": logs})
        }
        "/score" => {
            let of = ids(&body["of"]);
            let (id, log) = next(&beads.weights, &of, 0);
            json!({"logs": scores(&beads.weights, &of), "next": id, "log": log})
        }
        "/load" => {
            beads.log.push(format!("load {body}"));
            if let Some(label) = body["label"].as_str() {
                beads.weights = label.to_owned();
            }
            json!({})
        }
        path @ ("/hold" | "/go") => {
            beads.held = path == "/hold";
            beads.log.push(path.to_owned());
            json!({})
        }
        _ => json!({"weights": beads.weights, "held": beads.held, "context": 256}),
    };
    (StatusCode::OK, axum::Json(answer))
}
