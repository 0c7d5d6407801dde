//! The engine beside a real vLLM 0.32 that serves the same folder.
//!
//! ```text
//! VLLM_SERVER_DEV_MODE=1 vllm serve FOLDER --port 8100 --dtype float32 --logprobs-mode processed_logprobs --generation-config vllm
//! VLLM_URL=127.0.0.1:8100 VLLM_MODEL=FOLDER cargo test --release -p evenkeel-engine --test engine real_vllm -- --ignored --nocapture
//! ```
//!
//! `VLLM_OTHER_MODEL` names a second folder of the same shape, whose weights both are then given.

use crate::support::{Client, settings, tokens, with};
use evenkeel_engine::Engine;
use serde_json::{Value, json};

/// How far log-probabilities may be apart.
const CLOSE: f64 = 1e-4;

struct Pair {
    ours: Client,
    theirs: Client,
    model: String,
    differences: Vec<String>,
    largest: f64,
    compared: usize,
}

impl Pair {
    async fn both(&mut self, method: &str, path: &str, body: Option<Value>) -> (Value, Value) {
        let headers: &[(&str, &str)] = if body.is_some() { &[("content-type", "application/json")] } else { &[] };
        let text = body.as_ref().map(Value::to_string).unwrap_or_default();
        let ours = self.ours.raw(method, path, headers, text.clone()).await;
        let theirs = self.theirs.raw(method, path, headers, text).await;
        let about = format!("{method} {path} {}", body.map(|body| body.to_string()).unwrap_or_default());
        let about: String = about.chars().take(220).collect();
        if ours.status != theirs.status {
            self.differences.push(format!("{about}: status {} and {}: {}", ours.status, theirs.status, theirs.text));
        }
        if ours.content_type != theirs.content_type {
            self.differences.push(format!("{about}: type {:?} and {:?}", ours.content_type, theirs.content_type));
        }
        if ours.content_type.starts_with("text/event-stream") {
            let (ours, theirs) = (whole_of(&ours.text), whole_of(&theirs.text));
            self.compare(&about, &ours, &theirs);
            return (ours, theirs);
        }
        let parse = |text: &str| serde_json::from_str(text).unwrap_or(Value::String(text.to_owned()));
        let (ours, theirs) = (parse(&ours.text), parse(&theirs.text));
        self.compare(&about, &ours, &theirs);
        (ours, theirs)
    }

    fn compare(&mut self, path: &str, ours: &Value, theirs: &Value) {
        self.compared += 1;
        // What each server makes up for itself, and the words of its messages.
        let own = [".id", ".created", ".message", ".system_fingerprint"];
        match (ours, theirs) {
            (Value::Object(a), Value::Object(b)) => {
                let (mine, other): (Vec<_>, Vec<_>) = (a.keys().collect(), b.keys().collect());
                if mine != other && !path.ends_with("top_logprobs") && !path.contains(".top_logprobs.") {
                    self.differences.push(format!("{path}: keys {mine:?} and {other:?}"));
                }
                for (key, theirs) in b {
                    match a.get(key) {
                        Some(ours) => self.compare(&format!("{path}.{key}"), ours, theirs),
                        // Among tokens that could not have been drawn each takes others.
                        None if theirs == &json!(-9999.0) => {}
                        None if path.contains(".top_logprobs.") => {
                            self.differences.push(format!("{path}.{key}: only theirs, {theirs}"));
                        }
                        None => {}
                    }
                }
            }
            (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
                for (at, (ours, theirs)) in a.iter().zip(b).enumerate() {
                    self.compare(&format!("{path}.{at}"), ours, theirs);
                }
            }
            (Value::Number(a), Value::Number(b)) if a.is_f64() && b.is_f64() => {
                let apart = (a.as_f64().unwrap() - b.as_f64().unwrap()).abs();
                self.largest = self.largest.max(apart);
                if apart > CLOSE {
                    self.differences.push(format!("{path}: {a} and {b}"));
                }
            }
            (Value::String(_), Value::String(_)) if own.iter().any(|own| path.ends_with(own)) => {}
            (Value::Number(_), Value::Number(_)) if path.ends_with(".created") => {}
            (a, b) if a == b => {}
            (a, b) => self.differences.push(format!("{path}: {a} and {b}")),
        }
    }

    async fn complete(&mut self, fields: Value) -> (Value, Value) {
        let base = json!({"model": self.model, "prompt": [51, 23, 52, 31, 2], "max_tokens": 6, "temperature": 0});
        self.both("POST", "/v1/completions", Some(with(base, fields))).await
    }
}

/// The frames of a stream by sample, put together: how many tokens share a frame is a matter of speed.
fn whole_of(text: &str) -> Value {
    let events: Vec<&str> = text.split("\n\n").filter(|event| !event.is_empty()).collect();
    assert_eq!(events.last(), Some(&"data: [DONE]"), "{text}");
    let mut samples: std::collections::BTreeMap<u64, serde_json::Map<String, Value>> = Default::default();
    let mut rest = Vec::new();
    for event in &events[..events.len() - 1] {
        let frame: Value = serde_json::from_str(event.strip_prefix("data: ").unwrap()).unwrap();
        let outer: Vec<String> = frame.as_object().unwrap().keys().cloned().collect();
        let Some(choice) = frame["choices"].get(0) else {
            rest.push(frame.clone());
            continue;
        };
        let sample = samples.entry(choice["index"].as_u64().unwrap()).or_default();
        for (key, value) in choice.as_object().unwrap() {
            match (sample.get_mut(key), value) {
                (Some(Value::String(text)), Value::String(more)) if key == "text" => text.push_str(more),
                (Some(Value::Array(all)), Value::Array(more)) => all.extend(more.clone()),
                (Some(Value::Object(all)), Value::Object(more)) => {
                    for (key, value) in more {
                        all[key].as_array_mut().unwrap().extend(value.as_array().unwrap().clone());
                    }
                }
                (Some(_), Value::Null) => {}
                _ => {
                    sample.insert(key.clone(), value.clone());
                }
            }
        }
        sample.insert("last frame".into(), json!(outer));
        if let Some(usage) = frame.get("usage") {
            sample.insert("last usage".into(), usage.clone());
        }
    }
    json!({"samples": samples.into_values().collect::<Vec<_>>(), "rest": rest})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a running vLLM: VLLM_URL and VLLM_MODEL"]
async fn a_client_cannot_tell_the_engine_from_vllm() {
    let url = std::env::var("VLLM_URL").expect("VLLM_URL is the HOST:PORT of a vLLM");
    let model = std::env::var("VLLM_MODEL").expect("VLLM_MODEL is the folder that it serves");
    let mut own = settings(model.as_ref());
    own.served_model_name = None;
    let engine = Engine::start(own).await.unwrap();
    let theirs = Client(url.trim_start_matches("http://").parse().unwrap());
    let mut pair = Pair {
        ours: Client(engine.address()),
        theirs,
        model: model.clone(),
        differences: Vec::new(),
        largest: 0.0,
        compared: 0,
    };

    for path in [
        "/health",
        "/version",
        "/v1/models",
        "/is_paused",
        "/get_world_size",
        "/load",
        "/is_sleeping",
        "/nope",
        "/v1/completions",
    ] {
        pair.both("GET", path, None).await;
    }
    for path in ["/v1/models", "/is_paused", "/health", "/weight_info"] {
        pair.both("POST", path, Some(json!({}))).await;
    }
    let (answer, _) = pair.complete(json!({"return_token_ids": true, "logprobs": 3})).await;
    let third = tokens(&answer["choices"][0])[2];
    let text = answer["choices"][0]["text"].as_str().unwrap().to_owned();
    let stops: String = text.chars().skip(1).take(2).collect();
    for fields in [
        json!({}),
        json!({"logprobs": 0}),
        json!({"logprobs": 20}),
        json!({"logprobs": 2, "return_tokens_as_token_ids": true}),
        json!({"max_tokens": 480, "ignore_eos": true, "return_token_ids": true, "logprobs": 0}),
        json!({"max_tokens": 480, "return_token_ids": true}),
        json!({"prompt": [[51, 23], [5, 6, 7]], "return_token_ids": true}),
        json!({"prompt": "12+3=\n", "return_token_ids": true}),
        json!({"prompt": ["12", "34"], "return_token_ids": true}),
        json!({"prompt": vec![5; 508], "max_tokens": 20, "return_token_ids": true}),
        json!({"prompt": vec![5; 511], "return_token_ids": true}),
        json!({"stop_token_ids": [third], "return_token_ids": true, "logprobs": 1}),
        json!({"stop_token_ids": [third], "include_stop_str_in_output": true}),
        json!({"stop": stops, "return_token_ids": true, "logprobs": 1}),
        json!({"stop": [stops, "zz"], "include_stop_str_in_output": true, "return_token_ids": true}),
        json!({"stop_token_ids": [third], "min_tokens": 5, "return_token_ids": true, "logprobs": 2}),
        json!({"min_tokens": 6, "stop": stops, "return_token_ids": true}),
        json!({"skip_special_tokens": false, "max_tokens": 200}),
        json!({"temperature": 1, "top_k": 1, "logprobs": 3, "return_token_ids": true}),
        json!({"temperature": 0.5, "top_p": 1e-6, "logprobs": 3, "return_token_ids": true}),
        json!({"temperature": 0.5, "min_p": 1.0, "logprobs": 1, "return_token_ids": true}),
        json!({"request_id": "abc"}),
    ] {
        pair.complete(fields.clone()).await;
        pair.complete(with(fields.clone(), json!({"stream": true}))).await;
        pair.complete(with(fields, json!({"stream": true, "stream_options": {"include_usage": true}}))).await;
    }
    let continuous = json!({"include_usage": true, "continuous_usage_stats": true});
    pair.complete(json!({"stream": true, "stream_options": continuous})).await;
    truncated_distributions(&mut pair).await;

    for fields in refused() {
        pair.complete(fields).await;
    }
    for (path, body) in [
        ("/tokenize", json!({"prompt": "12+3"})),
        ("/tokenize", json!({"prompt": "1<eos>2", "return_token_strs": true, "add_special_tokens": false})),
        ("/tokenize", json!({"prompt": ""})),
        ("/tokenize", json!({"prompt": "é"})),
        ("/tokenize", json!({"prompt": "1", "model": "zzz"})),
        ("/tokenize", json!({})),
        ("/tokenize", json!({"prompt": 5})),
        ("/detokenize", json!({"tokens": [51, 1, 52]})),
        ("/detokenize", json!({"tokens": [500]})),
        ("/detokenize", json!({"tokens": []})),
        ("/detokenize", json!({"tokens": [-1]})),
        ("/detokenize", json!({"tokens": ["a"]})),
        ("/detokenize", json!({})),
        ("/detokenize", json!({"tokens": [5], "model": "zzz"})),
        ("/update_weight_version", json!({"new_version": "v7"})),
        ("/update_weight_version", json!({"new_version": 5})),
        ("/update_weight_version", json!({})),
        ("/collective_rpc", json!({})),
        ("/collective_rpc", json!([])),
        ("/collective_rpc", json!({"method": "nothing"})),
        ("/collective_rpc", json!({"method": "reload_weights", "kwargs": {"weights_path": "/nonexistent"}})),
        ("/collective_rpc", json!({"method": "reload_weights", "kwargs": {"zzz": 1}})),
        ("/abort_requests", json!({})),
        ("/abort_requests", json!({"request_ids": ["x", "y"]})),
    ] {
        pair.both("POST", path, Some(body)).await;
    }
    pair.both("GET", "/weight_info", None).await;
    for path in [
        "/pause?mode=nothing",
        "/pause?clear_cache=zz",
        "/pause",
        "/pause?mode=keep",
        "/pause?mode=wait&clear_cache=false",
        "/reset_prefix_cache",
        "/resume",
        "/resume",
    ] {
        pair.both("POST", path, None).await;
        pair.both("GET", "/is_paused", None).await;
        pair.both("GET", "/health", None).await;
    }
    if let Ok(other) = std::env::var("VLLM_OTHER_MODEL") {
        for folder in [&other, &model] {
            let body = json!({"method": "reload_weights", "kwargs": {"weights_path": folder}});
            pair.both("POST", "/pause?mode=keep", None).await;
            pair.both("POST", "/collective_rpc", Some(body)).await;
            pair.both("POST", "/resume", None).await;
            pair.complete(json!({"logprobs": 3, "return_token_ids": true, "max_tokens": 40, "prompt": [9, 8, 7]}))
                .await;
        }
    }
    metric_names(&mut pair).await;

    println!("{} values compared, largest difference of a log-probability {:e}", pair.compared, pair.largest);
    assert!(pair.differences.is_empty(), "{} differences:\n{}", pair.differences.len(), pair.differences.join("\n"));
    engine.stop().await;
}

/// Random draws differ; what each server says of its distribution must not. The alternatives show the first token's.
async fn truncated_distributions(pair: &mut Pair) {
    for fields in [
        json!({"temperature": 1.0}),
        json!({"temperature": 0.7}),
        json!({"temperature": 1.7}),
        json!({"temperature": 1.0, "top_k": 5}),
        json!({"temperature": 1.0, "top_p": 0.8}),
        json!({"temperature": 0.8, "top_p": 0.9, "top_k": 7}),
        json!({"temperature": 0.9, "min_p": 0.2}),
        json!({"temperature": 1.3, "min_p": 0.05, "top_p": 0.7, "top_k": 12}),
    ] {
        let body = json!({"model": pair.model, "prompt": [51, 23, 52, 31, 2], "max_tokens": 1, "logprobs": 20,
                          "return_tokens_as_token_ids": true, "seed": 3});
        let body = with(body, fields.clone());
        let first = |answer: crate::support::Answer| answer.good()["choices"][0]["logprobs"]["top_logprobs"][0].clone();
        let ours = first(pair.ours.post("/v1/completions", body.clone()).await);
        let theirs = first(pair.theirs.post("/v1/completions", body).await);
        let drawable = |top: &Value| -> std::collections::BTreeMap<String, f64> {
            let all = top.as_object().unwrap().iter().map(|(token, x)| (token.clone(), x.as_f64().unwrap()));
            let mut all: Vec<_> = all.filter(|(_, x)| *x > -9999.0).collect();
            all.sort_by(|a, b| b.1.total_cmp(&a.1));
            // The sampled token stands beside the twenty, so that one of them is left out of a full list.
            all.truncate(19);
            all.into_iter().collect()
        };
        let (ours, theirs) = (drawable(&ours), drawable(&theirs));
        if ours.keys().collect::<Vec<_>>() != theirs.keys().collect::<Vec<_>>() {
            pair.differences.push(format!("{fields}: support {ours:?} and {theirs:?}"));
            continue;
        }
        for (token, ours) in &ours {
            let apart = (ours - theirs[token]).abs();
            pair.largest = pair.largest.max(apart);
            pair.compared += 1;
            if apart > CLOSE {
                pair.differences.push(format!("{fields} {token}: {ours} and {}", theirs[token]));
            }
        }
    }
}

/// Every counter and gauge of ours is one of theirs.
async fn metric_names(pair: &mut Pair) {
    let names = |text: String| -> Vec<String> {
        text.lines().filter_map(|line| line.strip_prefix("# TYPE vllm:")).map(str::to_owned).collect()
    };
    let ours = names(pair.ours.get("/metrics").await.text);
    let theirs = names(pair.theirs.get("/metrics").await.text);
    assert!(ours.len() > 20);
    for name in ours.iter().filter(|name| !theirs.contains(name)) {
        pair.differences.push(format!("metric {name} is ours alone"));
    }
}

/// Requests that both refuse; status, kind, param and code are compared, not the words.
fn refused() -> Vec<Value> {
    let mut all = vec![
        json!({"prompt": [1, "a"]}),
        json!({"prompt": 5}),
        json!({"prompt": null}),
        json!({"prompt": ""}),
        json!({"prompt": []}),
        json!({"prompt": [[]]}),
        json!({"prompt": [[1], []]}),
        json!({"prompt": [-1]}),
        json!({"prompt": [128]}),
        json!({"prompt": [500000]}),
        json!({"prompt": [1.5]}),
        json!({"prompt": vec![5; 513]}),
        json!({"prompt": vec![5; 512]}),
        json!({"model": "zzz"}),
        json!({"model": 5}),
        json!({"n": 2}),
        json!({"n": 17000, "temperature": 1}),
        json!({"temperature": "x", "n": "y"}),
        json!({"stream_options": {"include_usage": true}}),
        json!({"stream": true, "temperature": 9}),
        json!({"stream": true, "prompt": vec![5; 512]}),
        json!({"stop": [""]}),
        json!({"cache_salt": ""}),
        json!({"suffix": "a"}),
        json!({"prompt_embeds": "x"}),
        json!({"allowed_token_ids": []}),
    ];
    let table = json!({
        "max_tokens": [0, -1, "x", 1.5, 1000, 513], "temperature": [-0.1, 2.1, "x"], "top_p": [0, 1.1, -1, "x"],
        "top_k": [-2, 1.5, "x"], "min_p": [-0.1, 1.1], "n": [0, -1, "x"], "seed": ["x", 1.5],
        "logprobs": [-2, -1, 21, "x", 1.5], "stop": ["", 5], "stop_token_ids": [["x"], [200], [-1], 5],
        "min_tokens": [-1, 7], "ignore_eos": ["x"], "return_token_ids": ["x"], "stream": ["x"],
    });
    for (field, values) in table.as_object().unwrap() {
        all.extend(values.as_array().unwrap().iter().map(|value| json!({field.clone(): value})));
    }
    all
}
