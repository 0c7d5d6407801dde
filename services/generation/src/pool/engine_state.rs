//! The states of an engine.

use evenkeel_proto::v1::EngineHealth;

evenkeel_telemetry::labels! {
    /// Whether an engine may be given samples.
    pub(crate) enum EngineState {
        /// Yes.
        Healthy = "healthy",
        /// On probation: a few, until one succeeds.
        Suspect = "suspect",
        /// The circuit breaker is open: none until a probe succeeds.
        CircuitOpen = "circuit_open",
        /// None until its weights are updated.
        Paused = "paused",
        /// None until it has the current weights.
        Stale = "stale",
        /// No longer a member: its address disappeared. Samples in flight are finished.
        Draining = "draining",
    }
}

impl EngineState {
    /// Whether it may be given samples at all.
    pub(crate) fn is_serving(self) -> bool {
        matches!(self, Self::Healthy | Self::Suspect)
    }

    pub(crate) fn health(self) -> EngineHealth {
        match self {
            Self::Healthy => EngineHealth::Healthy,
            Self::Suspect => EngineHealth::Suspect,
            Self::CircuitOpen => EngineHealth::CircuitOpen,
            Self::Paused => EngineHealth::Paused,
            Self::Stale => EngineHealth::Stale,
            Self::Draining => EngineHealth::Draining,
        }
    }
}
