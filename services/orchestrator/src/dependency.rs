//! What a run depends on, and therefore may wait for.

use std::fmt;

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
    /// All of them.
    pub(crate) const ALL: [Self; 5] = [Self::Generation, Self::Reward, Self::Verifier, Self::Learner, Self::Disk];
    /// Their labels.
    pub(crate) const LABELS: [&'static str; 5] = {
        let mut labels = [""; 5];
        let mut at = 0;
        while at < labels.len() {
            labels[at] = Self::ALL[at].label();
            at += 1;
        }
        labels
    };

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
}

impl fmt::Display for Dependency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}
