//! Settings `generation`: engines, limits, retries, and what is accepted from engines.

mod engine;
mod weights;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use evenkeel_config::{ByteSize, HumanDuration, Settings, human};
use evenkeel_proto::FieldError;
use evenkeel_rpc::dispatch::Endpoints;
use evenkeel_rpc::items::ItemLimits;
use evenkeel_rpc::roots::is_loopback;
use evenkeel_rpc::server::ServerConfig;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use engine::EngineConfig;
pub use weights::{PauseSetting, WeightsConfig};

/// When an engine streams a sample token by token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StreamSetting {
    /// Only if the item keeps partial rollouts. A response in one piece is a fifth of the bytes and a fraction of the engine's work.
    #[default]
    WhenPartial,
    /// Always.
    Always,
}

/// What the engines' log-probabilities must be taken of.
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
pub struct GenerationConfig {
    /// The gRPC server.
    pub server: ServerConfig,
    /// Engines: `http://HOST:PORT` or `https://HOST:PORT` is one; `dns://HOST:PORT` (`dns+tls://` for https) is one at each address
    /// that the name has, now and later. At least one when the service starts.
    pub endpoints: Vec<String>,
    /// Model to request. Absent: the only one that an engine serves.
    pub model: Option<String>,
    /// File with the API key of the engines (vLLM's `--api-key`). Absent: none.
    pub api_key_file: Option<PathBuf>,
    /// Certificate authorities (PEM) of https engines. Absent: the system's.
    pub ca_file: Option<PathBuf>,
    /// Samples of all streams that may be queued or in flight; one more is answered RESOURCE_EXHAUSTED.
    pub max_items: usize,
    /// Bytes of those samples, and of rollouts that are not read yet. Not below `server.max_message_bytes`.
    pub max_bytes: usize,
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
    /// The samples of a group go to one engine, for its prefix cache, while that one is at most this many samples busier than the
    /// least busy; 0 for no affinity.
    pub affinity_samples: u32,
    /// When an engine streams a sample.
    pub stream: StreamSetting,
    /// What log-probabilities must be taken of. Other engines are refused.
    pub log_probabilities: LogProbabilitySetting,
    /// Engines with a shorter context are refused; 0 accepts any.
    pub min_context_tokens: u32,
    /// Longest response to one sample that is read from an engine.
    pub max_answer: ByteSize,
    /// Connections to engines, health checks and circuit breakers.
    pub engine: EngineConfig,
    /// Weight updates.
    pub weights: WeightsConfig,
}

impl Default for GenerationConfig {
    fn default() -> Self {
        Self {
            server: ServerConfig::default(),
            endpoints: Vec::new(),
            model: None,
            api_key_file: None,
            ca_file: None,
            max_items: 16_384,
            max_bytes: ItemLimits::MAX_BYTES,
            max_in_flight: 256,
            item_deadline: Duration::from_secs(600),
            max_attempts: 4,
            retry_initial: Duration::from_millis(50),
            retry_max: Duration::from_secs(2),
            affinity_samples: 16,
            stream: StreamSetting::default(),
            log_probabilities: LogProbabilitySetting::default(),
            min_context_tokens: 0,
            max_answer: ByteSize::mib(64),
            engine: EngineConfig::default(),
            weights: WeightsConfig::default(),
        }
    }
}

impl GenerationConfig {
    /// The settings that decide what samples contain; all others at their defaults. Of `endpoints` only whether there are any: external
    /// engines round differently from the embedded one, but their addresses may change.
    pub fn rules(&self) -> Self {
        let endpoints = if self.endpoints.is_empty() { Vec::new() } else { vec!["http://engine:8000".to_owned()] };
        let weights = WeightsConfig { pause_mode: self.weights.pause_mode, ..WeightsConfig::default() };
        let model = self.model.clone();
        Self { endpoints, model, log_probabilities: self.log_probabilities, weights, ..Self::default() }
    }
}

impl Settings for GenerationConfig {
    /// An empty list of endpoints passes, since `train` fills it in later. [`crate::bind`] refuses it.
    fn validate(&self) -> Result<(), FieldError> {
        self.server.validate().map_err(|error| error.within("server"))?;
        self.engine.validate().map_err(|error| error.within("engine"))?;
        self.weights.validate().map_err(|error| error.within("weights"))?;
        if self.weights.roots.is_empty() && !is_loopback(&self.server.listen) {
            let allowed = "folders below which weights may be, since server.listen is not loopback ([\"/\"] for any)";
            return Err(FieldError::new("weights.roots", "empty", allowed));
        }
        check_endpoints(&self.endpoints)?;
        at_least_one(&[
            ("max_items", self.max_items as u64),
            ("max_in_flight", self.max_in_flight as u64),
            ("max_attempts", self.max_attempts.into()),
        ])?;
        if self.max_bytes < self.server.max_message_bytes {
            let allowed = format!("at least server.max_message_bytes, which is {}", self.server.max_message_bytes);
            return Err(FieldError::new("max_bytes", self.max_bytes, allowed));
        }
        positive(&[("item_deadline", self.item_deadline), ("retry_initial", self.retry_initial)])?;
        if self.retry_max < self.retry_initial {
            let allowed = format!("at least retry_initial, which is {}", human(self.retry_initial));
            return Err(FieldError::new("retry_max", human(self.retry_max), allowed));
        }
        if self.ca_file.is_some() && cfg!(not(feature = "tls")) {
            return Err(FieldError::new("ca_file", "set", "absent, since this program was built without TLS"));
        }
        if self.max_answer < ByteSize::kib(4) {
            return Err(FieldError::new("max_answer", self.max_answer, "at least 4KiB"));
        }
        Ok(())
    }
}

fn at_least_one(fields: &[(&str, u64)]) -> Result<(), FieldError> {
    match fields.iter().find(|&&(_, value)| value == 0) {
        Some((field, _)) => Err(FieldError::new(*field, 0, "at least 1")),
        None => Ok(()),
    }
}

fn positive(fields: &[(&str, Duration)]) -> Result<(), FieldError> {
    match fields.iter().find(|(_, value)| *value < Duration::from_millis(1)) {
        Some((field, value)) => Err(FieldError::new(*field, human(*value), "at least 1ms")),
        None => Ok(()),
    }
}

fn check_endpoints(endpoints: &[String]) -> Result<(), FieldError> {
    if endpoints.is_empty() {
        return Ok(());
    }
    Endpoints::parse(endpoints)?;
    let mut seen = BTreeSet::new();
    for (index, endpoint) in endpoints.iter().enumerate() {
        let refused = |allowed| FieldError::new(format!("endpoints[{index}]"), format_args!("{endpoint:?}"), allowed);
        let (scheme, rest) = endpoint.split_once("://").unwrap_or_default();
        if matches!(scheme, "https" | "dns+tls") && cfg!(not(feature = "tls")) {
            return Err(refused("http://HOST:PORT or dns://HOST:PORT, since this program was built without TLS"));
        }
        if !seen.insert(rest.trim_end_matches('/')) {
            return Err(refused("every engine once"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(change: impl Fn(&mut GenerationConfig)) -> String {
        let mut config = GenerationConfig::default();
        change(&mut config);
        config.validate().unwrap_err().to_string()
    }

    #[test]
    fn the_defaults_are_valid() {
        assert_eq!(GenerationConfig::default().validate(), Ok(()));
    }

    #[test]
    fn a_server_that_others_reach_must_limit_where_weights_are() {
        let error = refused(|c| c.server.listen = "0.0.0.0:50051".into());
        assert!(error.starts_with("weights.roots is empty, allowed: folders below which weights may be"), "{error}");
        let mut config = GenerationConfig::default();
        config.server.listen = "0.0.0.0:50051".into();
        config.weights.roots = vec!["/data/weights".into()];
        assert_eq!(config.validate(), Ok(()));
    }

    #[test]
    fn endpoints_are_refused_by_index() {
        let with = |endpoint: &str| refused(|c| c.endpoints = vec!["http://a:1".into(), endpoint.into()]);
        for endpoint in ["a:1", "ftp://a:1", "http://a", "http://:1", "http://a:x", "http://a/b:1", "http://u@a:1"] {
            let error = with(endpoint);
            assert!(error.starts_with(&format!("endpoints[1] is {endpoint:?}, allowed: http://HOST:PORT")), "{error}");
        }
        assert_eq!(with("http://a:1/"), r#"endpoints[1] is "http://a:1/", allowed: every engine once"#);
    }

    #[test]
    fn refusals_carry_their_path() {
        assert_eq!(refused(|c| c.max_attempts = 0), "max_attempts is 0, allowed: at least 1");
        let error = refused(|c| c.max_bytes = 1);
        assert_eq!(error, "max_bytes is 1, allowed: at least server.max_message_bytes, which is 33554432");
        assert_eq!(
            refused(|c| c.engine.health_interval = Duration::ZERO),
            "engine.health_interval is 0s, allowed: at least 1ms"
        );
        assert_eq!(
            refused(|c| c.retry_max = Duration::from_millis(1)),
            "retry_max is 1ms, allowed: at least retry_initial, which is 50ms"
        );
    }

    #[test]
    fn loopback_is_known_by_name_and_address() {
        for listen in ["127.0.0.1:0", "localhost:50051", "[::1]:50051"] {
            assert!(is_loopback(listen), "{listen}");
        }
        for listen in ["0.0.0.0:50051", "[::]:1", "10.0.0.1:1", "generation:50051"] {
            assert!(!is_loopback(listen), "{listen}");
        }
    }
}
