//! Determinism: samples depend on prompt, settings, seed and weights only, not on what else runs or in which order.

use crate::support::{Client, ids, logprobs, serve, serve_with, settings, tokens, with};
use evenkeel_engine::{Engine, EngineSettings};
use serde_json::{Value, json};

/// A request that involves every part of the sampler.
fn request(number: u64) -> Value {
    let limits = [
        json!({}),
        json!({"temperature": 0.7}),
        json!({"top_k": 9, "temperature": 1.3}),
        json!({"top_p": 0.9}),
        json!({"min_p": 0.05, "top_k": 40, "top_p": 0.95}),
        json!({"temperature": 0}),
    ];
    let number = number as usize;
    let prompt = ids(&format!("{}+{}=\n", 10 + number * 7 % 89, 10 + number * 13 % 89));
    let base = json!({"prompt": prompt, "max_tokens": 20 + number % 15, "temperature": 1, "seed": number * 1000,
                      "logprobs": number % 3, "return_token_ids": true});
    with(base, limits[number % limits.len()].clone())
}

/// Tokens and the bits of their log-probabilities.
fn bits(choice: &Value) -> (Vec<u32>, Vec<u64>) {
    (tokens(choice), logprobs(choice).into_iter().map(f64::to_bits).collect())
}

async fn one(client: Client, number: u64) -> (Vec<u32>, Vec<u64>) {
    bits(&client.complete(request(number)).await.good()["choices"][0])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn samples_are_the_same_to_the_bit_alone_and_under_load_in_any_order() {
    let served = serve().await;
    let mut alone = Vec::new();
    for number in 0..48 {
        alone.push(one(served.client, number).await);
    }
    // Two orders of arrival, with other streams coming and going.
    for reverse in [false, true] {
        let noise = tokio::spawn({
            let client = served.client;
            async move {
                for number in 0..6 {
                    client.frames(json!({"temperature": 1, "n": 5, "max_tokens": 30 + number})).await;
                }
            }
        });
        let mut numbers: Vec<u64> = (0..48).collect();
        if reverse {
            numbers.reverse();
        }
        let tasks: Vec<_> = numbers.iter().map(|&n| (n, tokio::spawn(one(served.client, n)))).collect();
        for (number, task) in tasks {
            assert_eq!(task.await.unwrap(), alone[number as usize], "request {number}");
        }
        noise.await.unwrap();
    }
    served.engine.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn neither_threads_nor_limits_of_the_engine_change_a_sample() {
    let base = serve().await;
    let mut wanted = Vec::new();
    for number in 0..12 {
        wanted.push(one(base.client, number).await);
    }
    let variants: [fn(EngineSettings) -> EngineSettings; 3] = [
        |settings| EngineSettings { threads: 1, prefill_chunk_tokens: 1, ..settings },
        |settings| EngineSettings { threads: 3, max_sequences: 2, ..settings },
        |settings| EngineSettings { kv_cache_tokens: 512, stream_interval: 7, ..settings },
    ];
    for change in variants {
        let engine = Engine::start(change(settings(base.folder.path()))).await.unwrap();
        let client = Client(engine.address());
        let tasks: Vec<_> = (0..12).map(|number| tokio::spawn(one(client, number))).collect();
        for (task, wanted) in tasks.into_iter().zip(&wanted) {
            assert_eq!(task.await.unwrap(), *wanted);
        }
        engine.stop().await;
    }
    base.engine.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_samples_of_one_request_equal_single_requests_with_consecutive_seeds() {
    let served = serve().await;
    let fields = json!({"temperature": 1, "seed": 40, "max_tokens": 25, "return_token_ids": true, "logprobs": 0});
    let together = served.client.complete(with(fields.clone(), json!({"n": 8}))).await.good();
    let choices = together["choices"].as_array().unwrap();
    assert_eq!(choices.len(), 8);
    for (index, choice) in choices.iter().enumerate() {
        assert_eq!(choice["index"], index);
        let single = served.client.complete(with(fields.clone(), json!({"seed": 40 + index}))).await.good();
        assert_eq!(bits(&single["choices"][0]), bits(choice), "sample {index}");
    }
    let distinct: std::collections::HashSet<_> = choices.iter().map(tokens).collect();
    assert_eq!(distinct.len(), 8);
    served.engine.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_has_the_tokens_of_the_response_in_one_piece() {
    let served = serve().await;
    for number in 0..10 {
        let whole = served.client.complete(request(number)).await.good();
        let frames = served.client.frames(request(number)).await;
        let streamed: Vec<u32> = frames.iter().flat_map(|frame| tokens(&frame["choices"][0])).collect();
        let streamed_bits: Vec<u64> =
            frames.iter().flat_map(|frame| logprobs(&frame["choices"][0])).map(f64::to_bits).collect();
        let text: String = frames.iter().map(|frame| frame["choices"][0]["text"].as_str().unwrap()).collect();
        assert_eq!((streamed, streamed_bits), bits(&whole["choices"][0]));
        assert_eq!(text, whole["choices"][0]["text"].as_str().unwrap());
    }
    served.engine.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_without_a_seed_differ_and_follow_from_the_engines_seed() {
    let fields = json!({"temperature": 1, "n": 3, "max_tokens": 25, "return_token_ids": true});
    let mut runs = Vec::new();
    for seed in [5, 5, 6] {
        let served = serve_with(|settings| EngineSettings { seed, ..settings }).await;
        let mut samples = Vec::new();
        // In vLLM, -1 means no seed.
        for fields in [fields.clone(), with(fields.clone(), json!({"seed": -1}))] {
            let answer = served.client.complete(fields).await.good();
            samples.extend(answer["choices"].as_array().unwrap().iter().map(tokens));
        }
        assert_eq!(samples.iter().collect::<std::collections::HashSet<_>>().len(), 6);
        runs.push(samples);
        served.engine.stop().await;
    }
    assert_eq!(runs[0], runs[1]);
    assert_ne!(runs[0], runs[2]);
}
