//! What the orchestrator counts.

use evenkeel_proto::v1::RunState;
use evenkeel_telemetry::{Series, Values};

use super::{Stage, TimedPart};
use crate::dependency::Dependency;

const SERVICE: (&str, Values) = ("service", Values::Of(Dependency::LABELS));

/// Series of a run, besides the values of its steps.
pub(super) const RUN: &[Series] = &[
    Series::gauge("evenkeel_run_info", "1 for the run that is or was the last one, 0 for earlier ones")
        .by(&[("run", Values::Few("runs since the start of the process"))]),
    Series::gauge("evenkeel_run_state", "1 for what the run does, 0 for the others")
        .by(&[("state", Values::Of(RunState::SPECIFIED_LABELS))]),
    Series::gauge("evenkeel_run_activity", "1 while that is done besides sampling and training")
        .by(&[("activity", Values::Of(&["publishing", "proving", "checkpointing"]))]),
    Series::gauge("evenkeel_run_waiting", "1 while the run waits for that service, or for room on a disk")
        .by(&[SERVICE]),
    Series::gauge("evenkeel_run_steps_done", "steps that are done")
        .by(&[("kind", Values::Of(&["train", "warm_start"]))]),
    Series::gauge("evenkeel_run_steps_planned", "GRPO steps of the recipe"),
    Series::gauge("evenkeel_run_step_samples", "samples of the current step or evaluation so far")
        .by(&[("state", Values::Of(&["all", "finished"]))]),
    Series::gauge("evenkeel_run_step_groups_trained", "groups of the current step whose gradient is computed"),
    Series::gauge(
        "evenkeel_run_samples_in_flight",
        "samples by where they are: not started, in generation, in \
        verification",
    )
    .by(&[("stage", Values::Of(Stage::LABELS))]),
    Series::gauge("evenkeel_run_last_line_timestamp_seconds", "when a step or evaluation ended last, Unix time")
        .by(&[("kind", Values::Of(&["train", "warm_start", "evaluation"]))]),
    Series::gauge("evenkeel_run_policy_version", "weights version of the newest recorded step"),
    Series::gauge("evenkeel_run_evaluation_step", "GRPO steps before the newest evaluation"),
    Series::counter("evenkeel_run_steps_total", "steps and evaluations recorded")
        .by(&[("kind", Values::Of(&["train", "warm_start", "evaluation"]))]),
    Series::histogram(
        "evenkeel_run_phase_seconds",
        "parts of a step, one after the other: `generation` until the last rollout, `reward` from there to the last \
         verdict, `update_actor` to the learner's report, `update_weights` to engines with the new weights; the whole \
         `step`; and `warm_start` steps, an `evaluation`, a `checkpoint`",
    )
    .by(&[("phase", Values::Of(TimedPart::LABELS))]),
    Series::counter("evenkeel_run_samples_total", "finished samples")
        .by(&[("status", Values::Of(&["valid", "invalid", "failed", "late"]))]),
    Series::counter("evenkeel_run_response_tokens_total", "tokens of their responses"),
    Series::counter("evenkeel_run_groups_total", "groups of GRPO steps")
        .by(&[("result", Values::Of(&["trained", "trained_zero_advantage", "dropped_zero_advantage"]))]),
    Series::counter("evenkeel_run_retries_total", "attempts after a failure").by(&[SERVICE]),
    Series::counter("evenkeel_run_late_events_total", "events of environments that came too late and were dropped")
        .only("environments"),
    Series::histogram("evenkeel_run_outage_seconds", "how long the run waited for a service or a disk").by(&[SERVICE]),
    Series::counter("evenkeel_run_rewinds_total", "returns to a checkpoint because the learner had lost its state"),
    Series::counter("evenkeel_runs_total", "runs that ended")
        .by(&[("state", Values::Of(&["completed", "stopped", "failed"]))]),
    Series::gauge("evenkeel_page_connections", "open connections to the page").only("`page.listen`"),
    Series::counter("evenkeel_page_refused_total", "connections to the page beyond its limit"),
];
