//! Shared by the black-box tests: small models on disk, an engine that serves one, a client.
#![allow(unreachable_pub, reason = "a module of a test binary")]

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use candle_core::{DType, Device, Tensor};
use evenkeel_engine::{Engine, EngineSettings, RunningEngine};
use evenkeel_model::folder::{SaveOptions, save_config, save_parameters};
use evenkeel_model::{Architecture, Biases, Config, ParameterKind, Parameters, Rope, parameter_specs};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper_util::rt::TokioIo;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Normal};
use serde_json::{Value, json};
use tempfile::TempDir;

/// No test takes longer, even on a busy machine.
pub const TIMEOUT: Duration = Duration::from_secs(60);
pub const PAD: u32 = 0;
pub const EOS: u32 = 1;

pub fn config() -> Config {
    Config {
        architecture: Architecture::QWEN3,
        query_key_norm: true,
        vocab_size: 128,
        hidden_size: 32,
        intermediate_size: 48,
        num_layers: 2,
        num_heads: 2,
        num_kv_heads: 1,
        head_dim: 16,
        max_position_embeddings: 512,
        rms_norm_eps: 1e-6,
        rope: Rope::plain(1e4),
        layers_without_rope: Vec::new(),
        biases: Biases::NONE,
        tie_word_embeddings: true,
        eos_token_ids: vec![EOS],
    }
}

/// One token for each printable character, as in the built-in recipe: ids 0 and 1 are special, 2 is a line break, 3 a
/// space.
pub fn tokenizer_json() -> Value {
    let characters = "\n ".chars().chain((33u8..127).map(char::from));
    let vocabulary = ["<pad>".to_owned(), "<eos>".to_owned()].into_iter().chain(characters.map(String::from));
    let ids: serde_json::Map<String, Value> = vocabulary.enumerate().map(|(id, token)| (token, json!(id))).collect();
    let special = |id: u32, content: &str| {
        json!({"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
               "normalized": false, "special": true})
    };
    json!({
        "version": "1.0", "truncation": null, "padding": null,
        "added_tokens": [special(0, "<pad>"), special(1, "<eos>")],
        "normalizer": null,
        "pre_tokenizer": {"type": "Split", "pattern": {"String": ""}, "behavior": "Isolated", "invert": false},
        "post_processor": null,
        "decoder": {"type": "Fuse"},
        "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
                  "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
                  "vocab": ids, "merges": []},
    })
}

/// The ids of a text.
pub fn ids(text: &str) -> Vec<u32> {
    text.chars()
        .map(|c| {
            if c == '\n' {
                2
            } else if c == ' ' {
                3
            } else {
                c as u32 - 33 + 4
            }
        })
        .collect()
}

/// Random weights from a generator of this file: vLLM's responses were recorded with them, so they must not change with
/// the initialisation of fresh models.
fn weights(config: &Config, seed: u64) -> Parameters {
    let values = parameter_specs(config).0.into_iter().enumerate().map(|(id, spec)| {
        let count = spec.shape.iter().product();
        let values: Vec<f32> = match spec.kind {
            ParameterKind::Matrix | ParameterKind::Adapter => {
                let mut rng = ChaCha8Rng::seed_from_u64(seed);
                rng.set_stream(id as u64);
                Normal::new(0.0, 0.35).unwrap().sample_iter(rng).take(count).collect()
            }
            ParameterKind::Norm => vec![1.0; count],
            ParameterKind::Bias => vec![0.0; count],
        };
        Tensor::from_vec(values, spec.shape, &Device::Cpu).unwrap()
    });
    Parameters::new(config, values.collect(), &Device::Cpu).unwrap()
}

/// Writes a model with random weights.
pub fn write_model(folder: &Path, config: &Config, seed: u64) {
    let parameters = weights(config, seed);
    save_parameters(folder, &parameters, SaveOptions::default()).unwrap();
    save_config(folder, &config.to_json().unwrap(), DType::F32).unwrap();
    std::fs::write(folder.join("tokenizer.json"), tokenizer_json().to_string()).unwrap();
    std::fs::write(
        folder.join("tokenizer_config.json"),
        json!({"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<eos>", "pad_token": "<pad>"}).to_string(),
    )
    .unwrap();
}

pub fn model(seed: u64) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    write_model(folder.path(), &config(), seed);
    folder
}

/// Settings for a folder on any free port.
pub fn settings(folder: &Path) -> EngineSettings {
    EngineSettings {
        listen: "127.0.0.1:0".to_owned(),
        served_model_name: Some("tiny".to_owned()),
        threads: 2,
        drain: Duration::from_secs(5),
        ..EngineSettings::for_model(folder)
    }
}

/// An engine and the folder that it serves.
pub struct Served {
    pub engine: RunningEngine,
    pub client: Client,
    pub folder: TempDir,
}

/// Serves the model of seed 1.
pub async fn serve() -> Served {
    serve_with(|settings| settings).await
}

pub async fn serve_with(change: impl FnOnce(EngineSettings) -> EngineSettings) -> Served {
    let folder = model(1);
    let engine = Engine::start(change(settings(folder.path()))).await.unwrap();
    let client = Client(engine.address());
    Served { engine, client, folder }
}

/// A client that opens a connection for each call.
#[derive(Clone, Copy)]
pub struct Client(pub SocketAddr);

pub struct HttpAnswer {
    pub status: u16,
    pub content_type: String,
    pub text: String,
}

impl HttpAnswer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    /// The JSON of a 200.
    pub fn good(&self) -> Value {
        assert_eq!(self.status, 200, "{}", self.text);
        self.json()
    }
}

impl Client {
    /// Sends a request; the response's body is still to be read. Dropping it disconnects.
    pub async fn open(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: String,
    ) -> http::Response<Incoming> {
        let stream = tokio::net::TcpStream::connect(self.0).await.unwrap();
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let mut request = http::Request::builder().method(method).uri(path).header("host", "localhost");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(Bytes::from(body))).unwrap();
        tokio::time::timeout(TIMEOUT, sender.send_request(request)).await.expect("an answer in time").unwrap()
    }

    pub async fn raw(&self, method: &str, path: &str, headers: &[(&str, &str)], body: String) -> HttpAnswer {
        let response = self.open(method, path, headers, body).await;
        let status = response.status().as_u16();
        let content_type =
            response.headers().get("content-type").map_or("", |value| value.to_str().unwrap()).to_owned();
        let bytes = tokio::time::timeout(TIMEOUT, response.into_body().collect()).await.expect("a body in time");
        let text = String::from_utf8(bytes.unwrap().to_bytes().to_vec()).unwrap();
        HttpAnswer { status, content_type, text }
    }

    pub async fn get(&self, path: &str) -> HttpAnswer {
        self.raw("GET", path, &[], String::new()).await
    }

    pub async fn post(&self, path: &str, body: Value) -> HttpAnswer {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.raw("POST", path, &[("content-type", "application/json")], body).await
    }

    /// `/v1/completions` with these fields over a short greedy request.
    pub async fn complete(&self, fields: Value) -> HttpAnswer {
        self.post("/v1/completions", with(json!({"prompt": ids("12+3="), "max_tokens": 6, "temperature": 0}), fields))
            .await
    }

    /// The frames of a streamed completion, without the final `[DONE]`, which is required.
    pub async fn frames(&self, fields: Value) -> Vec<Value> {
        let answer = self.complete(with(json!({"stream": true}), fields)).await;
        assert_eq!(
            (answer.status, answer.content_type.as_str()),
            (200, "text/event-stream; charset=utf-8"),
            "{}",
            answer.text
        );
        let mut events: Vec<&str> = answer.text.split("\n\n").collect();
        assert_eq!(events.pop(), Some(""));
        assert_eq!(events.pop(), Some("data: [DONE]"));
        events.iter().map(|event| serde_json::from_str(event.strip_prefix("data: ").unwrap()).unwrap()).collect()
    }

    /// A metric's value, summed over its labels.
    pub async fn metric(&self, name: &str) -> f64 {
        let text = self.get("/metrics").await.text;
        let lines: Vec<_> = text.lines().filter(|line| line.starts_with(&format!("vllm:{name}{{"))).collect();
        assert!(!lines.is_empty(), "no metric {name}");
        lines.iter().map(|line| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap()).sum()
    }

    /// Waits until a metric has a value.
    pub async fn until(&self, name: &str, value: f64) {
        let wait = async {
            while self.metric(name).await != value {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(TIMEOUT, wait).await.unwrap_or_else(|_| panic!("{name} never became {value}"));
    }
}

/// Waits for metrics that only grow: a transient state could be missed on a busy machine.
impl Client {
    /// Waits until something was generated beyond `before` tokens.
    pub async fn until_generated(&self, before: f64) {
        let wait = async {
            while self.metric("generation_tokens_total").await <= before {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(TIMEOUT, wait).await.expect("tokens in time");
    }

    /// Freezes all running sequences.
    pub async fn freeze(&self) {
        self.post("/pause?mode=keep&clear_cache=false", Value::Null).await.good();
    }

    /// Lets frozen sequences run for a moment, then freezes them again.
    pub async fn thaw_for_a_moment(&self) {
        let before = self.metric("generation_tokens_total").await;
        self.thaw().await;
        self.until_generated(before).await;
        self.freeze().await;
    }

    pub async fn thaw(&self) {
        self.post("/resume", Value::Null).await.good();
    }
}

/// Overrides fields of the first object by those of the second; null removes a field.
pub fn with(mut base: Value, fields: Value) -> Value {
    for (name, value) in fields.as_object().unwrap() {
        match value {
            Value::Null => base.as_object_mut().unwrap().remove(name),
            value => base.as_object_mut().unwrap().insert(name.clone(), value.clone()),
        };
    }
    base
}

/// The token ids of a choice.
pub fn tokens(choice: &Value) -> Vec<u32> {
    choice["token_ids"]
        .as_array()
        .unwrap_or_else(|| panic!("{choice}"))
        .iter()
        .map(|id| id.as_u64().unwrap() as u32)
        .collect()
}

/// Log-probabilities of the sampled tokens, to the bit.
pub fn logprobs(choice: &Value) -> Vec<f64> {
    choice["logprobs"]["token_logprobs"].as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
}

pub fn keys(value: &Value) -> Vec<&str> {
    let mut keys: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys
}
