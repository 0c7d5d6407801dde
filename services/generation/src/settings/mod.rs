//! Settings `generation`: which engines, how much at once, and how far they are believed.

mod engine;
mod weights;

use std::collections::BTreeSet;
use std::path::PathBuf;

use evenkeel_config::Settings;
use evenkeel_proto::FieldError;
use evenkeel_rpc::dispatch::Endpoints;
use evenkeel_rpc::server::ServerConfig;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::weights::is_loopback;

pub use engine::EngineConfig;
pub use weights::{PauseSetting, WeightsConfig};

/// When samples are streamed from the engine, token by token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StreamSetting {
    /// Only where the item keeps a partial rollout. A whole answer is a fifth of the bytes and a fraction of the engine's work.
    #[default]
    WhenPartial,
    /// Always.
    Always,
}

/// What the engines' log-probabilities must be taken of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LogProbabilitySetting {
    /// The distribution that was drawn from, after temperature and truncation (`--logprobs-mode processed_logprobs`).
    #[default]
    Processed,
    /// The model's logits as they are. They are those of the policy only at temperature 1 without truncation and penalties.
    Raw,
}

/// The generation service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GenerationConfig {
    /// How it listens.
    pub server: ServerConfig,
    /// Engines: `http://HOST:PORT` or `https://HOST:PORT` is one; `dns://HOST:PORT` (`dns+tls://` for https) is one at each address
    /// that the name has, now and later. At least one when the service starts.
    pub endpoints: Vec<String>,
    /// Model that is asked for. Absent: the only one that an engine serves.
    pub model: Option<String>,
    /// File with the key that the engines want (vLLM's `--api-key`). Absent: none.
    pub api_key_file: Option<PathBuf>,
    /// Certificates (PEM) that those of https engines must be signed by. Absent: the system's.
    pub ca_file: Option<PathBuf>,
    /// Samples of all streams that may wait or be in work; one more is answered RESOURCE_EXHAUSTED.
    pub max_items: usize,
    /// Samples that one engine may have at once.
    pub max_in_flight: usize,
    /// Deadline of samples that have none of their own.
    pub item_deadline_ms: u64,
    /// How often a sample may be begun: engines that were lost or answered wrongly are the others.
    pub max_attempts: u32,
    /// First pause before a sample is begun again; doubles up to `retry_max_ms`. None where its engine was lost.
    pub retry_initial_ms: u64,
    /// Longest such pause.
    pub retry_max_ms: u64,
    /// The samples of a group go to one engine, for its prefix cache, while that one is at most so many samples busier than the
    /// least busy; 0 for no preference.
    pub affinity_samples: u32,
    /// When samples are streamed from the engine.
    pub stream: StreamSetting,
    /// What log-probabilities must be taken of; an engine where they are not is refused.
    pub log_probabilities: LogProbabilitySetting,
    /// Engines with a shorter context are refused; 0 takes any.
    pub min_context_tokens: u32,
    /// Longest answer to one sample that is read from an engine.
    pub max_answer_bytes: usize,
    /// How engines are reached and watched.
    pub engine: EngineConfig,
    /// How weights are changed.
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
            max_in_flight: 256,
            item_deadline_ms: 600_000,
            max_attempts: 4,
            retry_initial_ms: 50,
            retry_max_ms: 2_000,
            affinity_samples: 16,
            stream: StreamSetting::default(),
            log_probabilities: LogProbabilitySetting::default(),
            min_context_tokens: 0,
            max_answer_bytes: 64 << 20,
            engine: EngineConfig::default(),
            weights: WeightsConfig::default(),
        }
    }
}

impl GenerationConfig {
    /// The settings that decide what samples contain; all others as by default. Of `endpoints` it is whether there are any, since other
    /// engines than the embedded one round differently: the addresses may change.
    pub fn rules(&self) -> Self {
        let endpoints = if self.endpoints.is_empty() { Vec::new() } else { vec!["http://engine:8000".to_owned()] };
        let weights = WeightsConfig { pause_mode: self.weights.pause_mode, ..WeightsConfig::default() };
        let model = self.model.clone();
        Self { endpoints, model, log_probabilities: self.log_probabilities, weights, ..Self::default() }
    }
}

impl Settings for GenerationConfig {
    /// An empty list of endpoints passes: who composes services fills it in. [`crate::bind`] refuses it.
    fn validate(&self) -> Result<(), FieldError> {
        self.server.validate().map_err(|error| error.within("server"))?;
        self.engine.validate().map_err(|error| error.within("engine"))?;
        self.weights.validate().map_err(|error| error.within("weights"))?;
        if self.weights.roots.is_empty() && !is_loopback(&self.server.listen) {
            let allowed = "folders that weights lie below, since others reach server.listen ([\"/\"] for any)";
            return Err(FieldError::new("weights.roots", "empty", allowed));
        }
        check_endpoints(&self.endpoints)?;
        at_least_one(&[
            ("max_items", self.max_items as u64),
            ("max_in_flight", self.max_in_flight as u64),
            ("item_deadline_ms", self.item_deadline_ms),
            ("max_attempts", self.max_attempts.into()),
            ("retry_initial_ms", self.retry_initial_ms),
        ])?;
        if self.retry_max_ms < self.retry_initial_ms {
            let allowed = format!("at least retry_initial_ms, which is {}", self.retry_initial_ms);
            return Err(FieldError::new("retry_max_ms", self.retry_max_ms, allowed));
        }
        if self.ca_file.is_some() && cfg!(not(feature = "tls")) {
            return Err(FieldError::new("ca_file", "set", "absent, since this program was built without TLS"));
        }
        if self.max_answer_bytes < 4096 {
            return Err(FieldError::new("max_answer_bytes", self.max_answer_bytes, "at least 4096"));
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
    fn the_defaults_are_settings() {
        assert_eq!(GenerationConfig::default().validate(), Ok(()));
    }

    #[test]
    fn who_can_be_reached_says_where_weights_come_from() {
        let error = refused(|c| c.server.listen = "0.0.0.0:50051".into());
        assert!(error.starts_with("weights.roots is empty, allowed: folders that weights lie below"), "{error}");
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
        assert_eq!(refused(|c| c.engine.health_interval_ms = 0), "engine.health_interval_ms is 0, allowed: at least 1");
        assert_eq!(
            refused(|c| c.retry_max_ms = 1),
            "retry_max_ms is 1, allowed: at least retry_initial_ms, which is 50"
        );
    }
}
