//! Metrics of the learner.

use evenkeel_proto::v1::LearnerState;
use evenkeel_telemetry::{Series, Values};

const KIND: (&str, Values) = ("kind", Values::Of(&["grpo", "supervised"]));

/// Metrics of the learner, besides those of its server and its item stream.
pub const SERIES: &[Series] = &[
    Series::counter("evenkeel_training_steps_total", "training steps")
        .by(&[KIND, ("outcome", Values::Of(&["updated", "skipped", "failed", "cancelled"]))]),
    Series::histogram(
        "evenkeel_training_step_seconds",
        "parts of a step: `scoring` (old and reference log-probabilities), `gradient` (forward and backward), \
         `optimizer`, `waiting` (for groups: what is left of the whole), and the whole, `total` (header to report)",
    )
    .by(&[KIND, ("phase", Values::Of(&["scoring", "gradient", "optimizer", "waiting", "total"]))]),
    Series::counter("evenkeel_training_tokens_total", "tokens received")
        .by(&[KIND, ("tokens", Values::Of(&["prompt", "response", "trainable"]))]),
    Series::counter("evenkeel_training_micro_batches_total", "micro-batches through forward and backward").by(&[KIND]),
    Series::counter("evenkeel_training_passes_total", "passes over some micro-batches, and updates")
        .by(&[KIND, ("pass", Values::Of(&["scoring", "gradient", "update"]))]),
    Series::gauge("evenkeel_learner_state", "1 for what the learner does, 0 for the others")
        .by(&[("state", Values::Of(LearnerState::SPECIFIED_LABELS))]),
    Series::gauge("evenkeel_learner_version", "version of the weights"),
    Series::counter("evenkeel_ranks_lost_total", "times that ranks were lost, and all joined again").only(
        "several \
        ranks",
    ),
    Series::counter("evenkeel_scored_sequences_total", "sequences scored by `Score`"),
    Series::histogram("evenkeel_score_batch_seconds", "time to score a batch of sequences"),
    Series::histogram("evenkeel_publish_seconds", "time of writing weights for the engines"),
    Series::histogram("evenkeel_checkpoint_save_seconds", "time of writing a checkpoint"),
    Series::histogram("evenkeel_checkpoint_load_seconds", "time of loading a checkpoint"),
    Series::gauge("evenkeel_learner_disk_free_bytes", "free space on the disk of a folder")
        .by(&[("folder", Values::Of(&["checkpoints", "weights"]))]),
    Series::gauge("evenkeel_learner_device_free_bytes", "free memory of the GPU after a step").only("a GPU"),
    Series::gauge("evenkeel_learner_device_peak_bytes", "peak of the learner's memory pool on the GPU").only("a GPU"),
    Series::gauge(
        "evenkeel_learner_device_planned_bytes",
        "planned peak of that pool: full micro-batches of the \
        longest sequences",
    )
    .only("a GPU"),
];
