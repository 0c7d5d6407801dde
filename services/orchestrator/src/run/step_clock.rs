//! When the parts of a step began and ended, and the times that its metrics make of that.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use evenkeel_proto::v1::TrainReport;
use evenkeel_trust::ProofReport;

use super::step_groups::SampledStep;
use super::step_metrics::{StepTimes, Waits};
use super::step_writer::FinishedStep;

/// The times of the steps in progress.
pub(super) struct StepClock {
    samples_ahead: bool,
    /// When the learner began the step that it is in, and when its report came.
    began: Instant,
    reported: Instant,
    /// Since when nothing can be sampled for want of weights, and for how long before, since a step began last.
    idle_since: Option<Instant>,
    idle: Duration,
    /// How steps were sampled, by their numbers.
    sampling: BTreeMap<u64, SamplingTimes>,
    /// Updates of the engines by version.
    updates: BTreeMap<u64, EnginesUpdate>,
}

/// An update of the engines: how long it took, and the check of the weights, if there was one.
#[derive(Clone)]
struct EnginesUpdate {
    took: Duration,
    proof: Option<ProofReport>,
}

/// The sampling of a step.
struct SamplingTimes {
    /// Version of the weights that sample it, or its first groups.
    version: u64,
    began: Instant,
    /// How long it waited for these weights.
    waited: Duration,
}

impl StepClock {
    pub(super) fn new(samples_ahead: bool) -> Self {
        let now = Instant::now();
        Self {
            samples_ahead,
            began: now,
            reported: now,
            idle_since: None,
            idle: Duration::ZERO,
            sampling: BTreeMap::new(),
            updates: BTreeMap::new(),
        }
    }

    /// The learner begins a step.
    pub(super) fn begin_learning(&mut self) {
        self.began = Instant::now();
    }

    /// The learner's report of its step is there.
    pub(super) fn report_came(&mut self) {
        self.reported = Instant::now();
    }

    /// When the last report came.
    pub(super) fn reported(&self) -> Instant {
        self.reported
    }

    /// Whether nothing can be sampled for want of weights, from now on.
    pub(super) fn set_idle(&mut self, is_idle: bool) {
        match (is_idle, self.idle_since) {
            (true, None) => self.idle_since = Some(Instant::now()),
            (false, Some(since)) => {
                self.idle += since.elapsed();
                self.idle_since = None;
            }
            _ => {}
        }
    }

    /// A step begins to be sampled by that version.
    pub(super) fn begin_sampling(&mut self, step: u64, version: u64) {
        let since = self.idle_since.take();
        let waited = std::mem::take(&mut self.idle) + since.map(|since| since.elapsed()).unwrap_or_default();
        self.sampling.insert(step, SamplingTimes { version, began: Instant::now(), waited });
    }

    /// The engines were updated.
    pub(super) fn engines_updated(&mut self, version: u64, took: Duration) {
        self.updates.insert(version, EnginesUpdate { took, proof: None });
    }

    /// The weights of the engines are checked, where that was due.
    pub(super) fn engines_proven(&mut self, version: u64, proof: Option<ProofReport>) {
        if let Some(updated) = self.updates.get_mut(&version) {
            updated.proof = proof;
        }
    }

    /// A step is over, which made weights of the version `made` that were published in `published_in`. `None` for a
    /// step that has not begun.
    pub(super) fn finish(
        &mut self,
        step: u64,
        sampled: SampledStep,
        report: TrainReport,
        made: u64,
        published_in: Duration,
        environment_idle: Duration,
    ) -> Option<FinishedStep> {
        let SamplingTimes { version, began, waited } = self.sampling.remove(&step)?;
        // Without a lag the engines have got the weights of the step itself.
        let shown = if self.samples_ahead { version } else { made };
        let updated = self.updates.get(&shown).cloned();
        // Later steps are of this version or of a later one.
        self.updates = self.updates.split_off(&shown);
        let updated_in = updated.as_ref().filter(|_| !self.samples_ahead).map(|updated| updated.took);
        let last_rollout = sampled.last_rollout.max(self.began);
        let last_verdict = sampled.last_verdict.max(self.began);
        let times = StepTimes {
            generation: last_rollout - self.began,
            reward: last_verdict.saturating_duration_since(last_rollout),
            update_actor: self.reported.saturating_duration_since(last_verdict),
            update_weights: published_in + updated_in.unwrap_or_default(),
            step: self.began.elapsed(),
            environment_idle,
        };
        let oldest = sampled.batch.oldest_version().unwrap_or(version);
        let waits = Waits {
            lag: report.base_version.saturating_sub(oldest),
            learner: began.saturating_duration_since(self.began) + idle(&report),
            sampling: waited,
        };
        let proof = updated.and_then(|updated| updated.proof);
        Some(FinishedStep {
            sampled,
            report,
            times,
            proof,
            trained: None,
            waits,
            says_waits: self.samples_ahead,
            weights: String::new(),
        })
    }
}

/// How long the learner had nothing to do in a step.
fn idle(report: &TrainReport) -> Duration {
    let timings = report.timings.unwrap_or_default();
    let busy = timings.score_us + timings.gradient_us + timings.optimizer_us;
    Duration::from_micros(timings.total_us.saturating_sub(busy))
}
