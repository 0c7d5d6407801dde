//! Metrics and the log line of a training step.

use std::path::PathBuf;
use std::time::Duration;

use evenkeel_host::free_space;
use evenkeel_proto::Label;
use evenkeel_proto::v1::{LearnerState, TrainKind, TrainReport};
use evenkeel_telemetry::on_scrape;

use crate::timeline::{Pass, WorkDone};

/// Records the metrics of a completed step.
pub(super) fn record(kind: TrainKind, report: &TrainReport, work: WorkDone, passes: &[Pass], total: Duration) {
    count_step(kind, if report.skipped { "skipped" } else { "updated" });
    let label = label(kind);
    let phases = [("scoring", work.scoring), ("gradient", work.gradient), ("optimizer", work.optimizer)];
    let waiting = total.saturating_sub(phases.iter().map(|(_, time)| *time).sum());
    for (phase, time) in phases.into_iter().chain([("waiting", waiting), ("total", total)]) {
        metrics::histogram!("evenkeel_training_step_seconds", "kind" => label, "phase" => phase).record(time);
    }
    let tokens = [
        ("prompt", report.prompt_tokens),
        ("response", report.response_tokens),
        ("trainable", report.trainable_tokens),
    ];
    for (of, count) in tokens {
        metrics::counter!("evenkeel_training_tokens_total", "kind" => label, "tokens" => of).increment(count);
    }
    metrics::counter!("evenkeel_training_micro_batches_total", "kind" => label).increment(work.micro_batches);
    for pass in passes {
        metrics::counter!("evenkeel_training_passes_total", "kind" => label, "pass" => pass.kind.label()).increment(1);
    }
    metrics::gauge!("evenkeel_learner_version").set(report.version as f64);
    tracing::info!(
        version = report.version,
        trainable_tokens = report.trainable_tokens,
        micro_batches = work.micro_batches,
        seconds = total.as_secs_f64(),
        skipped = report.skip_reason,
        "step done"
    );
}

/// Records what the learner is doing, and the version of its weights.
pub(super) fn record_state(state: LearnerState, version: u64) {
    for &of in LearnerState::SPECIFIED {
        metrics::gauge!("evenkeel_learner_state", "state" => of.label()).set(f64::from(u8::from(of == state)));
    }
    metrics::gauge!("evenkeel_learner_version").set(version as f64);
}

/// Reports free disk space on every scrape.
pub(super) fn watch_disks(folders: [(&'static str, PathBuf); 2]) {
    on_scrape(move || {
        for (name, folder) in &folders {
            if let Ok(space) = free_space(folder) {
                metrics::gauge!("evenkeel_learner_disk_free_bytes", "folder" => *name).set(space.free as f64);
            }
        }
        true
    });
}

/// Counts a step by its outcome.
pub(super) fn count_step(kind: TrainKind, outcome: &'static str) {
    metrics::counter!("evenkeel_training_steps_total", "kind" => label(kind), "outcome" => outcome).increment(1);
}

fn label(kind: TrainKind) -> &'static str {
    match kind {
        TrainKind::Supervised => "supervised",
        _ => "grpo",
    }
}
