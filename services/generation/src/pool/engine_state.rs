//! The states of an engine.

use evenkeel_proto::v1::EngineHealth;

/// Whether an engine may be given samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EngineState {
    /// Yes.
    Healthy,
    /// On probation: a few, until one succeeds.
    Suspect,
    /// The circuit is open: none until a probe succeeds.
    Open,
    /// None until its weights are updated.
    Paused,
    /// None until it has the current weights.
    Stale,
    /// No longer a member: its address disappeared. Samples in flight are finished.
    Draining,
}

impl EngineState {
    /// Every state.
    pub(crate) const ALL: [Self; 6] =
        [Self::Healthy, Self::Suspect, Self::Open, Self::Paused, Self::Stale, Self::Draining];

    /// Its name in metrics.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Suspect => "suspect",
            Self::Open => "open",
            Self::Paused => "paused",
            Self::Stale => "stale",
            Self::Draining => "draining",
        }
    }

    /// Whether it may be given samples at all.
    pub(crate) fn is_serving(self) -> bool {
        matches!(self, Self::Healthy | Self::Suspect)
    }

    pub(crate) fn health(self) -> EngineHealth {
        match self {
            Self::Healthy => EngineHealth::Healthy,
            Self::Suspect => EngineHealth::Suspect,
            Self::Open => EngineHealth::Open,
            Self::Paused => EngineHealth::Paused,
            Self::Stale => EngineHealth::Stale,
            Self::Draining => EngineHealth::Draining,
        }
    }
}
