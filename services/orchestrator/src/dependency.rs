//! What a run depends on, and therefore may wait for.

/// A service or a disk without which a run cannot go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dependency {
    /// The generation service.
    Generation,
    /// The reward service.
    Reward,
    /// A custom verifier.
    Verifier,
    /// The learner.
    Learner,
    /// The disk of the run directory.
    Disk,
}

impl Dependency {
    const ALL: [Self; 5] = [Self::Generation, Self::Reward, Self::Verifier, Self::Learner, Self::Disk];

    /// Its name in messages, metrics and the protocol.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Generation => "generation",
            Self::Reward => "reward",
            Self::Verifier => "verifier",
            Self::Learner => "learner",
            Self::Disk => "disk",
        }
    }

    /// The one of that name.
    pub(crate) fn from_label(label: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dependency| dependency.label() == label)
    }
}
