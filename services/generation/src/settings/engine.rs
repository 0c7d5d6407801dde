//! Settings `generation.engine`: how engines are reached, watched and given up.

use evenkeel_config::Settings;
use evenkeel_proto::FieldError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::at_least_one;

/// How engines are reached and watched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EngineConfig {
    /// How long a connection may take to stand.
    pub connect_timeout_ms: u64,
    /// How long a question about health, version or pause may take.
    pub control_timeout_ms: u64,
    /// How long engines may take to come up when the service starts. Those that are late join when they are there.
    pub startup_timeout_ms: u64,
    /// How often each engine is asked for its health and the version of its weights.
    pub health_interval_ms: u64,
    /// Unanswered questions in a row after which an engine counts as lost, and what it has is given to others.
    pub health_failures: u32,
    /// Failed samples in a row after which an engine gets none until a probe succeeds.
    pub breaker_failures: u32,
    /// First pause before an engine that was given up is probed; doubles up to `probe_max_ms`.
    pub probe_initial_ms: u64,
    /// Longest such pause.
    pub probe_max_ms: u64,
    /// How long samples wait while there is no engine at all, before they fail as UNAVAILABLE.
    pub unavailable_after_ms: u64,
    /// Requests that may wait within an engine, as its own metrics say with each look, before it gets fewer samples: what waits here
    /// goes to whichever engine is free first; 0 leaves its metrics unread.
    pub max_waiting: u32,
    /// How often names (`dns://HOST:PORT`) are resolved again.
    pub resolve_interval_ms: u64,
    /// How long an unused connection is kept. Less than the engines' own limit (5 s in vLLM), or the engine closes connections in
    /// the moment of their next use.
    pub idle_connection_ms: u64,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            connect_timeout_ms: 3_000,
            control_timeout_ms: 5_000,
            startup_timeout_ms: 180_000,
            health_interval_ms: 1_000,
            health_failures: 3,
            breaker_failures: 5,
            probe_initial_ms: 100,
            probe_max_ms: 5_000,
            unavailable_after_ms: 30_000,
            max_waiting: 16,
            resolve_interval_ms: 5_000,
            idle_connection_ms: 3_000,
        }
    }
}

impl Settings for EngineConfig {
    fn validate(&self) -> Result<(), FieldError> {
        at_least_one(&[
            ("connect_timeout_ms", self.connect_timeout_ms),
            ("control_timeout_ms", self.control_timeout_ms),
            ("startup_timeout_ms", self.startup_timeout_ms),
            ("health_interval_ms", self.health_interval_ms),
            ("health_failures", self.health_failures.into()),
            ("breaker_failures", self.breaker_failures.into()),
            ("probe_initial_ms", self.probe_initial_ms),
            ("resolve_interval_ms", self.resolve_interval_ms),
            ("idle_connection_ms", self.idle_connection_ms),
        ])?;
        if self.probe_max_ms < self.probe_initial_ms {
            let allowed = format!("at least probe_initial_ms, which is {}", self.probe_initial_ms);
            return Err(FieldError::new("probe_max_ms", self.probe_max_ms, allowed));
        }
        Ok(())
    }
}
