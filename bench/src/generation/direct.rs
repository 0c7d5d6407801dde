//! A client that sends the same requests to an engine as the service does, without the service: it parses ids and
//! log-probabilities and keeps nothing.

use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::load::{Load, line};

#[derive(Deserialize)]
struct Completion {
    choices: Vec<CompletionChoice>,
}

#[derive(Deserialize)]
struct CompletionChoice {
    token_ids: Vec<u32>,
    logprobs: LogProbabilities,
}

#[derive(Deserialize)]
struct LogProbabilities {
    token_logprobs: Vec<f32>,
}

pub(crate) async fn run(url: &str, load: Load) -> Result<Value, Box<dyn Error>> {
    // The workspace's HTTP client is built with TLS and needs a provider, although nothing here is encrypted.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().no_proxy().tcp_nodelay(true).build()?;
    let models: Value = serde_json::from_slice(&client.get(format!("{url}/v1/models")).send().await?.bytes().await?)?;
    let model: Arc<str> = models["data"][0]["id"].as_str().ok_or("no model")?.into();
    let permits = Arc::new(Semaphore::new(load.in_flight));
    let began = Instant::now();
    let mut tasks = JoinSet::new();
    for sample in 0..load.samples {
        let permit = Arc::clone(&permits).acquire_owned().await?;
        let client = client.clone();
        let model = Arc::clone(&model);
        let url = format!("{url}/v1/completions");
        tasks.spawn(async move {
            let began = Instant::now();
            let tokens = request(&client, &url, &model, sample, load.tokens).await.map_err(|error| error.to_string());
            drop(permit);
            tokens.map(|tokens| (tokens, load.latency(sample, began.elapsed())))
        });
    }
    let mut tokens = 0;
    let mut latencies = Vec::new();
    while let Some(ended) = tasks.join_next().await {
        let (more, latency) = ended??;
        tokens += more;
        latencies.extend(latency);
    }
    Ok(line(load, began.elapsed(), tokens, latencies))
}

async fn request(
    client: &reqwest::Client,
    url: &str,
    model: &str,
    sample: u64,
    tokens: u32,
) -> Result<u64, Box<dyn Error + Send + Sync>> {
    let body = json!({
        "model": model, "prompt": Load::prompt(Load::group(sample)), "n": 1, "max_tokens": tokens, "temperature": 1.0,
        "top_p": 1.0, "top_k": 0, "seed": sample, "ignore_eos": true, "logprobs": 0, "return_token_ids": true,
        "skip_special_tokens": false,
    });
    let request = client.post(url).header("content-type", "application/json").body(body.to_string());
    let answer = request.send().await?.error_for_status()?.bytes().await?;
    let completion: Completion = serde_json::from_slice(&answer)?;
    let choice = completion.choices.first().ok_or("no choice")?;
    if choice.token_ids.len() != tokens as usize || choice.logprobs.token_logprobs.len() != tokens as usize {
        return Err("another number of tokens than requested".into());
    }
    Ok(u64::from(tokens))
}
