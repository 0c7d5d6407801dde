//! The numbers of a proof in the metrics of its step.

use std::time::Duration;

use evenkeel_run_files::MetricsLine;

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
    /// Its name in metrics.
    pub(super) name: String,
    /// The largest share of its predicted gap that was found, and the standard error of that.
    pub(super) share: Option<(f64, f64)>,
    /// Whether it is excluded for every engine.
    pub(super) excluded: bool,
}

impl ProofReport {
    /// Adds its values to the metrics line of a step.
    pub(in crate::run) fn add_to(&self, line: &mut MetricsLine) {
        line.set("proof/engines", self.engines as f64);
        line.set("proof/mean_gap", self.mean_gap);
        line.set("proof/max_gap", self.max_gap);
        line.set("proof/tokens", self.tokens as f64);
        line.set("proof/movement", self.movement);
        line.set("proof/noise", self.noise);
        line.set("proof/evidence", self.evidence);
        let excluded = self.suspicions.iter().filter(|suspicion| suspicion.excluded).count();
        line.set("proof/suspicions", self.suspicions.len() as f64);
        line.set("proof/excluded", excluded as f64);
        for SuspicionReport { name, share, excluded } in &self.suspicions {
            line.set(format!("proof/stale_share/{name}"), share.map(|(share, _)| share));
            line.set(format!("proof/stale_error/{name}"), share.map(|(_, error)| error));
            line.set(format!("proof/excluded/{name}"), f64::from(u8::from(*excluded)));
        }
        line.set("timing_s/proof", self.took.as_secs_f64());
    }
}
