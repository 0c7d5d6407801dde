//! Prompts that begin alike: computed once, with the samples of those that compute them alone.

use std::time::Instant;

use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::support::{Client, Served, TIMEOUT, ids, logprobs, model, serve, serve_with, settings, tokens, with};
use evenkeel_engine::{Engine, EngineSettings};

/// What every prompt here begins with: 36 tokens.
const SYSTEM: &str = "11+22=33\n44+55=99\n12+34=46\n10+20=30\n";

fn request(question: &str, seed: u64) -> Value {
    json!({"prompt": ids(&format!("{SYSTEM}{question}=")), "max_tokens": 24, "temperature": 1, "seed": seed, "logprobs": 0,
           "return_token_ids": true})
}

/// Tokens and the bits of their log-probabilities.
type Bits = (Vec<u32>, Vec<u64>);

fn bits(choice: &Value) -> Bits {
    (tokens(choice), logprobs(choice).into_iter().map(f64::to_bits).collect())
}

async fn one(client: Client, request: Value) -> Bits {
    bits(&client.complete(request).await.good()["choices"][0])
}

/// Sends all at once, as soon as all of them wait in the engine.
async fn together(client: Client, requests: &[Value]) -> Vec<Bits> {
    client.freeze().await;
    let mut tasks = Vec::new();
    for (number, request) in requests.iter().enumerate() {
        tasks.push(tokio::spawn(one(client, request.clone())));
        client.until("num_requests_waiting", (number + 1) as f64).await;
    }
    client.thaw().await;
    let mut answers = Vec::new();
    for task in tasks {
        answers.push(task.await.unwrap());
    }
    answers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_samples_of_a_prompt_compute_it_once_and_each_feeds_its_last_token() {
    let Served { engine, client, .. } = serve().await;
    let length = ids(&format!("{SYSTEM}7+8=")).len() as f64;
    let answer = client.complete(with(request("7+8", 30), json!({"n": 8}))).await.good();
    assert_eq!(client.metric("prefix_cache_queries_total").await, 8.0 * length);
    assert_eq!(client.metric("prefix_cache_hits_total").await, 7.0 * (length - 1.0));
    for (number, choice) in answer["choices"].as_array().unwrap().iter().enumerate() {
        assert_eq!(one(client, request("7+8", 30 + number as u64)).await, bits(choice), "sample {number}");
    }
    engine.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prompts_share_what_they_begin_with_and_keep_their_samples_with_any_chunk_of_a_prompt() {
    let questions = ["7+8", "7+9", "3+4", "7+8", "31+4", "3+4", "7+8"];
    let requests: Vec<_> = questions.iter().zip(1..).map(|(question, seed)| request(question, seed)).collect();
    let Served { engine, client, .. } = serve().await;
    let mut alone = Vec::new();
    for request in &requests {
        alone.push(one(client, request.clone()).await);
    }
    assert_eq!(client.metric("prefix_cache_hits_total").await, 0.0);
    engine.stop().await;
    for chunk in [1, 7, 20, 512] {
        let served = serve_with(|settings| EngineSettings { prefill_chunk_tokens: chunk, ..settings }).await;
        assert_eq!(together(served.client, &requests).await, alone, "chunks of {chunk}");
        // All but the first share the beginning, four of them a whole prompt but for its last token.
        let (common, whole) = (ids(SYSTEM).len(), |question: &str| ids(&format!("{SYSTEM}{question}=")).len() - 1);
        let least = 2 * common + whole("3+4") + 2 * whole("7+8") + common;
        assert!(served.client.metric("prefix_cache_hits_total").await >= least as f64, "chunks of {chunk}");
        served.engine.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sample_that_waits_for_one_that_is_aborted_computes_its_prompt_itself() {
    let served = serve_with(|settings| EngineSettings { prefill_chunk_tokens: 1, ..settings }).await;
    let client = served.client;
    let alone = one(client, request("7+8", 2)).await;
    client.freeze().await;
    let first = with(request("7+8", 1), json!({"request_id": "first"}));
    let first = tokio::spawn(async move { client.complete(first).await.good() });
    client.until("num_requests_waiting", 1.0).await;
    let second = tokio::spawn(one(client, request("7+8", 2)));
    client.until("num_requests_waiting", 2.0).await;
    client.thaw().await;
    client.post("/abort_requests", json!({"request_ids": ["cmpl-first-0"]})).await.good();
    first.await.unwrap();
    assert_eq!(second.await.unwrap(), alone);
    served.engine.stop().await;
}

/// A long sample of `prompt` that has begun and is not at its end; the engine is left paused. Where the test is given
/// the processor too late, the sample has ended before the pause: another one is tried.
async fn frozen_halfway(client: Client, prompt: Value) -> JoinHandle<Bits> {
    let began = Instant::now();
    while began.elapsed() < TIMEOUT {
        let long = with(prompt.clone(), json!({"max_tokens": 400, "ignore_eos": true}));
        let before = client.metric("generation_tokens_total").await;
        let sample = tokio::spawn(one(client, long));
        client.until_generated(before).await;
        client.freeze().await;
        if client.metric("num_requests_running").await == 1.0 {
            return sample;
        }
        client.thaw().await;
        sample.await.unwrap();
    }
    panic!("every long sample ended before the pause");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_of_weights_that_were_replaced_are_given_to_nobody() {
    let other = model(2);
    let fresh = Engine::start(settings(other.path())).await.unwrap();
    let wanted = one(Client(fresh.address()), request("7+8", 2)).await;
    fresh.stop().await;
    let Served { engine, client, .. } = serve().await;
    // Goes on with the keys of the old weights.
    let running = frozen_halfway(client, request("7+8", 1)).await;
    let body = json!({"method": "reload_weights", "kwargs": {"weights_path": other.path()}});
    client.post("/collective_rpc", body).await.good();
    let sample = tokio::spawn(one(client, request("7+8", 2)));
    client.until("num_requests_waiting", 1.0).await;
    assert_eq!(client.metric("num_requests_running").await, 1.0, "the long sample still runs");
    client.thaw().await;
    assert_eq!(sample.await.unwrap(), wanted);
    assert_eq!(client.metric("prefix_cache_hits_total").await, 0.0);
    running.await.unwrap();
    engine.stop().await;
}
