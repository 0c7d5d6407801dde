//! What a run counts and times for Prometheus. Names begin with `evenkeel_run_`; docs/observability.md lists them.

mod progress;
mod series;
mod values;

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use evenkeel_proto::Label;
use evenkeel_proto::v1::{RunState, StepKind};
use evenkeel_run::MetricsLine;
use evenkeel_telemetry::Series;
use metrics::{counter, gauge, histogram};

use crate::dependency::Dependency;

pub(crate) use progress::{AtStage, Stage, follow, waiting};

/// The series of the orchestrator, besides those of its server and its dispatchers.
pub fn series() -> [&'static [Series]; 2] {
    [series::RUN, &values::VALUES]
}

evenkeel_telemetry::labels! {
    /// A part of a run that is timed.
    pub(crate) enum TimedPart {
        /// A warm-start step.
        WarmStart = "warm_start",
        /// Until the last rollout of a step ended.
        Generation = "generation",
        /// From there to the last verdict.
        Reward = "reward",
        /// From there to the learner's report.
        UpdateActor = "update_actor",
        /// Publishing weights and updating the engines to them.
        UpdateWeights = "update_weights",
        /// A whole GRPO step.
        Step = "step",
        /// An evaluation.
        Evaluation = "evaluation",
        /// Writing a checkpoint.
        Checkpoint = "checkpoint",
    }
}

/// Records how long a part took.
pub(crate) fn part_took(part: TimedPart, duration: Duration) {
    histogram!("evenkeel_run_phase_seconds", "phase" => part.label()).record(duration);
}

/// Shows that a run begins, and forgets the values of the one before.
pub(crate) fn run_began(run_id: &str) {
    static LAST: Mutex<Option<String>> = Mutex::new(None);
    // A poisoned lock is harmless: its value is set in one assignment.
    let before = LAST.lock().unwrap_or_else(PoisonError::into_inner).replace(run_id.to_owned());
    if let Some(before) = before {
        gauge!("evenkeel_run_info", "run" => before).set(0.0);
    }
    gauge!("evenkeel_run_info", "run" => run_id.to_owned()).set(1.0);
    progress::clear_waiting();
    progress::nothing_is_in_flight();
    values::forget();
}

/// Counts a finished step or evaluation and shows its values.
pub(crate) fn line(line: &MetricsLine) {
    let kind = line.kind.label();
    counter!("evenkeel_run_steps_total", "kind" => kind).increment(1);
    gauge!("evenkeel_run_policy_version").set(line.policy_version as f64);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    gauge!("evenkeel_run_last_line_timestamp_seconds", "kind" => kind).set(now.as_secs_f64());
    if line.kind == StepKind::Evaluation {
        gauge!("evenkeel_run_evaluation_step").set(line.step as f64);
    }
    values::show(line);
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

/// Counts another attempt at something that failed.
pub(crate) fn retry(service: Dependency) {
    counter!("evenkeel_run_retries_total", "service" => service.label()).increment(1);
}

/// Counts an event of an environment that came too late: of a turn that was answered, or of an episode that is over.
pub(crate) fn late_event() {
    counter!("evenkeel_run_late_events_total").increment(1);
}

/// Records how long a service was unreachable.
pub(crate) fn outage(service: Dependency, duration: Duration) {
    histogram!("evenkeel_run_outage_seconds", "service" => service.label()).record(duration);
}

/// Counts a return to an earlier checkpoint.
pub(crate) fn rewind() {
    counter!("evenkeel_run_rewinds_total").increment(1);
}

/// Counts a run that ended.
pub(crate) fn run_ended(state: RunState) {
    counter!("evenkeel_runs_total", "state" => state.label()).increment(1);
}

/// An open connection to the page, until it is dropped.
#[derive(Debug)]
pub(crate) struct PageConnection(());

impl PageConnection {
    pub(crate) fn open() -> Self {
        gauge!("evenkeel_page_connections").increment(1.0);
        Self(())
    }
}

impl Drop for PageConnection {
    fn drop(&mut self) {
        gauge!("evenkeel_page_connections").decrement(1.0);
    }
}

/// Counts a connection that the page refused.
pub(crate) fn page_refused() {
    counter!("evenkeel_page_refused_total").increment(1);
}
