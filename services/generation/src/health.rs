//! When failed health checks mean that an engine is lost.

use crate::engine::EngineClientError;
use crate::settings::EngineClientSettings;

/// Broken connections in a row after which an engine is lost: the first may be an old one that the engine closed.
const MAX_BROKEN_CONNECTIONS: u32 = 2;

/// Counts failed health checks in a row.
#[derive(Debug)]
pub(crate) struct HealthThreshold {
    max_timeouts: u32,
    failures: u32,
}

impl HealthThreshold {
    pub(crate) fn new(settings: &EngineClientSettings) -> Self {
        Self { max_timeouts: settings.health_failures, failures: 0 }
    }

    pub(crate) fn record_success(&mut self) {
        self.failures = 0;
    }

    /// A check failed. Returns whether the engine is lost.
    pub(crate) fn record_failure(&mut self, error: &EngineClientError) -> bool {
        self.failures = self.failures.saturating_add(1);
        let threshold = match error {
            EngineClientError::Transport { .. } => MAX_BROKEN_CONNECTIONS,
            EngineClientError::Timeout { .. } => self.max_timeouts,
            // A clear answer that it cannot serve.
            _ => 1,
        };
        self.failures >= threshold
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_depends_on_the_failure_how_many_in_a_row_are_too_many() {
        let settings = EngineClientSettings { health_failures: 3, ..EngineClientSettings::default() };
        let timeout = EngineClientError::Timeout { route: "/health", after_ms: 1 };
        let broken = EngineClientError::Transport { route: "/health", message: "reset".into() };
        let status = EngineClientError::Status { route: "/health", status: 503, message: "dead".into() };
        let mut threshold = HealthThreshold::new(&settings);
        assert!(!threshold.record_failure(&timeout) && !threshold.record_failure(&timeout));
        assert!(threshold.record_failure(&timeout));
        threshold.record_success();
        assert!(!threshold.record_failure(&broken) && threshold.record_failure(&broken));
        threshold.record_success();
        assert!(!threshold.record_failure(&timeout) && threshold.record_failure(&broken));
        threshold.record_success();
        assert!(threshold.record_failure(&status));
    }
}
