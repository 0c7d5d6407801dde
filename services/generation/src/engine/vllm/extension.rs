//! What a server says of itself beyond vLLM's API: whether it reloads the head of a tied model, how it takes adapters,
//! and, where the worker extension of this service is loaded (`extension/evenkeel_worker.py`), digests of the tensors
//! that it computes with.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use super::VllmClient;
use crate::engine::{AdapterSupport, EngineClientError, WorkerTensors, http};

/// The worker extension of vLLM for the exact proof of weights: the text of `evenkeel_worker.py`.
pub const WORKER_EXTENSION: &str = include_str!("../../../extension/evenkeel_worker.py");

const SERVER_INFO: &str = "/server_info?config_format=json";
const COLLECTIVE_RPC: &str = "/collective_rpc";
/// The extension's method, and the form of its answers that is understood here.
const METHOD: &str = "evenkeel_weights";
const PROTOCOL: u64 = 1;
/// A server collects facts about its machine for the first answer.
const INFO_TIMEOUT: Duration = Duration::from_secs(30);
/// What is read of a name.
const MAX_NAME_CHARS: usize = 64;

/// What an engine can do besides what every vLLM does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Extras {
    /// A reload from a folder without a tensor for the head of a tied model changes the head, too.
    pub(super) takes_tied_head: bool,
    /// Support for adapters.
    pub(super) adapters: AdapterSupport,
    /// Whether the extension answers with digests of its tensors.
    pub(super) digests: bool,
    /// Name of the engine's arithmetic.
    pub(super) arithmetic: String,
}

#[derive(Deserialize)]
struct Answers<T> {
    results: Vec<T>,
}

#[derive(Deserialize)]
struct Capabilities {
    protocol: u64,
    tied_head: String,
}

impl VllmClient {
    /// Asks for them. A server without the routes, or that gives another answer, has none.
    pub(super) async fn extras(&self) -> Extras {
        let info = match self.control.get(SERVER_INFO, INFO_TIMEOUT).await {
            Ok(body) => serde_json::from_slice::<Value>(&body).unwrap_or_default(),
            Err(error) => {
                tracing::debug!(engine = self.endpoint, %error, "no settings of the server");
                Value::Null
            }
        };
        let config = &info["vllm_config"];
        let takes_tied_head = config["model_config"]["takes_tied_head"].as_bool() == Some(true);
        let adapters = self.adapter_support(config).await;
        let arithmetic = config["model_config"]["arithmetic"].as_str().unwrap_or_default();
        let arithmetic = arithmetic.chars().take(MAX_NAME_CHARS).collect();
        let plain = Extras { takes_tied_head, adapters, digests: false, arithmetic };
        let extension = config["parallel_config"]["worker_extension_cls"].as_str().unwrap_or_default();
        if extension.is_empty() {
            return plain;
        }
        match self.call_extension::<Capabilities>(false).await {
            Ok(workers) if !workers.is_empty() && workers.iter().all(|worker| worker.protocol == PROTOCOL) => {
                let any = |word: &str| workers.iter().any(|worker| worker.tied_head == word);
                let takes_tied_head = takes_tied_head || any("shared") && !any("packed");
                Extras { takes_tied_head, digests: true, ..plain }
            }
            Ok(_) => {
                tracing::warn!(engine = self.endpoint, extension, "its worker extension is of another version");
                plain
            }
            Err(error) => {
                tracing::debug!(engine = self.endpoint, extension, %error, "its worker extension has no digests");
                plain
            }
        }
    }

    /// The tensors of each worker, for as long as reading them takes: the caller has a deadline.
    pub(super) async fn worker_tensors(&self) -> Result<Vec<WorkerTensors>, EngineClientError> {
        self.call_extension(true).await
    }

    async fn call_extension<T: for<'a> Deserialize<'a>>(&self, digests: bool) -> Result<Vec<T>, EngineClientError> {
        let body = json!({ "method": METHOD, "kwargs": { "digests": digests }, "timeout": super::control::COLLECTIVE_TIMEOUT_S });
        let exchange = async {
            let mut response = self.control.post_json(COLLECTIVE_RPC, body.to_string().into_bytes(), None).await?;
            http::read_all(COLLECTIVE_RPC, &mut response, self.max_answer).await
        };
        let bytes = if digests {
            exchange.await?
        } else {
            let after_ms = evenkeel_rpc::error::millis(self.control_timeout);
            let late = EngineClientError::Timeout { route: COLLECTIVE_RPC, after_ms };
            tokio::time::timeout(self.control_timeout, exchange).await.unwrap_or(Err(late))?
        };
        let answers: Answers<T> = serde_json::from_slice(&bytes)
            .map_err(|error| EngineClientError::invalid("results", error, "those of evenkeel_worker.py"))?;
        Ok(answers.results)
    }
}
