//! The numbers of a proof in the metrics of its step.

use std::time::Duration;

use evenkeel_run::MetricsLine;
use evenkeel_run::metric::table as metric;

/// What a proof found.
#[derive(Debug, Clone, Default, PartialEq)]
pub(in crate::run) struct ProofReport {
    pub(super) engines: usize,
    /// Largest mean and largest single difference of an engine's log-probabilities from the learner's, in nats.
    pub(super) mean_gap: f64,
    pub(super) max_gap: f64,
    pub(super) tokens: usize,
    /// Root mean square change of a token's log-probability since the process began.
    pub(super) movement: Option<f64>,
    /// The largest noise of an engine, in nats.
    pub(super) noise: f64,
    /// Natural logarithm of the strongest evidence for a fault.
    pub(super) evidence: f64,
    pub(super) suspicions: Vec<SuspicionReport>,
    pub(super) took: Duration,
}

/// What is known of a suspicion over all engines.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::run) struct SuspicionReport {
    /// The name in metrics.
    pub(super) name: String,
    /// The largest share of its predicted gap that was found, and the standard error of that.
    pub(super) share: Option<(f64, f64)>,
    /// Whether it is excluded for every engine.
    pub(super) excluded: bool,
}

impl ProofReport {
    /// Adds its values to the metrics line of a step.
    pub(in crate::run) fn add_to(&self, line: &mut MetricsLine) {
        line.set(metric::PROOF_ENGINES, self.engines as f64);
        line.set(metric::PROOF_MEAN_GAP, self.mean_gap);
        line.set(metric::PROOF_MAX_GAP, self.max_gap);
        line.set(metric::PROOF_TOKENS, self.tokens as f64);
        line.set(metric::PROOF_MOVEMENT, self.movement);
        line.set(metric::PROOF_NOISE, self.noise);
        line.set(metric::PROOF_EVIDENCE, self.evidence);
        let excluded = self.suspicions.iter().filter(|suspicion| suspicion.excluded).count();
        line.set(metric::PROOF_SUSPICIONS, self.suspicions.len() as f64);
        line.set(metric::PROOF_EXCLUDED, excluded as f64);
        for SuspicionReport { name, share, excluded } in &self.suspicions {
            line.set(metric::PROOF_STALE_SHARE.of([name]), share.map(|(share, _)| share));
            line.set(metric::PROOF_STALE_ERROR.of([name]), share.map(|(_, error)| error));
            line.set(metric::PROOF_EXCLUDES.of([name]), f64::from(u8::from(*excluded)));
        }
        line.set(metric::PROOF_TIME, self.took.as_secs_f64());
    }
}
