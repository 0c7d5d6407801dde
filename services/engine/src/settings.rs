//! Settings `engine`.

use evenkeel_model::sampling::LogprobsMode;
use std::path::PathBuf;
use std::time::Duration;

use evenkeel_config::{ByteSize, HumanDuration, Settings, at_least_1ms, at_least_one};
use evenkeel_errors::FieldError;
use evenkeel_rpc::exposure::{Protection, is_loopback, validate_address};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The embedded engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EngineSettings {
    /// Folder with `config.json`, safetensors and, for anything that involves text, `tokenizer.json`.
    pub model: PathBuf,
    /// Name under which clients request the model. Absent: the folder as written above.
    pub served_model_name: Option<String>,
    /// Whether responses with one sample include how long it queued, was prefilled and decoded (vLLM's
    /// `--enable-per-request-metrics`).
    pub per_request_metrics: bool,
    /// Address to listen on, `HOST:PORT`; port 0 takes any free one.
    pub listen: String,
    /// Whether other machines may be served in plaintext, or with `tls` without a key (`api_key_file`).
    pub insecure: bool,
    /// TLS certificate, like vLLM's `--ssl-certfile` and `--ssl-keyfile`. Absent: plaintext.
    pub tls: Option<EngineTlsSettings>,
    /// Decoding threads; 0 for one per core.
    pub threads: usize,
    /// Longest sequence, prompt and completion together, in tokens. Absent: the model's own limit.
    pub max_model_len: Option<usize>,
    /// Sequences that are decoded at once.
    pub max_sequences: usize,
    /// Sequences that may wait in addition; further ones are refused with 503.
    pub max_queue: usize,
    /// Size of the key-value cache in tokens: running sequences must fit in it at their maximum length.
    pub kv_cache_tokens: usize,
    /// Prompt tokens that one step may compute besides decoding, so that long prompts do not stall other sequences.
    pub prefill_chunk_tokens: usize,
    /// Which distribution log-probabilities in responses refer to.
    pub logprobs_mode: LogprobsMode,
    /// Maximum number of alternatives that a request may ask for at each token; -1 for the whole vocabulary.
    pub max_logprobs: i64,
    /// Minimum number of tokens in a frame of a streamed response. The first token is never held back.
    pub stream_interval: usize,
    /// Seed for requests without one: their samples depend on it and on the order of arrival.
    pub seed: u64,
    /// Largest request body.
    pub max_body: ByteSize,
    /// File with the keys, one on each line, of which requests must carry one (`Authorization: Bearer KEY`), like
    /// vLLM's `--api-key`. Absent: none.
    pub api_key_file: Option<PathBuf>,
    /// Whether to serve the control routes for a trainer (weights, pauses), as vLLM does with `VLLM_SERVER_DEV_MODE`.
    pub development_routes: bool,
    /// Folders below which weights named by a trainer must be, with links resolved. Empty: anywhere, which is allowed
    /// only for an engine that listens on a loopback address; `["/"]` allows it for others.
    pub weights_roots: Vec<PathBuf>,
    /// Connections at once, at most half of what the process may open (`ulimit -n`). Further ones are served probes and
    /// metrics only.
    pub max_connections: usize,
    /// Time limit for the header of a request, from the opening of the connection or the end of the previous response.
    /// The connection is closed then.
    #[serde(with = "HumanDuration")]
    pub header_deadline: Duration,
    /// Time limit for the body of a request.
    #[serde(with = "HumanDuration")]
    pub body_deadline: Duration,
    /// How long a client may go without reading a pending response. Then the connection is closed.
    #[serde(with = "HumanDuration")]
    pub unread_deadline: Duration,
    /// How long responses in progress may take to complete when the engine stops.
    #[serde(with = "HumanDuration")]
    pub drain: Duration,
    /// Whether only clients of this process may send requests, by the secret of [`evenkeel_rpc::private`].
    #[serde(skip)]
    pub private: bool,
}

/// The TLS certificate of an engine, as PEM files, which are read again when they change.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EngineTlsSettings {
    /// The certificate, followed by its intermediate certificates.
    pub certificate_file: PathBuf,
    /// File with the private key.
    pub key_file: PathBuf,
}

impl Default for EngineSettings {
    fn default() -> Self {
        Self {
            model: PathBuf::new(),
            served_model_name: None,
            per_request_metrics: false,
            listen: "127.0.0.1:8000".to_owned(),
            insecure: false,
            tls: None,
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
            max_body: ByteSize::mib(64),
            api_key_file: None,
            development_routes: true,
            weights_roots: Vec::new(),
            max_connections: 4096,
            header_deadline: Duration::from_secs(10),
            body_deadline: Duration::from_secs(60),
            unread_deadline: Duration::from_secs(60),
            drain: Duration::from_secs(30),
            private: false,
        }
    }
}

impl EngineSettings {
    /// These settings for a model on any free port of loopback, for clients of this process alone.
    #[must_use]
    pub fn private(self, model: impl Into<PathBuf>) -> Self {
        Self {
            model: model.into(),
            listen: "127.0.0.1:0".to_owned(),
            tls: None,
            api_key_file: None,
            private: true,
            ..self
        }
    }

    /// The defaults for the model in `folder`.
    pub fn for_model(folder: impl Into<PathBuf>) -> Self {
        Self { model: folder.into(), ..Self::default() }
    }

    /// The settings that affect the samples of requests with seeds; all others at their defaults.
    pub fn result_affecting(&self) -> Self {
        Self { max_model_len: self.max_model_len, logprobs_mode: self.logprobs_mode, ..Self::default() }
    }

    /// The name under which clients request the model.
    pub fn model_name(&self) -> String {
        self.served_model_name.clone().unwrap_or_else(|| self.model.display().to_string())
    }

    pub(crate) fn protection(&self) -> Protection {
        Protection {
            insecure: self.insecure,
            tls: self.tls.is_some(),
            authenticates: self.api_key_file.is_some(),
            credentials: "`api_key_file`",
        }
    }

    /// Threads, with the number of cores in place of 0.
    pub(crate) fn thread_count(&self) -> usize {
        match self.threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            threads => threads,
        }
    }
}

impl Settings for EngineSettings {
    fn validate(&self) -> Result<(), FieldError> {
        if self.model.as_os_str().is_empty() {
            return Err(FieldError::missing("model", "a folder with config.json and safetensors"));
        }
        if self.served_model_name.as_deref() == Some("") {
            return Err(FieldError::new("served_model_name", "\"\"", "a name, or absent"));
        }
        at_least_one(&[
            ("max_sequences", self.max_sequences as u64),
            ("kv_cache_tokens", self.kv_cache_tokens as u64),
            ("prefill_chunk_tokens", self.prefill_chunk_tokens as u64),
            ("stream_interval", self.stream_interval as u64),
            ("max_connections", self.max_connections as u64),
            ("max_model_len", self.max_model_len.unwrap_or(1) as u64),
        ])?;
        at_least_1ms(&[
            ("header_deadline", self.header_deadline),
            ("body_deadline", self.body_deadline),
            ("unread_deadline", self.unread_deadline),
        ])?;
        if self.max_body == ByteSize::b(0) {
            return Err(FieldError::new("max_body", self.max_body, "at least 1B"));
        }
        if self.threads > 1024 {
            return Err(FieldError::new("threads", self.threads, "0 (one per core) to 1024"));
        }
        if self.max_logprobs < -1 {
            return Err(FieldError::new("max_logprobs", self.max_logprobs, "-1 (the vocabulary) or at least 0"));
        }
        validate_address("listen", &self.listen)?;
        self.protection().validate("listen", &self.listen)?;
        if let Some(tls) = &self.tls {
            for (field, path) in [("tls.certificate_file", &tls.certificate_file), ("tls.key_file", &tls.key_file)] {
                if path.as_os_str().is_empty() {
                    return Err(FieldError::missing(field, "a PEM file"));
                }
            }
        }
        if self.development_routes && self.weights_roots.is_empty() && !is_loopback(&self.listen) {
            let allowed = "folders that contain the weights, since others reach `listen` ([\"/\"] for any)";
            return Err(FieldError::new("weights_roots", "empty", allowed));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_lack_only_a_model() {
        assert_eq!(EngineSettings::default().validate().unwrap_err().field, "model");
        assert_eq!(EngineSettings::for_model("/models/tiny").validate(), Ok(()));
        assert_eq!(EngineSettings::for_model("/models/tiny").model_name(), "/models/tiny");
    }

    #[test]
    fn invalid_values_are_refused_by_name() {
        let good = EngineSettings::for_model("m");
        let cases = [
            ("max_sequences", EngineSettings { max_sequences: 0, ..good.clone() }),
            ("kv_cache_tokens", EngineSettings { kv_cache_tokens: 0, ..good.clone() }),
            ("prefill_chunk_tokens", EngineSettings { prefill_chunk_tokens: 0, ..good.clone() }),
            ("stream_interval", EngineSettings { stream_interval: 0, ..good.clone() }),
            ("max_model_len", EngineSettings { max_model_len: Some(0), ..good.clone() }),
            ("max_body", EngineSettings { max_body: ByteSize::b(0), ..good.clone() }),
            ("header_deadline", EngineSettings { header_deadline: Duration::ZERO, ..good.clone() }),
            ("max_logprobs", EngineSettings { max_logprobs: -2, ..good.clone() }),
            ("threads", EngineSettings { threads: 5000, ..good.clone() }),
            ("listen", EngineSettings { listen: "8000".into(), ..good.clone() }),
            ("listen", EngineSettings { listen: "0.0.0.0:8000".into(), ..good.clone() }),
            (
                "listen",
                EngineSettings {
                    listen: "0.0.0.0:8000".into(),
                    tls: Some(EngineTlsSettings { certificate_file: "a.pem".into(), key_file: "a.key".into() }),
                    ..good.clone()
                },
            ),
            ("weights_roots", EngineSettings { listen: "0.0.0.0:8000".into(), insecure: true, ..good.clone() }),
            ("tls.certificate_file", EngineSettings { tls: Some(EngineTlsSettings::default()), ..good.clone() }),
            ("served_model_name", EngineSettings { served_model_name: Some(String::new()), ..good }),
        ];
        for (field, config) in cases {
            assert_eq!(config.validate().unwrap_err().field, field);
        }
    }

    #[test]
    fn a_misspelt_key_is_refused() {
        let error = serde_json::from_str::<EngineSettings>(r#"{"modle": "x"}"#).unwrap_err().to_string();
        assert!(error.contains("modle"), "{error}");
    }
}
