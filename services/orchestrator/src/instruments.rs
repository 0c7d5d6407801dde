//! What a run counts and times for Prometheus. Names begin with `evenkeel_run_`; docs/orchestrator.md lists them.

use std::time::Duration;

use evenkeel_proto::Label;
use evenkeel_proto::v1::{RunState, StepKind};
use metrics::{counter, gauge, histogram};

/// A part of a run that is timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// A warm-start step.
    WarmStart,
    /// Until the last rollout of a step ended.
    Generation,
    /// From there to the last verdict.
    Reward,
    /// From there to the learner's report.
    UpdateActor,
    /// Publishing weights and moving the engines to them.
    UpdateWeights,
    /// A whole GRPO step.
    Step,
    /// An evaluation.
    Evaluation,
    /// Writing a checkpoint.
    Checkpoint,
}

impl Phase {
    fn label(self) -> &'static str {
        match self {
            Self::WarmStart => "warm_start",
            Self::Generation => "generation",
            Self::Reward => "reward",
            Self::UpdateActor => "update_actor",
            Self::UpdateWeights => "update_weights",
            Self::Step => "step",
            Self::Evaluation => "evaluation",
            Self::Checkpoint => "checkpoint",
        }
    }
}

/// Records how long a phase took.
pub(crate) fn phase(phase: Phase, duration: Duration) {
    histogram!("evenkeel_run_phase_seconds", "phase" => phase.label()).record(duration);
}

/// Counts a finished step or evaluation.
pub(crate) fn step(kind: StepKind, policy_version: u64) {
    counter!("evenkeel_run_steps_total", "kind" => kind.label()).increment(1);
    gauge!("evenkeel_run_policy_version").set(policy_version as f64);
}

/// Counts a sample by its status: valid, invalid, failed or late.
pub(crate) fn sample(status: &'static str, response_tokens: usize) {
    counter!("evenkeel_run_samples_total", "status" => status).increment(1);
    counter!("evenkeel_run_response_tokens_total").increment(response_tokens as u64);
}

/// Counts the groups of a step by what became of them.
pub(crate) fn groups(result: &'static str, count: u64) {
    counter!("evenkeel_run_groups_total", "result" => result).increment(count);
}

/// Counts another attempt at something that failed. `service` is generation, reward, learner or disk.
pub(crate) fn retry(service: &'static str) {
    counter!("evenkeel_run_retries_total", "service" => service).increment(1);
}

/// Records how long a service was unreachable.
pub(crate) fn outage(service: &'static str, duration: Duration) {
    histogram!("evenkeel_run_outage_seconds", "service" => service).record(duration);
}

/// Counts a return to an earlier checkpoint.
pub(crate) fn rewind() {
    counter!("evenkeel_run_rewinds_total").increment(1);
}

/// Counts a run that ended.
pub(crate) fn run_ended(state: RunState) {
    counter!("evenkeel_runs_total", "state" => state.label()).increment(1);
}
