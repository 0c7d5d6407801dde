//! The numbers of a proof.

use std::time::Duration;

/// What a proof found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProofReport {
    /// Engines that were asked.
    pub engines: usize,
    /// Largest mean difference of an engine's log-probabilities from the learner's, in nats.
    pub mean_gap: f64,
    /// Largest difference of a single token, in nats.
    pub max_gap: f64,
    /// Tokens that were scored.
    pub tokens: usize,
    /// Root mean square change of a token's log-probability since the process began.
    pub movement: Option<f64>,
    /// The largest noise of an engine, in nats.
    pub noise: f64,
    /// Natural logarithm of the strongest evidence for a fault.
    pub evidence: f64,
    /// Every suspicion, looked at in this proof or not.
    pub suspicions: Vec<SuspicionReport>,
    /// What scoring took, on both sides.
    pub took: Duration,
}

/// What is known of a suspicion over all engines.
#[derive(Debug, Clone, PartialEq)]
pub struct SuspicionReport {
    /// The name in metrics.
    pub name: String,
    /// The largest share of its predicted gap that was found, and the standard error of that.
    pub share: Option<(f64, f64)>,
    /// Whether the suspicion is excluded for every engine.
    pub excluded: bool,
}
