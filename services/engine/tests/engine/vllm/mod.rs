//! The engine compared with vLLM 0.32: recorded responses in every test run, and a real server if there is one.
//!
//! ```text
//! VLLM_FOLDERS=DIR cargo test --release -p evenkeel-engine --test engine folders_for_vllm -- --ignored
//! VLLM_SERVER_DEV_MODE=1 vllm serve DIR/first --served-model-name pair --port 8100 --dtype float32 --enforce-eager \
//!     --logprobs-mode processed_logprobs --generation-config vllm
//! VLLM_FOLDERS=DIR VLLM_URL=127.0.0.1:8100 cargo test --release -p evenkeel-engine --test engine real_vllm -- --ignored --nocapture
//! ```
//!
//! With `VLLM_RECORD=FILE` the last command writes the recording anew; it belongs in `vllm/recorded.jsonl`.
#![allow(clippy::print_stdout, reason = "what was compared is worth a line")]

mod pair;
mod refused;
mod theirs;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use evenkeel_engine::Engine;
use evenkeel_model::Config;
use serde_json::{Value, json};

use crate::support::{Client, config, settings, tokens, with, write_model};
use pair::{CLOSE, NAME, Pair};
use refused::refused;
use theirs::Theirs;

/// The two models of the recording, whose weights depend on their seeds.
fn write_folders(parent: &Path) {
    // vLLM's CPU attention does not support smaller heads, and it keeps the old head of a tied model when it reloads
    // weights.
    let config = Config { head_dim: 32, tie_word_embeddings: false, ..config() };
    for (name, seed) in [("first", 5), ("other", 6)] {
        let folder = parent.join(name);
        std::fs::create_dir_all(&folder).unwrap();
        write_model(&folder, &config, seed);
    }
}

fn folders() -> PathBuf {
    std::env::var("VLLM_FOLDERS").expect("VLLM_FOLDERS is the folder that holds `first` and `other`").into()
}

#[test]
#[ignore = "writes the models for a real vLLM: VLLM_FOLDERS"]
fn folders_for_vllm() {
    write_folders(&folders());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a running vLLM: VLLM_URL and VLLM_FOLDERS"]
async fn a_client_cannot_tell_the_engine_from_a_real_vllm() {
    let url = std::env::var("VLLM_URL").expect("VLLM_URL is the HOST:PORT of a vLLM");
    let client = Client(url.trim_start_matches("http://").parse().unwrap());
    let keep = std::env::var_os("VLLM_RECORD").map(PathBuf::from);
    compare(&folders(), Theirs::Live { client, keep, kept: Vec::new() }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_cannot_tell_the_engine_from_the_recorded_vllm() {
    let parent = tempfile::tempdir().unwrap();
    write_folders(parent.path());
    compare(parent.path(), Theirs::recorded(include_str!("recorded.jsonl"))).await;
}

/// Runs the same exchanges with both.
async fn compare(parent: &Path, theirs: Theirs) {
    let [model, other] = ["first", "other"].map(|name| parent.join(name).to_str().unwrap().to_owned());
    let mut own = settings(model.as_ref());
    own.served_model_name = Some(NAME.to_owned());
    let engine = Engine::start(own).await.unwrap();
    let mut pair = Pair {
        ours: Client(engine.address()),
        theirs,
        folders: vec![("FIRST", model.clone()), ("OTHER", other.clone())],
        differences: Vec::new(),
        largest: 0.0,
        compared: 0,
    };
    surroundings(&mut pair).await;
    completions(&mut pair).await;
    truncated_distributions(&mut pair).await;
    for fields in refused() {
        pair.complete(fields).await;
    }
    other_routes(&mut pair).await;
    for folder in [&other, &model] {
        let body = json!({"method": "reload_weights", "kwargs": {"weights_path": folder}});
        pair.both("POST", "/pause?mode=keep", None).await;
        pair.both("POST", "/collective_rpc", Some(body)).await;
        pair.both("POST", "/resume", None).await;
        pair.complete(json!({"logprobs": 3, "return_token_ids": true, "max_tokens": 40, "prompt": [9, 8, 7]})).await;
    }
    metric_names(&mut pair).await;
    println!("{} values compared, largest difference of a log-probability {:e}", pair.compared, pair.largest);
    assert!(pair.differences.is_empty(), "{} differences:\n{}", pair.differences.len(), pair.differences.join("\n"));
    pair.theirs.end();
    engine.stop().await;
}

async fn surroundings(pair: &mut Pair) {
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
}

/// Completions, whole and streamed.
async fn completions(pair: &mut Pair) {
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
}

/// Texts and ids, weights, pauses.
async fn other_routes(pair: &mut Pair) {
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
}

/// Random draws differ; the reported distributions must not. The alternatives show that of the first token.
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
        let body = json!({"model": NAME, "prompt": [51, 23, 52, 31, 2], "max_tokens": 1, "logprobs": 20,
                          "return_tokens_as_token_ids": true, "seed": 3});
        let body = with(body, fields.clone());
        let (ours, theirs) = pair.ask("POST", "/v1/completions", Some(&body)).await;
        let [ours, theirs] =
            [ours, theirs].map(|reply| reply.value["choices"][0]["logprobs"]["top_logprobs"][0].clone());
        let drawable = |top: &Value| -> BTreeMap<String, f64> {
            let all = top.as_object().unwrap().iter().map(|(token, x)| (token.clone(), x.as_f64().unwrap()));
            let mut all: Vec<_> = all.filter(|(_, x)| *x > -9999.0).collect();
            all.sort_by(|a, b| b.1.total_cmp(&a.1));
            // The sampled token is reported in addition to the twenty, so that one of them is left out of a full list.
            all.truncate(19);
            all.into_iter().collect()
        };
        let ours = drawable(&ours);
        let theirs = drawable(&theirs);
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
    let (ours, theirs) = pair.ask("GET", "/metrics", None).await;
    let [ours, theirs] = [ours, theirs].map(|reply| reply.value.as_array().unwrap().clone());
    assert!(ours.len() > 20);
    for name in ours.iter().filter(|name| !theirs.contains(name)) {
        pair.differences.push(format!("metric {name} is ours alone"));
    }
}
