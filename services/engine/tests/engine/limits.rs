//! Limits: the queue, the cache, the stall caused by a long prompt; and how they are released.

use std::time::Duration;

use evenkeel_engine::{EngineSettings, Shutdown};
use serde_json::{Value, json};

use crate::support::{serve, serve_with, tokens, with};

fn long(n: usize) -> Value {
    json!({"max_tokens": 480, "ignore_eos": true, "temperature": 1, "seed": 1, "n": n, "return_token_ids": true})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_queue_responds_503_and_recovers() {
    let served = serve_with(|settings| EngineSettings { max_sequences: 2, max_queue: 3, ..settings }).await;
    let client = served.client;
    client.post("/pause?mode=keep", Value::Null).await.good();
    let five = tokio::spawn(async move { client.complete(with(long(5), json!({"max_tokens": 5}))).await.good() });
    client.until("num_requests_waiting", 5.0).await;
    for stream in [false, true] {
        let full = client.complete(json!({"stream": stream})).await;
        assert_eq!(full.status, 503);
        let error = full.json()["error"].clone();
        assert_eq!((&error["type"], &error["code"]), (&json!("Service Unavailable"), &json!(503)));
    }
    assert_eq!(client.metric("admission_rejections_total").await, 2.0);
    client.post("/resume", Value::Null).await.good();
    assert_eq!(five.await.unwrap()["choices"].as_array().unwrap().len(), 5);
    client.complete(json!({})).await.good();
    // A request larger than the whole queue can never be admitted.
    assert_eq!(client.complete(long(6)).await.status, 503);
    served.engine.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_request_releases_its_permits() {
    let served = serve_with(|settings| EngineSettings { max_sequences: 1, max_queue: 1, ..settings }).await;
    for _ in 0..5 {
        assert_eq!(served.client.complete(json!({"prompt": [500, 1], "n": 2, "temperature": 1})).await.status, 400);
        assert_eq!(served.client.complete(json!({"prompt": vec![5; 600]})).await.status, 400);
    }
    served.client.complete(json!({"n": 2, "temperature": 1})).await.good();
    served.engine.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_disconnects_frees_its_samples_at_once() {
    let served = serve().await;
    let client = served.client;
    let headers = [("content-type", "application/json")];
    let body = |stream: bool| with(long(16), json!({"prompt": [5, 6], "stream": stream})).to_string();
    // An unread stream, a whole response in progress, and a request that waits to start. They are frozen, so that none
    // ends by itself.
    for (stream, state) in
        [(true, "num_requests_running"), (false, "num_requests_running"), (false, "num_requests_waiting")]
    {
        client.freeze().await;
        let text = body(stream);
        let hold = async move {
            let response = client.open("POST", "/v1/completions", &headers, text).await;
            std::future::pending::<()>().await;
            drop(response);
        };
        let task = tokio::spawn(hold);
        client.until("num_requests_waiting", 16.0).await;
        if state == "num_requests_running" {
            client.thaw_for_a_moment().await;
        }
        client.until(state, 16.0).await;
        task.abort();
        // The connection is closed with its task.
        drop(task.await);
        client.until("num_requests_running", 0.0).await;
        client.until("num_requests_waiting", 0.0).await;
    }
    client.thaw().await;
    assert_eq!(client.metric("request_success_total").await, 48.0);
    assert_eq!(client.metric("kv_cache_usage_perc").await, 0.0);
    served.engine.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_cache_size_limits_running_sequences() {
    // Three sequences of 5 + 95 tokens fit, a fourth does not.
    let served =
        serve_with(|settings| EngineSettings { kv_cache_tokens: 390, max_model_len: Some(300), ..settings }).await;
    let client = served.client;
    client.freeze().await;
    let task = tokio::spawn(async move { client.complete(with(long(9), json!({"max_tokens": 95}))).await.good() });
    client.until("num_requests_waiting", 9.0).await;
    for _ in 0..10 {
        if client.metric("num_requests_waiting").await == 0.0 {
            break;
        }
        client.thaw_for_a_moment().await;
        // Fewer between the end of one and the start of the next, never more.
        let running = client.metric("num_requests_running").await;
        assert!(running <= 3.0, "{running} run");
        let usage = client.metric("kv_cache_usage_perc").await;
        assert!((usage - running * 100.0 / 390.0).abs() < 1e-9, "{usage}");
    }
    client.thaw().await;
    assert!(task.await.unwrap()["choices"].as_array().unwrap().iter().all(|choice| tokens(choice).len() == 95));
    served.engine.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_prompt_is_prefilled_in_chunks() {
    let served = serve_with(|settings| EngineSettings { prefill_chunk_tokens: 8, ..settings }).await;
    let client = served.client;
    // Both wait, so that they start together.
    client.freeze().await;
    let beside = tokio::spawn(async move { client.frames(with(long(1), json!({"max_tokens": 300}))).await });
    client.until("num_requests_waiting", 1.0).await;
    let prompt: Vec<u32> = (0..400).map(|i| 4 + i % 90).collect();
    let long = tokio::spawn(async move { client.complete(json!({"prompt": prompt, "max_tokens": 3})).await.good() });
    client.until("num_requests_waiting", 2.0).await;
    client.thaw().await;
    assert_eq!(long.await.unwrap()["usage"]["prompt_tokens"], 400);
    beside.await.unwrap();
    // Eight prompt tokens and one of the sequence that decodes.
    let text = client.get("/metrics").await.text;
    let bucket = |bound: &str| -> f64 {
        let start = "vllm:iteration_tokens_total_bucket{";
        let line =
            text.lines().find(|line| line.starts_with(start) && line.contains(&format!("le=\"{bound}\""))).unwrap();
        line.rsplit_once(' ').unwrap().1.parse().unwrap()
    };
    assert_eq!(bucket("16.0"), bucket("+Inf"));
    assert!(bucket("16.0") - bucket("1.0") >= 50.0);
    served.engine.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hundreds_of_requests_at_once_are_all_answered() {
    let served = serve_with(|settings| EngineSettings { max_sequences: 64, ..settings }).await;
    let client = served.client;
    let tasks: Vec<_> = (0..300)
        .map(|number| {
            tokio::spawn(async move {
                let fields =
                    json!({"max_tokens": 1 + number % 20, "ignore_eos": true, "temperature": 1, "seed": number});
                client.complete(fields).await.good()["usage"]["completion_tokens"].as_u64().unwrap()
            })
        })
        .collect();
    for (number, task) in tasks.into_iter().enumerate() {
        assert_eq!(task.await.unwrap(), 1 + number as u64 % 20);
    }
    assert_eq!(client.metric("request_success_total").await, 300.0);
    served.engine.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_completes_responses_in_progress() {
    let served = serve().await;
    let client = served.client;
    let task = tokio::spawn(async move { client.complete(long(4)).await.good() });
    client.until_generated(0.0).await;
    assert_eq!(served.engine.stop().await, Shutdown::Drained);
    assert!(
        task.await.unwrap()["choices"].as_array().unwrap().iter().all(|choice| choice["finish_reason"] == "length")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_aborts_responses_that_take_too_long() {
    let served = serve_with(|settings| EngineSettings { drain: Duration::from_millis(50), ..settings }).await;
    let client = served.client;
    client.post("/pause?mode=keep", Value::Null).await.good();
    let task = tokio::spawn(async move { client.complete(long(2)).await });
    client.until("num_requests_waiting", 2.0).await;
    let stopped = tokio::time::timeout(Duration::from_secs(30), served.engine.stop()).await.unwrap();
    assert_eq!(stopped, Shutdown::Aborted);
    let answer = task.await.unwrap().good();
    assert!(answer["choices"].as_array().unwrap().iter().all(|choice| choice["finish_reason"] == "abort"));
}
