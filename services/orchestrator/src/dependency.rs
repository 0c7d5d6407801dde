//! What a run depends on, and therefore may wait for.

use std::fmt;

evenkeel_telemetry::labels! {
    /// A service or a disk without which a run cannot go on.
    pub enum Dependency {
        /// The generation service.
        Generation = "generation",
        /// The reward service.
        Reward = "reward",
        /// A custom verifier.
        Verifier = "verifier",
        /// The environment service.
        Environment = "environment",
        /// The learner.
        Learner = "learner",
        /// The disk of the run directory.
        Disk = "disk",
    }
}

impl fmt::Display for Dependency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}
