//! Metrics and the log line of a training step.

use std::time::Duration;

use evenkeel_proto::v1::{TrainKind, TrainReport};

use crate::trainer::WorkDone;

/// Records the metrics of a completed step.
pub(super) fn record(kind: TrainKind, report: &TrainReport, work: WorkDone, total: Duration) {
    count_step(kind, if report.skipped { "skipped" } else { "updated" });
    let label = label(kind);
    let phases = [("scoring", work.scoring), ("gradient", work.gradient), ("optimizer", work.optimizer)];
    for (phase, time) in phases.into_iter().chain([("total", total)]) {
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
