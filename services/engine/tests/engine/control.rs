//! Pauses, new weights and aborts while samples run.

use std::time::Duration;

use evenkeel_engine::Engine;
use serde_json::{Value, json};

use crate::support::{Client, Served, config, model, serve, settings, tokens, with, write_model};

/// A long greedy sample.
fn long() -> Value {
    json!({"max_tokens": 480, "ignore_eos": true, "return_token_ids": true, "temperature": 1, "seed": 4})
}

/// Starts a long sample and waits until it runs.
async fn running(client: Client, fields: Value) -> tokio::task::JoinHandle<Value> {
    let before = client.metric("generation_tokens_total").await;
    let task = tokio::spawn(async move { client.complete(fields).await.good() });
    while client.metric("generation_tokens_total").await < before + 3.0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    task
}

async fn reload(client: Client, folder: &std::path::Path) {
    let body = json!({"method": "reload_weights", "kwargs": {"weights_path": folder}});
    assert_eq!(client.post("/collective_rpc", body).await.good(), json!({"results": [null]}));
}

async fn pause(client: Client, query: &str) {
    assert_eq!(client.post(&format!("/pause?{query}"), Value::Null).await.good(), json!({"status": "paused"}));
    assert_eq!(client.get("/is_paused").await.good(), json!({"is_paused": true}));
    assert_eq!(client.get("/health").await.status, 200);
}

async fn resume(client: Client) {
    assert_eq!(client.post("/resume", Value::Null).await.good(), json!({"status": "resumed"}));
    assert_eq!(client.get("/is_paused").await.good(), json!({"is_paused": false}));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn abort_ends_running_samples_with_their_tokens() {
    let served = serve().await;
    let whole = served.client.complete(long()).await.good();
    let task = running(served.client, long()).await;
    pause(served.client, "mode=abort").await;
    let cut = task.await.unwrap();
    let choice = &cut["choices"][0];
    let all = tokens(&whole["choices"][0]);
    let got = tokens(choice);
    // On a busy machine the sample may have ended before the pause; it is then complete.
    match choice["finish_reason"].as_str().unwrap() {
        "abort" => assert!(!got.is_empty() && got.len() < 480),
        other => assert_eq!((other, got.len()), ("length", 480)),
    }
    assert_eq!(choice["stop_reason"], Value::Null);
    assert_eq!(got, all[..got.len()]);
    assert_eq!(cut["usage"]["completion_tokens"], got.len());
    resume(served.client).await;
    assert_eq!(served.client.complete(long()).await.good()["choices"], whole["choices"]);
    served.engine.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_aborted_stream_ends_with_the_finish_reason_abort() {
    let served = serve().await;
    let client = served.client;
    client.freeze().await;
    let task = tokio::spawn(async move { client.frames(with(long(), json!({"n": 4}))).await });
    client.until("num_requests_waiting", 4.0).await;
    client.thaw().await;
    client.until_generated(0.0).await;
    pause(client, "").await;
    let frames = task.await.unwrap();
    for index in 0..4 {
        let own: Vec<_> = frames.iter().map(|frame| &frame["choices"][0]).filter(|own| own["index"] == index).collect();
        let reason = own.last().unwrap()["finish_reason"].as_str().unwrap();
        assert!(["abort", "length"].contains(&reason), "{reason}");
    }
    resume(client).await;
    served.engine.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wait_finishes_running_samples_and_holds_new_ones() {
    let served = serve().await;
    let task = running(served.client, long()).await;
    pause(served.client, "mode=wait").await;
    // The pause returned after the sample had ended.
    assert_eq!(served.client.metric("num_requests_running").await, 0.0);
    let whole = task.await.unwrap();
    assert_eq!((tokens(&whole["choices"][0]).len(), &whole["choices"][0]["finish_reason"]), (480, &json!("length")));
    let client = served.client;
    let held = tokio::spawn(async move { client.complete(json!({})).await.good() });
    client.until("num_requests_waiting", 1.0).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!held.is_finished());
    resume(client).await;
    assert_eq!(held.await.unwrap()["usage"]["completion_tokens"], 6);
    served.engine.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keep_freezes_running_samples_which_continue_with_the_same_bits() {
    let served = serve().await;
    let whole = served.client.complete(long()).await.good();
    // With and without the cache: recomputation gives the same.
    for query in ["mode=keep&clear_cache=false", "mode=keep&clear_cache=true", "mode=keep"] {
        let task = running(served.client, long()).await;
        pause(served.client, query).await;
        let frozen = served.client.metric("generation_tokens_total").await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(served.client.metric("generation_tokens_total").await, frozen);
        resume(served.client).await;
        assert_eq!(task.await.unwrap()["choices"], whole["choices"], "{query}");
    }
    served.engine.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn resume_ends_a_pause_that_still_waits() {
    let served = serve().await;
    let task = running(served.client, with(long(), json!({"n": 32}))).await;
    let client = served.client;
    let pausing = tokio::spawn(async move { client.post("/pause?mode=wait", Value::Null).await.status });
    while client.get("/is_paused").await.good() != json!({"is_paused": true}) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    resume(client).await;
    assert_eq!(pausing.await.unwrap(), 200);
    assert!(task.await.unwrap()["choices"].as_array().unwrap().iter().all(|choice| tokens(choice).len() == 480));
    served.engine.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_updated_engine_samples_like_one_started_with_the_weights() {
    let Served { engine, client, folder } = serve().await;
    let other = model(2);
    let fresh = Engine::start(settings(other.path())).await.unwrap();
    let fields = json!({"logprobs": 3, "return_token_ids": true, "max_tokens": 30, "temperature": 1, "seed": 5});
    let old = client.complete(fields.clone()).await.good();
    let new = Client(fresh.address()).complete(fields.clone()).await.good();
    assert_ne!(old["choices"], new["choices"]);
    reload(client, other.path()).await;
    assert_eq!(client.complete(fields.clone()).await.good()["choices"], new["choices"]);
    reload(client, folder.path()).await;
    assert_eq!(client.complete(fields.clone()).await.good()["choices"], old["choices"]);
    // Without a folder it reloads the last one.
    write_model(folder.path(), &config(), 2);
    assert_eq!(client.post("/collective_rpc", json!({"method": "reload_weights"})).await.status, 200);
    assert_eq!(client.complete(fields).await.good()["choices"], new["choices"]);
    fresh.stop().await;
    engine.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_weights_leave_the_old_ones_and_the_engine_running() {
    let Served { engine, client, folder } = serve().await;
    let wanted = client.complete(json!({"logprobs": 1})).await.good();
    let empty = tempfile::tempdir().unwrap();
    let cut = model(2);
    let file = cut.path().join("model.safetensors");
    let whole = std::fs::read(&file).unwrap();
    std::fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    let other = tempfile::tempdir().unwrap();
    write_model(other.path(), &evenkeel_model::Config { num_layers: 1, ..config() }, 3);
    let shape = tempfile::tempdir().unwrap();
    write_model(shape.path(), &evenkeel_model::Config { num_layers: 1, ..config() }, 3);
    std::fs::remove_file(shape.path().join("config.json")).unwrap();
    for (path, part) in [
        (std::path::Path::new("/nowhere/at/all"), "/nowhere/at/all"),
        (empty.path(), "model.safetensors"),
        (cut.path(), "model.safetensors"),
        (other.path(), "config.json"),
        (shape.path(), "model.layers.1."),
    ] {
        let body = json!({"method": "reload_weights", "kwargs": {"weights_path": path}});
        let answer = client.post("/collective_rpc", body).await;
        assert_eq!(answer.status, 500);
        let message = answer.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(message.contains(part), "{message}");
    }
    for kwargs in [json!({"path": folder.path()}), json!({"weights_path": 5})] {
        assert_eq!(
            client.post("/collective_rpc", json!({"method": "reload_weights", "kwargs": kwargs})).await.status,
            500
        );
    }
    assert_eq!(client.complete(json!({"logprobs": 1})).await.good()["choices"], wanted["choices"]);
    engine.stop().await;
}

/// A weight update under load: every response comes from a single version.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_sample_mixes_versions_if_the_pause_aborts_or_waits() {
    let Served { engine, client, folder } = serve().await;
    let other = model(2);
    let fields = |number: usize| json!({"max_tokens": 60, "temperature": 1, "seed": number, "n": 2, "logprobs": 0, "return_token_ids": true, "ignore_eos": true});
    // The expected response of each request under each version.
    let mut wanted = Vec::new();
    for folder in [folder.path(), other.path()] {
        reload(client, folder).await;
        let mut answers = Vec::new();
        for number in 0..10 {
            answers.push(client.complete(fields(number)).await.good()["choices"].clone());
        }
        wanted.push(answers);
    }
    reload(client, folder.path()).await;
    let load: Vec<_> = (0..10)
        .map(|number| {
            tokio::spawn(async move {
                let mut answers = Vec::new();
                for _ in 0..12 {
                    answers.push(client.complete(fields(number)).await.good()["choices"].clone());
                }
                answers
            })
        })
        .collect();
    for turn in 0..6 {
        let mode = ["abort", "wait"][turn / 2 % 2];
        let next = [other.path(), folder.path()][turn % 2];
        pause(client, &format!("mode={mode}")).await;
        reload(client, next).await;
        client.post("/update_weight_version", json!({"new_version": format!("step-{turn}")})).await.good();
        resume(client).await;
        assert_eq!(client.get("/weight_info").await.good(), json!({"weight_version": format!("step-{turn}")}));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut seen = [0, 0];
    for (number, task) in load.into_iter().enumerate() {
        for choices in task.await.unwrap() {
            for (index, choice) in choices.as_array().unwrap().iter().enumerate() {
                let got = (tokens(choice), crate::support::logprobs(choice));
                let version = (0..2).find(|&version| {
                    let whole = &wanted[version][number][index];
                    let all = (tokens(whole), crate::support::logprobs(whole));
                    got.0 == all.0[..got.0.len()] && got.1 == all.1[..got.1.len()]
                });
                seen[version.unwrap_or_else(|| panic!("request {number} mixes versions"))] += 1;
                assert!(choice["finish_reason"] == "abort" || got.0.len() == 60);
            }
        }
    }
    assert!(seen[0] > 0 && seen[1] > 0, "{seen:?}");
    engine.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kept_sample_continues_with_the_new_weights() {
    let Served { engine, client, folder } = serve().await;
    let other = model(2);
    let old = client.complete(long()).await.good();
    let old = tokens(&old["choices"][0]);
    let task = running(client, long()).await;
    pause(client, "mode=keep").await;
    reload(client, other.path()).await;
    resume(client).await;
    let mixed = tokens(&task.await.unwrap()["choices"][0]);
    assert_eq!(mixed.len(), 480);
    let same = mixed.iter().zip(&old).take_while(|(a, b)| a == b).count();
    assert!(same > 0);
    if same < 480 {
        // The cache was cleared with the pause: the new weights continue the whole text so far, with the next random
        // numbers of the sample's stream.
        let prompt = [crate::support::ids("12+3="), mixed[..same].to_vec()].concat();
        let fields = json!({"prompt": prompt, "max_tokens": 1, "temperature": 0, "logprobs": 20, "return_tokens_as_token_ids": true});
        let next = client.complete(fields).await.good();
        assert_eq!(next["usage"]["completion_tokens"], 1);
    }
    reload(client, folder.path()).await;
    engine.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_are_aborted_by_their_ids_or_all_at_once() {
    let served = serve().await;
    let client = served.client;
    let one = running(client, with(long(), json!({"request_id": "one", "n": 8}))).await;
    let two = running(client, with(long(), json!({"request_id": "two", "n": 8}))).await;
    let answer = client.post("/abort_requests", json!({"request_ids": ["cmpl-one-0"]})).await.good();
    assert_eq!(answer, json!({"status": "aborted", "aborted": 1}));
    let reasons = |answer: &Value| -> Vec<String> {
        answer["choices"]
            .as_array()
            .unwrap()
            .iter()
            .map(|choice| choice["finish_reason"].as_str().unwrap().to_owned())
            .collect()
    };
    let one = one.await.unwrap();
    let two = two.await.unwrap();
    assert!(reasons(&two).iter().all(|reason| reason == "length"));
    assert!(reasons(&one).iter().all(|reason| reason == "abort" || reason == "length"));
    assert_eq!(client.post("/abort_requests", json!({})).await.good(), json!({"status": "aborted", "aborted": 0}));
    served.engine.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reset_recomputes_running_samples_to_the_same_bits() {
    let served = serve().await;
    let whole = served.client.complete(long()).await.good();
    let task = running(served.client, long()).await;
    for query in ["", "?reset_running_requests=true", "?reset_external=true&reset_running_requests=1"] {
        let answer = served.client.post(&format!("/reset_prefix_cache{query}"), Value::Null).await;
        assert_eq!(answer.good(), json!({"success": true}));
    }
    assert_eq!(task.await.unwrap()["choices"], whole["choices"]);
    served.engine.stop().await;
}
