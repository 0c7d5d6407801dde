//! LoRA adapters by name: vLLM has the routes with `--enable-lora` and `VLLM_ALLOW_RUNTIME_LORA_UPDATING=1`. A request
//! names its adapter as its model, so that one engine serves several versions at a time.

use evenkeel_proto::engine_advice;
use serde_json::{Value, json};

use super::VllmClient;
use super::probe::Models;
use crate::engine::{AdapterLimits, AdapterSupport, EngineClientError, NamedAdapter};

const MODELS: &str = "/v1/models";
const LOAD: &str = "/v1/load_lora_adapter";
const UNLOAD: &str = "/v1/unload_lora_adapter";

const NO_ADAPTERS: &str = "LoRA (vLLM: --enable-lora, --max-lora-rank and --max-loras)";
const NO_ROUTES: &str = "the routes that load adapters (vLLM: VLLM_ALLOW_RUNTIME_LORA_UPDATING=1)";

impl VllmClient {
    /// What the settings of a server say of adapters, and whether it has the routes. `config` is null where it does not
    /// say.
    pub(super) async fn adapter_support(&self, config: &Value) -> AdapterSupport {
        if config["model_config"]["takes_adapters"].as_bool() == Some(true) {
            return AdapterSupport::Reloaded;
        }
        let number = |field: &str| config["lora_config"][field].as_u64().and_then(|value| usize::try_from(value).ok());
        let (Some(live), Some(rank)) = (number("max_loras"), number("max_lora_rank")) else {
            return AdapterSupport::Missing(NO_ADAPTERS);
        };
        // Refused because it names nothing, by a server that has the route.
        let nothing = json!({ "lora_name": "", "lora_path": "" });
        match self.control.post(LOAD, "", Some(&nothing), Some(self.control_timeout)).await {
            Err(EngineClientError::Refused { .. }) | Ok(_) => {
                // vLLM 0.32 computes an adapter of the head where it samples, but not where it scores a prompt
                // (vllm-project/vllm#51594), and ends there on a CPU.
                AdapterSupport::Named(AdapterLimits {
                    live,
                    rank,
                    rank_advice: engine_advice::ADAPTER_RANK,
                    scores_head: false,
                })
            }
            Err(error) => {
                tracing::debug!(engine = self.endpoint, %error, "no adapters by name");
                AdapterSupport::Missing(NO_ROUTES)
            }
        }
    }

    pub(super) async fn list_adapters(&self) -> Result<Vec<NamedAdapter>, EngineClientError> {
        let body = self.control.get(MODELS, self.control_timeout).await?;
        let models: Models = serde_json::from_slice(&body)
            .map_err(|error| EngineClientError::invalid(MODELS, error, "a list of models"))?;
        let adapters = models.data.into_iter().filter(|model| model.parent.is_some());
        Ok(adapters.map(|model| NamedAdapter { path: model.root.unwrap_or_default(), name: model.id }).collect())
    }

    pub(super) async fn post_load_adapter(&self, name: &str, path: &str) -> Result<(), EngineClientError> {
        // Never in place: vLLM 0.32 would read the folder again at every use, and answer with cached prefixes of what
        // it had before.
        let body = json!({ "lora_name": name, "lora_path": path, "load_inplace": false });
        self.control.post(LOAD, "", Some(&body), None).await.map(drop)
    }

    pub(super) async fn post_unload_adapter(&self, name: &str) -> Result<(), EngineClientError> {
        let body = json!({ "lora_name": name });
        match self.control.post(UNLOAD, "", Some(&body), Some(self.control_timeout)).await {
            Err(EngineClientError::Status { status: 404, .. }) => Ok(()),
            answer => answer.map(drop),
        }
    }
}

/// What a refused request for a sample or for scores means: an engine that does not know its adapter has lost it, as by
/// a restart.
pub(super) fn lost(error: EngineClientError, adapter: Option<&str>) -> EngineClientError {
    match (error, adapter) {
        (EngineClientError::Status { status: 404, .. }, Some(adapter)) => {
            EngineClientError::WrongWeights { reported: "its model alone".to_owned(), expected: adapter.to_owned() }
        }
        (error, _) => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_adapter_that_an_engine_does_not_know_is_lost_and_no_fault_of_the_request() {
        let status = |status| EngineClientError::Status { route: "/v1/completions", status, message: String::new() };
        assert!(matches!(lost(status(404), Some("3-d")), EngineClientError::WrongWeights { .. }));
        assert!(matches!(lost(status(404), None), EngineClientError::Status { .. }));
        assert!(matches!(lost(status(500), Some("3-d")), EngineClientError::Status { .. }));
    }
}
