//! Settings `generation`: engines, limits, retries, and what is accepted from engines.

mod engine;
mod weights;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use evenkeel_config::{ByteSize, HumanDuration, Settings, at_least_1ms, at_least_one, human};
use evenkeel_proto::FieldError;
use evenkeel_rpc::dispatch::Endpoints;
use evenkeel_rpc::exposure::is_loopback;
use evenkeel_rpc::items::ItemLimits;
use evenkeel_rpc::server::ServerSettings;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use engine::EngineClientSettings;
pub use weights::{AgentsSettings, PauseSetting, WeightsSettings, WeightsSource};

/// When an engine streams a sample token by token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StreamSetting {
    /// Only if the item keeps partial rollouts. A response in one piece is a fifth of the bytes and a fraction of the
    /// engine's work.
    #[default]
    WhenPartial,
    /// Always.
    Always,
}

/// Which distribution the engines' log-probabilities must refer to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LogProbabilitySetting {
    /// The distribution that was sampled from, after temperature and truncation (`--logprobs-mode processed_logprobs`).
    #[default]
    Processed,
    /// The model's unprocessed logits. They equal the policy's only at temperature 1, without truncation and penalties.
    Raw,
}

/// The generation service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GenerationSettings {
    /// The gRPC server.
    pub server: ServerSettings,
    /// Engines: `http://HOST:PORT` or `https://HOST:PORT` is one; `dns://HOST:PORT` (`dns+tls://` for https) is one at
    /// each address that the name has, now and later. At least one when the service starts.
    pub endpoints: Vec<String>,
    /// Model to request. Absent: the only one that an engine serves.
    pub model: Option<String>,
    /// File with the API key of the engines (vLLM's `--api-key`). Absent: none.
    pub api_key_file: Option<PathBuf>,
    /// Certificate authorities (PEM) of https engines. Absent: the system's.
    pub ca_file: Option<PathBuf>,
    /// Samples of all streams that may be queued or in flight; one more is answered RESOURCE_EXHAUSTED.
    pub max_items: usize,
    /// Memory for those samples and for rollouts that clients have not read yet. Not below `server.max_message`.
    pub max_memory: ByteSize,
    /// Samples that one engine may have in flight.
    pub max_in_flight: usize,
    /// Deadline of samples without one of their own.
    #[serde(with = "HumanDuration")]
    pub item_deadline: Duration,
    /// Attempts at a sample. An attempt fails if its engine is lost or responds incorrectly.
    pub max_attempts: u32,
    /// Delay before the second attempt; doubles up to `retry_max`. No delay if the engine was lost.
    #[serde(with = "HumanDuration")]
    pub retry_initial: Duration,
    /// Longest delay between two attempts.
    #[serde(with = "HumanDuration")]
    pub retry_max: Duration,
    /// The samples of a group go to one engine, for its prefix cache, while that one is at most this many samples
    /// busier than the least busy; 0 for no affinity.
    pub affinity_samples: u32,
    /// When an engine streams a sample.
    pub stream: StreamSetting,
    /// Which distribution log-probabilities must refer to. Other engines are refused.
    pub log_probabilities: LogProbabilitySetting,
    /// Engines have to compute each sample alike whatever else is in its batch (vLLM with `VLLM_BATCH_INVARIANT=1`):
    /// samples are compared alone and in a batch before an engine's first one, and an engine where they differ is
    /// refused.
    pub batch_invariant: bool,
    /// Engines with a shorter context are refused; 0 accepts any.
    pub min_context_tokens: u32,
    /// Longest response to one sample that is read from an engine.
    pub max_answer: ByteSize,
    /// Connections to engines, health checks and circuit breakers.
    pub engine: EngineClientSettings,
    /// Weight updates.
    pub weights: WeightsSettings,
}

impl Default for GenerationSettings {
    fn default() -> Self {
        Self {
            server: ServerSettings::default(),
            endpoints: Vec::new(),
            model: None,
            api_key_file: None,
            ca_file: None,
            max_items: 16_384,
            max_memory: ItemLimits::DEFAULT_MEMORY,
            max_in_flight: 256,
            item_deadline: Duration::from_secs(600),
            max_attempts: 4,
            retry_initial: Duration::from_millis(50),
            retry_max: Duration::from_secs(2),
            affinity_samples: 16,
            stream: StreamSetting::default(),
            log_probabilities: LogProbabilitySetting::default(),
            batch_invariant: false,
            min_context_tokens: 0,
            max_answer: ByteSize::mib(64),
            engine: EngineClientSettings::default(),
            weights: WeightsSettings::default(),
        }
    }
}

impl GenerationSettings {
    /// The settings that decide what samples contain; all others at their defaults. `endpoints` only tells whether
    /// there are any: external engines round differently from the embedded one, but their addresses may change.
    pub fn result_affecting(&self) -> Self {
        let endpoints = if self.endpoints.is_empty() { Vec::new() } else { vec!["http://engine:8000".to_owned()] };
        let weights = WeightsSettings { pause_mode: self.weights.pause_mode, ..WeightsSettings::default() };
        let Self { model, log_probabilities, batch_invariant, .. } = self.clone();
        Self { endpoints, model, log_probabilities, batch_invariant, weights, ..Self::default() }
    }
}

impl Settings for GenerationSettings {
    /// An empty list of endpoints passes, since `train` fills it in later. [`crate::bind`] refuses it.
    fn validate(&self) -> Result<(), FieldError> {
        self.server.validate().map_err(|error| error.within("server"))?;
        self.engine.validate().map_err(|error| error.within("engine"))?;
        self.weights.validate().map_err(|error| error.within("weights"))?;
        let reads_given_folders = self.weights.source == WeightsSource::Folder;
        if reads_given_folders && self.weights.roots.is_empty() && !is_loopback(&self.server.listen) {
            let allowed = "folders below which weights may be, since server.listen is not loopback ([\"/\"] for any)";
            return Err(FieldError::new("weights.roots", "empty", allowed));
        }
        validate_endpoints(&self.endpoints)?;
        at_least_one(&[
            ("max_items", self.max_items as u64),
            ("max_in_flight", self.max_in_flight as u64),
            ("max_attempts", self.max_attempts.into()),
        ])?;
        if self.max_memory < self.server.max_message {
            let allowed = format!("at least server.max_message, which is {}", self.server.max_message);
            return Err(FieldError::new("max_memory", self.max_memory, allowed));
        }
        at_least_1ms(&[("item_deadline", self.item_deadline), ("retry_initial", self.retry_initial)])?;
        if self.retry_max < self.retry_initial {
            let allowed = format!("at least retry_initial, which is {}", human(self.retry_initial));
            return Err(FieldError::new("retry_max", human(self.retry_max), allowed));
        }
        if self.max_answer < ByteSize::kib(4) {
            return Err(FieldError::new("max_answer", self.max_answer, "at least 4KiB"));
        }
        Ok(())
    }
}

fn validate_endpoints(endpoints: &[String]) -> Result<(), FieldError> {
    if endpoints.is_empty() {
        return Ok(());
    }
    Endpoints::parse(endpoints)?;
    let mut seen = BTreeSet::new();
    for (index, endpoint) in endpoints.iter().enumerate() {
        let (_, address) = endpoint.split_once("://").unwrap_or_default();
        if !seen.insert(address.trim_end_matches('/')) {
            let field = format!("endpoints[{index}]");
            return Err(FieldError::new(field, format_args!("{endpoint:?}"), "every engine once"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(change: impl Fn(&mut GenerationSettings)) -> String {
        let mut settings = GenerationSettings::default();
        change(&mut settings);
        settings.validate().unwrap_err().to_string()
    }

    #[test]
    fn the_defaults_are_valid() {
        assert_eq!(GenerationSettings::default().validate(), Ok(()));
    }

    #[test]
    fn a_server_that_others_reach_must_limit_where_weights_are() {
        let error = refused(|c| (c.server.listen, c.server.insecure) = ("0.0.0.0:50051".into(), true));
        assert!(error.starts_with("weights.roots is empty, allowed: folders below which weights may be"), "{error}");
        let mut settings = GenerationSettings::default();
        (settings.server.listen, settings.server.insecure) = ("0.0.0.0:50051".into(), true);
        settings.weights.roots = vec!["/data/weights".into()];
        assert_eq!(settings.validate(), Ok(()));
    }

    #[test]
    fn endpoints_are_refused_by_index() {
        let with = |endpoint: &str| refused(|c| c.endpoints = vec!["http://a:1".into(), endpoint.into()]);
        for endpoint in ["a:1", "ftp://a:1", "http://a", "http://:1", "http://a:x", "http://a/b:1", "http://u@a:1"] {
            let error = with(endpoint);
            let shown = endpoint.replace("u@", "***@");
            assert!(error.starts_with(&format!("endpoints[1] is {shown:?}, allowed: http://HOST:PORT")), "{error}");
        }
        assert_eq!(with("http://a:1/"), r#"endpoints[1] is "http://a:1/", allowed: every engine once"#);
    }

    #[test]
    fn refusals_carry_their_path() {
        assert_eq!(refused(|c| c.max_attempts = 0), "max_attempts is 0, allowed: at least 1");
        let error = refused(|c| c.max_memory = ByteSize::b(1));
        assert_eq!(error, "max_memory is 1B, allowed: at least server.max_message, which is 32MiB");
        assert_eq!(
            refused(|c| c.engine.health_interval = Duration::ZERO),
            "engine.health_interval is 0s, allowed: at least 1ms"
        );
        assert_eq!(
            refused(|c| c.retry_max = Duration::from_millis(1)),
            "retry_max is 1ms, allowed: at least retry_initial, which is 50ms"
        );
    }
}
