//! The client of the second protocol.

use std::sync::atomic::{AtomicU64, Ordering};

use evenkeel_generation::engine::{
    AdapterSupport, Boxed, EngineAdvice, EngineClient, EngineClientError, EngineInfo, EngineMetrics, EnginePause,
    EngineProtocol, EngineTimings, NamedAdapter, SampleFinish, SampleOutcome, SampleRequest, SampledTokens,
    ScoreRequest, SequenceScore, WakeTarget, WorkerTensors, validate,
};
use evenkeel_proto::v1::{LogProbabilityMode, SleepLevel};
use serde_json::{Value, json};

pub(super) const PROTOCOL: EngineProtocol = EngineProtocol {
    name: "abacus",
    open: |_| {
        // An error only says that a provider is installed already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        Ok(Box::new(|address| Ok(Box::new(AbacusClient::new(&address.url)))))
    },
};

struct AbacusClient {
    url: String,
    http: reqwest::Client,
    /// Each request has a connection of its own.
    connections: AtomicU64,
}

impl AbacusClient {
    fn new(url: &str) -> Self {
        let http = reqwest::Client::builder().pool_max_idle_per_host(0).no_proxy().build().unwrap();
        Self { url: url.to_owned(), http, connections: AtomicU64::new(0) }
    }

    async fn ask(&self, route: &'static str, body: Value) -> Result<Value, EngineClientError> {
        let lost = |error: reqwest::Error| EngineClientError::Transport { route, message: error.to_string() };
        self.connections.fetch_add(1, Ordering::SeqCst);
        let sent = self.http.post(format!("{}{route}", self.url)).body(body.to_string()).send().await;
        let answer = sent.map_err(lost)?;
        let status = answer.status().as_u16();
        let bytes = answer.bytes().await.map_err(lost)?;
        if status != 200 {
            return Err(EngineClientError::status(route, status, String::from_utf8_lossy(&bytes).into_owned()));
        }
        serde_json::from_slice(&bytes).map_err(|error| EngineClientError::invalid("body", error, "JSON"))
    }

    async fn label(&self) -> Result<Option<String>, EngineClientError> {
        Ok(self.ask("/about", json!({})).await?["weights"].as_str().map(str::to_owned))
    }
}

fn numbers(value: &Value) -> Vec<f32> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap() as f32).collect()
}

impl EngineClient for AbacusClient {
    fn endpoint(&self) -> &str {
        &self.url
    }

    fn connections(&self) -> u64 {
        self.connections.load(Ordering::SeqCst)
    }

    fn probe(&self) -> Boxed<'_, EngineInfo> {
        Box::pin(async {
            let about = self.ask("/about", json!({})).await?;
            Ok(EngineInfo {
                version: "abacus 1".into(),
                model: "beads".into(),
                root: "beads".into(),
                context_tokens: about["context"].as_u64().unwrap() as u32,
                log_probabilities: LogProbabilityMode::Processed,
                updates_weights: true,
                takes_tied_head: true,
                arithmetic: String::new(),
                adapters: AdapterSupport::Missing("LoRA, which no abacus has"),
                has_digests: false,
                min_temperature: 0.5,
                advice: EngineAdvice {
                    updates: "every abacus has them",
                    sleep: "an abacus never sleeps",
                    processed: "every abacus reports them",
                },
                found_paused: about["held"] == true,
            })
        })
    }

    fn health(&self) -> Boxed<'_, ()> {
        Box::pin(async { self.ask("/about", json!({})).await.map(drop) })
    }

    fn metrics(&self) -> Boxed<'_, Option<EngineMetrics>> {
        Box::pin(async { Ok(None) })
    }

    fn check_sampling(&self) -> Boxed<'_, ()> {
        Box::pin(async { self.ask("/draw", json!({"after": [0], "seed": 1, "count": 1})).await.map(drop) })
    }

    fn sample<'a>(&'a self, request: SampleRequest<'a>, tokens: &'a mut SampledTokens) -> Boxed<'a, SampleOutcome> {
        Box::pin(async move {
            let sampling = request.sampling;
            let body = json!({"after": request.token_ids, "seed": sampling.seed, "count": sampling.max_tokens});
            let answer = self.ask("/draw", body).await?;
            let ids = answer["drawn"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32);
            ids.zip(numbers(&answer["logs"])).for_each(|(id, log)| tokens.push(id, log));
            let outcome = SampleOutcome { finish: SampleFinish::Length, timings: EngineTimings::default() };
            validate(tokens, outcome, &request)?;
            Ok(outcome)
        })
    }

    fn score<'a>(&'a self, request: ScoreRequest<'a>) -> Boxed<'a, Vec<SequenceScore>> {
        Box::pin(async move {
            let mut scores = Vec::new();
            for ids in request.sequences {
                let answer = self.ask("/score", json!({ "of": ids })).await?;
                let next = (answer["next"].as_u64().unwrap() as u32, answer["log"].as_f64().unwrap() as f32);
                scores.push(SequenceScore { log_probabilities: numbers(&answer["logs"]), sampled: next });
            }
            Ok(scores)
        })
    }

    fn tensors(&self) -> Boxed<'_, Vec<WorkerTensors>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn weights_label(&self) -> Boxed<'_, Option<String>> {
        Box::pin(self.label())
    }

    fn pause(&self, _: EnginePause, _: bool) -> Boxed<'_, ()> {
        Box::pin(async { self.ask("/hold", json!({})).await.map(drop) })
    }

    fn load_weights<'a>(&'a self, path: &'a str) -> Boxed<'a, ()> {
        Box::pin(async move { self.ask("/load", json!({ "from": path })).await.map(drop) })
    }

    fn adapters(&self) -> Boxed<'_, Vec<NamedAdapter>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn load_adapter<'a>(&'a self, _: &'a str, _: &'a str) -> Boxed<'a, ()> {
        Box::pin(async { Err(EngineClientError::NotLoadable) })
    }

    fn unload_adapter<'a>(&'a self, _: &'a str) -> Boxed<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    fn set_weights_label<'a>(&'a self, label: &'a str) -> Boxed<'a, bool> {
        Box::pin(async move { self.ask("/load", json!({ "label": label })).await.map(|_| true) })
    }

    fn resume(&self) -> Boxed<'_, ()> {
        Box::pin(async { self.ask("/go", json!({})).await.map(drop) })
    }

    fn sleep(&self, _: SleepLevel) -> Boxed<'_, ()> {
        Box::pin(async { self.ask("/sleep", json!({})).await.map(drop) })
    }

    fn wake(&self, _: WakeTarget) -> Boxed<'_, ()> {
        Box::pin(async { Ok(()) })
    }
}
