//! Settings `engine`, and what they may be.

use std::path::PathBuf;

use evenkeel_config::Settings;
use evenkeel_errors::FieldError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a model is served.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EngineConfig {
    /// Folder with `config.json`, safetensors and, for anything that has to do with text, `tokenizer.json`.
    pub model: PathBuf,
    /// Name under which clients ask for the model. Absent: the folder as it is written above.
    pub served_model_name: Option<String>,
    /// Whether answers to requests for one sample say how long it queued, was prefilled and decoded (vLLM's
    /// `--enable-per-request-metrics`).
    pub per_request_metrics: bool,
    /// Address to listen on, `HOST:PORT`; port 0 takes any free one.
    pub listen: String,
    /// Threads that decode; 0 takes as many as the machine has.
    pub threads: usize,
    /// Longest sequence, prompt and completion together, in tokens. Absent: what the model was made for.
    pub max_model_len: Option<usize>,
    /// Sequences that decode at once.
    pub max_sequences: usize,
    /// Sequences that may wait behind them; whoever comes after is refused with 503.
    pub max_queue: usize,
    /// Budget of the key-value cache, in tokens: the sequences that decode at once fit in it at their longest.
    pub kv_cache_tokens: usize,
    /// Prompt tokens that one step computes beside the sequences that decode, so that a long prompt stalls nobody.
    pub prefill_chunk_tokens: usize,
    /// What the log-probabilities in answers are of.
    pub logprobs_mode: LogprobsMode,
    /// Most alternatives that a request may ask for at each token; -1 is the whole vocabulary.
    pub max_logprobs: i64,
    /// Tokens in a frame of a streamed answer, behind the first one, which is never held back.
    pub stream_interval: usize,
    /// Where the samples of requests without a seed come from: they follow from it and from the order of arrival.
    pub seed: u64,
    /// Largest body of a request, in bytes.
    pub max_body_bytes: usize,
    /// File with the key that requests must carry (`Authorization: Bearer KEY`), as vLLM's `--api-key`. Absent: none.
    pub api_key_file: Option<PathBuf>,
    /// Whether there are the routes of a trainer, which change weights and pause: vLLM's `VLLM_SERVER_DEV_MODE`.
    pub development_routes: bool,
    /// Connections at once. Those beyond it are answered probes and metrics alone.
    pub max_connections: usize,
    /// How long a connection may take to send the header of a request, from its opening or the end of the answer before, in
    /// milliseconds; it is closed then.
    pub header_deadline_ms: u64,
    /// How long the body of a request may take, in milliseconds.
    pub body_deadline_ms: u64,
    /// How long answers in progress may take to end once the engine stops, in milliseconds.
    pub drain_ms: u64,
}

/// Which distribution a log-probability belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LogprobsMode {
    /// The one that was sampled from: after temperature and truncation, renormalised over what is left.
    #[default]
    ProcessedLogprobs,
    /// The model's own, before anything that a request asks for.
    RawLogprobs,
}

impl LogprobsMode {
    /// As vLLM's `--logprobs-mode` spells it.
    pub fn name(self) -> &'static str {
        match self {
            Self::ProcessedLogprobs => "processed_logprobs",
            Self::RawLogprobs => "raw_logprobs",
        }
    }
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            model: PathBuf::new(),
            served_model_name: None,
            per_request_metrics: false,
            listen: "127.0.0.1:8000".to_owned(),
            threads: 0,
            max_model_len: None,
            max_sequences: 256,
            max_queue: 8192,
            kv_cache_tokens: 65_536,
            prefill_chunk_tokens: 512,
            logprobs_mode: LogprobsMode::default(),
            max_logprobs: 20,
            stream_interval: 1,
            seed: 0,
            max_body_bytes: 64 << 20,
            api_key_file: None,
            development_routes: true,
            max_connections: 4096,
            header_deadline_ms: 10_000,
            body_deadline_ms: 60_000,
            drain_ms: 30_000,
        }
    }
}

impl EngineConfig {
    /// The defaults for the model in `folder`.
    pub fn for_model(folder: impl Into<PathBuf>) -> Self {
        Self { model: folder.into(), ..Self::default() }
    }

    /// The settings that decide what a run with seeds of its own samples; all others as by default.
    pub fn rules(&self) -> Self {
        Self { max_model_len: self.max_model_len, logprobs_mode: self.logprobs_mode, ..Self::default() }
    }

    /// The name that clients ask for.
    pub fn model_name(&self) -> String {
        self.served_model_name.clone().unwrap_or_else(|| self.model.display().to_string())
    }

    /// Threads, with the machine's own number in place of 0.
    pub(crate) fn thread_count(&self) -> usize {
        match self.threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            threads => threads,
        }
    }
}

impl Settings for EngineConfig {
    fn validate(&self) -> Result<(), FieldError> {
        if self.model.as_os_str().is_empty() {
            return Err(FieldError::missing("model", "a folder with config.json and safetensors"));
        }
        if self.served_model_name.as_deref() == Some("") {
            return Err(FieldError::new("served_model_name", "\"\"", "a name, or absent"));
        }
        let positive = [
            ("max_sequences", self.max_sequences),
            ("kv_cache_tokens", self.kv_cache_tokens),
            ("prefill_chunk_tokens", self.prefill_chunk_tokens),
            ("stream_interval", self.stream_interval),
            ("max_body_bytes", self.max_body_bytes),
            ("max_connections", self.max_connections),
            ("header_deadline_ms", usize::try_from(self.header_deadline_ms).unwrap_or(usize::MAX)),
            ("body_deadline_ms", usize::try_from(self.body_deadline_ms).unwrap_or(usize::MAX)),
            ("max_model_len", self.max_model_len.unwrap_or(1)),
        ];
        for (field, value) in positive {
            if value == 0 {
                return Err(FieldError::new(field, 0, "at least 1"));
            }
        }
        if self.threads > 1024 {
            return Err(FieldError::new("threads", self.threads, "0 (the machine's own number) to 1024"));
        }
        if self.max_logprobs < -1 {
            return Err(FieldError::new("max_logprobs", self.max_logprobs, "-1 (the vocabulary) or at least 0"));
        }
        let port = self.listen.rsplit_once(':').filter(|(host, _)| !host.is_empty()).map(|(_, port)| port);
        if port.and_then(|port| port.parse::<u16>().ok()).is_none() {
            return Err(FieldError::new("listen", format_args!("{:?}", self.listen), "HOST:PORT"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_lack_nothing_but_a_model() {
        assert_eq!(EngineConfig::default().validate().unwrap_err().field, "model");
        assert_eq!(EngineConfig::for_model("/models/tiny").validate(), Ok(()));
        assert_eq!(EngineConfig::for_model("/models/tiny").model_name(), "/models/tiny");
    }

    #[test]
    fn senseless_values_are_refused_by_name() {
        let good = EngineConfig::for_model("m");
        let cases = [
            ("max_sequences", EngineConfig { max_sequences: 0, ..good.clone() }),
            ("kv_cache_tokens", EngineConfig { kv_cache_tokens: 0, ..good.clone() }),
            ("prefill_chunk_tokens", EngineConfig { prefill_chunk_tokens: 0, ..good.clone() }),
            ("stream_interval", EngineConfig { stream_interval: 0, ..good.clone() }),
            ("max_model_len", EngineConfig { max_model_len: Some(0), ..good.clone() }),
            ("max_logprobs", EngineConfig { max_logprobs: -2, ..good.clone() }),
            ("threads", EngineConfig { threads: 5000, ..good.clone() }),
            ("listen", EngineConfig { listen: "8000".into(), ..good.clone() }),
            ("served_model_name", EngineConfig { served_model_name: Some(String::new()), ..good }),
        ];
        for (field, config) in cases {
            assert_eq!(config.validate().unwrap_err().field, field);
        }
    }

    #[test]
    fn a_misspelt_key_is_refused() {
        let error = serde_json::from_str::<EngineConfig>(r#"{"modle": "x"}"#).unwrap_err().to_string();
        assert!(error.contains("modle"), "{error}");
    }
}
