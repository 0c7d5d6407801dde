//! Settings `generation.engine`: connections to engines, health checks and circuit breakers.

use std::time::Duration;

use evenkeel_config::{HumanDuration, Settings, at_least_1ms, at_least_one, human};
use evenkeel_proto::FieldError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Connections to engines, their health checks and circuit breakers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EngineClientSettings {
    /// How the engines are spoken to: `vllm` is HTTP as of vLLM and of the embedded engine. Absent: `vllm`, the only
    /// one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// Time limit of opening a connection.
    #[serde(with = "HumanDuration")]
    pub connect_timeout: Duration,
    /// Time limit of a request about health, version, metrics or pause. The tiny sample of a probe may take twelve times
    /// as long.
    #[serde(with = "HumanDuration")]
    pub control_timeout: Duration,
    /// How long the service waits at its start for the first engine. Later ones join when they are up.
    #[serde(with = "HumanDuration")]
    pub startup_timeout: Duration,
    /// Interval between health checks of an engine.
    #[serde(with = "HumanDuration")]
    pub health_interval: Duration,
    /// Unanswered health checks in a row after which an engine counts as lost and its samples go to other engines.
    pub health_failures: u32,
    /// Failed samples in a row after which the circuit breaker of an engine opens: no samples until a probe succeeds.
    pub breaker_failures: u32,
    /// Delay before the next probe of an engine that is not up; doubles up to `probe_max`.
    #[serde(with = "HumanDuration")]
    pub probe_initial: Duration,
    /// Longest delay between two probes.
    #[serde(with = "HumanDuration")]
    pub probe_max: Duration,
    /// How long samples wait while there is no engine at all, before they fail as UNAVAILABLE.
    #[serde(with = "HumanDuration")]
    pub unavailable_after: Duration,
    /// Requests that may wait inside an engine, according to its metrics, before it gets fewer samples: what waits here
    /// goes to whichever engine has capacity first. 0 ignores the metrics.
    pub max_waiting: u32,
    /// Interval between resolutions of names (`dns://HOST:PORT`).
    #[serde(with = "HumanDuration")]
    pub resolve_interval: Duration,
    /// How long an idle connection is kept. Must be below the engines' own limit (vLLM: 5 s), or an engine may close a
    /// connection just as it is used again.
    #[serde(with = "HumanDuration")]
    pub idle_connection_timeout: Duration,
}

impl Default for EngineClientSettings {
    fn default() -> Self {
        Self {
            protocol: None,
            connect_timeout: Duration::from_secs(3),
            control_timeout: Duration::from_secs(5),
            startup_timeout: Duration::from_secs(180),
            health_interval: Duration::from_secs(1),
            health_failures: 3,
            breaker_failures: 5,
            probe_initial: Duration::from_millis(100),
            probe_max: Duration::from_secs(5),
            unavailable_after: Duration::from_secs(30),
            max_waiting: 16,
            resolve_interval: Duration::from_secs(5),
            idle_connection_timeout: Duration::from_secs(3),
        }
    }
}

impl Settings for EngineClientSettings {
    fn validate(&self) -> Result<(), FieldError> {
        at_least_1ms(&[
            ("connect_timeout", self.connect_timeout),
            ("control_timeout", self.control_timeout),
            ("startup_timeout", self.startup_timeout),
            ("health_interval", self.health_interval),
            ("probe_initial", self.probe_initial),
            ("resolve_interval", self.resolve_interval),
            ("idle_connection_timeout", self.idle_connection_timeout),
        ])?;
        at_least_one(&[
            ("health_failures", self.health_failures.into()),
            ("breaker_failures", self.breaker_failures.into()),
        ])?;
        if self.probe_max < self.probe_initial {
            let allowed = format!("at least probe_initial, which is {}", human(self.probe_initial));
            return Err(FieldError::new("probe_max", human(self.probe_max), allowed));
        }
        Ok(())
    }
}
