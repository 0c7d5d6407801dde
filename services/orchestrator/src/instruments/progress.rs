//! Where a run is, as gauges.

use std::time::Duration;

use evenkeel_proto::Label;
use evenkeel_proto::v1::RunState;
use metrics::{Gauge, gauge};
use tokio::sync::watch;

use crate::dependency::Dependency;
use crate::events::{Activity, RunProgress};

/// How often it is looked at, at most: a step has thousands of samples.
const INTERVAL: Duration = Duration::from_millis(100);

/// Shows what a run does, and its counts, until it has ended.
pub(crate) async fn follow(mut progress: watch::Receiver<RunProgress>) {
    loop {
        let has_ended = {
            let at = progress.borrow_and_update();
            show(&at);
            at.has_ended()
        };
        if has_ended || progress.changed().await.is_err() {
            return;
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

fn show(at: &RunProgress) {
    let is = |holds: bool| f64::from(u8::from(holds));
    for &state in RunState::SPECIFIED {
        gauge!("evenkeel_run_state", "state" => state.label()).set(is(at.state == state));
    }
    let activities = [
        ("publishing", Activity::Publishing),
        ("proving", Activity::Proving),
        ("checkpointing", Activity::Checkpointing),
    ];
    for (label, activity) in activities {
        gauge!("evenkeel_run_activity", "activity" => label).set(is(at.activity == activity));
    }
    gauge!("evenkeel_run_steps_done", "kind" => "train").set(at.step as f64);
    gauge!("evenkeel_run_steps_done", "kind" => "warm_start").set(at.warm_start_step as f64);
    gauge!("evenkeel_run_steps_planned").set(at.total_steps as f64);
    gauge!("evenkeel_run_step_samples", "state" => "all").set(at.samples as f64);
    gauge!("evenkeel_run_step_samples", "state" => "finished").set(at.samples_done as f64);
    gauge!("evenkeel_run_step_groups_trained").set(f64::from(at.groups_trained));
    if at.has_ended() {
        clear_waiting();
    }
}

/// Shows whether the run waits for a service or a disk.
pub(crate) fn waiting(service: Dependency, waits: bool) {
    gauge!("evenkeel_run_waiting", "service" => service.label()).set(f64::from(u8::from(waits)));
}

/// Shows that the run waits for nothing.
pub(super) fn clear_waiting() {
    Dependency::ALL.iter().for_each(|&service| waiting(service, false));
}

evenkeel_telemetry::labels! {
    /// Where a sample is that is not finished.
    pub(crate) enum Stage {
        /// Samples that are not started.
        Queued = "queued",
        /// With the generation service.
        Generating = "generating",
        /// Samples that a verifier has.
        Verifying = "verifying",
    }
}

impl Stage {
    fn gauge(self) -> Gauge {
        gauge!("evenkeel_run_samples_in_flight", "stage" => self.label())
    }
}

/// Shows that nothing is in flight yet.
pub(super) fn nothing_is_in_flight() {
    Stage::ALL.iter().for_each(|stage| stage.gauge().increment(0.0));
}

/// A sample at a stage, until it is dropped.
#[derive(Debug)]
pub(crate) struct AtStage(Stage);

impl AtStage {
    pub(crate) fn enter(stage: Stage) -> Self {
        stage.gauge().increment(1.0);
        Self(stage)
    }
}

impl Drop for AtStage {
    fn drop(&mut self) {
        self.0.gauge().decrement(1.0);
    }
}
